"""The line that tells how a training is doing."""

from distiller.training.progress import line

NEWS = {"step": 1200, "last_step": 4000, "epoch": 1.5, "rate": 2345.6, "validation": {}}


def test_few_terms_are_named_and_many_are_thousandths():
    few = line({**NEWS, "terms": {"meaning": 0.75, "same_context": 0.5}})
    assert few == (
        "step 1,200 of at most 4,000, epoch 1.5: loss 1.2500 (meaning 0.7500, same context 0.5000), 2,346 rows/s"
    )
    many = line({**NEWS, "terms": {f"term_{n}": n / 1000 for n in range(1, 8)}})
    assert "loss 0.0280 (terms in thousandths: 1 2 3 4 5 6 7), 2,346 rows/s" in many


def test_held_out_rows_are_beside_the_frozen_model_if_their_order_says_something():
    held_out = {"loss": 0.5, "ordered": 0.75, "ordered_frozen": 0.5, "differing": 8}
    news = {**NEWS, "terms": {"meaning": 0.75}}
    told = line({**news, "validation": held_out})
    assert told.endswith("; held out: loss 0.5000, 75.0% ordered (frozen model 50.0%)")
    assert line({**news, "validation": {**held_out, "differing": 0}}).endswith("; held out: loss 0.5000")
