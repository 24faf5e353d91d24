"""The objective `contrast`: its loss, the model that starts at the frozen one, and many workers that act as one."""

import math

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.nn.functional import cosine_similarity, normalize

from corpusgen.errors import ConfigError
from corpusgen.store.products import DISCOURSE, WORDS
from distiller.training.loop import Training
from distiller.words.info_nce import estimated_info_nce, info_nce, others_of_same_word
from distiller.words.model import own_vectors
from distiller.words.objective import check_fits, objective_of
from distiller.words.residual import ResidualModel
from distiller.words.row_facts import BatchFacts
from distiller.words.saved import SavedModel, ordered_text
from tests.distiller.support import DIMENSION, LAYERS_OF_PAIRS, made_pairs, settings

LAYERS = LAYERS_OF_PAIRS


def contrast(**changed):
    values = {"objective": "contrast", "max_epochs": 4, "learning_rate": 1e-2, "decay": "cosine", "batch_size": 32}
    return settings(**{**values, **changed})


def about(word):
    nothing = torch.zeros_like(word)
    return BatchFacts(word, nothing.bool(), nothing.to(torch.uint8), sentence=nothing)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_loss_is_that_of_a_plain_loop(share):
    generator = torch.Generator().manual_seed(0)
    one, other, hard = torch.randn(3, 7, 5, generator=generator).double()
    word = torch.tensor([0, 1, 2, 1, 3, 4, 0])
    has = torch.tensor([True, True, False, True, True, False, True])
    also = torch.randn(7, 7, generator=generator).double()
    found = info_nce(one, other, hard, has, others_of_same_word(about(word)), 0.3, 4.0, also=also, also_share=share)
    losses = []
    for anchors, partners, right in ((one, other, also), (other, one, also.T)):
        for row, anchor in enumerate(anchors):
            choices = {
                column: math.exp(cosine_similarity(anchor, partner, dim=0) / 0.3)
                for column, partner in enumerate(partners)
                if column == row or word[column] != word[row]
            }
            extra = 4.0 * math.exp(cosine_similarity(anchor, hard[row], dim=0) / 0.3) if has[row] else 0.0
            answer = {column: math.exp(right[row, column]) for column in choices if column != row}
            answer = {column: share * value / sum(answer.values()) for column, value in answer.items()}
            answer[row] = 1 - share
            given = sum(choices.values()) + extra
            losses.append(-sum(part * math.log(choices[column] / given) for column, part in answer.items()))
    assert found.item() == pytest.approx(np.mean(losses), rel=1e-12)


def test_rows_without_a_partner_take_no_part_in_the_loss():
    generator = torch.Generator().manual_seed(0)
    one, other, hard = torch.randn(3, 7, 5, generator=generator).double()
    word = torch.tensor([0, 1, 2, 1, 3, 4, 0])
    has = torch.tensor([True, True, False, True, True, False, True])
    other[~has] = 0  # absent members are zeros

    def loss(rows, **keywords):
        same = others_of_same_word(about(word[rows]))
        return info_nce(one[rows], other[rows], hard[rows], has[rows], same, 0.3, 4.0, **keywords)

    every = torch.ones(7, dtype=torch.bool)
    assert loss(every, has_partner=has).item() == pytest.approx(loss(has).item(), rel=1e-12)
    one.requires_grad_()
    nothing = loss(every, has_partner=~every)
    nothing.backward()
    assert nothing.item() == 0
    assert torch.equal(one.grad, torch.zeros_like(one))


def test_the_estimated_loss_counts_one_row_for_all_others():
    positive, hard, unrelated = torch.tensor([[0.9, 0.5], [0.4, 0.3], [0.1, -0.2]]).double()
    found = estimated_info_nce(positive, hard, torch.tensor([True, False]), unrelated, 0.5, weight=3.0, others=10)
    for row, has in ((0, 1), (1, 0)):
        p, h, u = (math.exp(cosines[row] / 0.5) for cosines in (positive, hard, unrelated))
        assert found[row].item() == pytest.approx(-math.log(p / (p + has * 3 * h + 10 * u)))


@pytest.mark.parametrize("head", ["linear", "transformer"])
def test_an_untrained_model_gives_the_frozen_vectors(head):
    model = ResidualModel(LAYERS, DIMENSION, base_layers=2, head=head, heads=4).eval()
    states = torch.randn(5, LAYERS, DIMENSION)
    meaning, context, in_sentence = model(states)
    assert torch.equal(meaning, own_vectors(states[:, 2:]))
    assert torch.equal(context, model.own(states))
    assert torch.equal(in_sentence, model.own(states))
    with pytest.raises(ValueError, match="top 5 of 4 layers"):
        ResidualModel(LAYERS, DIMENSION, base_layers=5)


def test_the_strength_of_the_correction_counts_in_use_but_not_in_training():
    model = ResidualModel(LAYERS, DIMENSION, base_layers=2)
    model.meaning.strength.fill_(0.25)
    torch.nn.init.normal_(model.meaning.correction.maps)
    states = torch.randn(5, LAYERS, DIMENSION)
    whole = model.train()(states).meaning - model.own(states)
    assert torch.allclose(model.eval()(states).meaning - model.own(states), 0.25 * whole, atol=1e-5)


def test_words_in_a_sentence_have_a_correction_of_their_own():
    model = ResidualModel(LAYERS, DIMENSION, base_layers=2).eval()
    torch.nn.init.normal_(model.meaning.correction.maps)
    torch.nn.init.normal_(model.sentence.correction.map)
    states = torch.randn(5, LAYERS, DIMENSION)
    model.fit(states)
    base = states[:, -2:]
    expected = base.mean(1) + (base - base.mean(0)).sum(1) @ model.sentence.correction.map
    assert torch.allclose(model.in_sentence(states), expected, atol=1e-4)
    assert torch.equal(model(states).in_sentence, model.in_sentence(states))
    without = ResidualModel(LAYERS, DIMENSION, base_layers=2, with_sentence=False).eval()
    torch.nn.init.normal_(without.meaning.correction.maps)
    assert torch.equal(without.in_sentence(states), without(states).meaning)
    assert torch.equal(without(states).in_sentence, without(states).meaning)


def test_the_correction_is_as_strong_as_what_must_be_kept_allows(tmp_path):
    features = made_pairs(tmp_path)
    strengths = []
    for kept in (0.99, 0.9, 0.7, 0.01):
        training = Training(contrast(contrast={"kept": kept}), features)
        training.validate()
        assert training.model.meaning.strength == 1  # an untrained model changes nothing
        for _ in training.run():
            pass
        own, correction = training.model.meaning.parts(training._some_held_out_states[:2].clone())

        def changes(strength, own=own, correction=correction):
            first, second = (own + strength * correction).detach()
            before, after = (
                cosine_similarity(vectors, vectors.roll(len(vectors) // 2, 0), dim=-1) for vectors in (first, second)
            )
            return before - after

        strength = training.model.meaning.strength.item()
        strengths.append(strength)
        assert np.corrcoef(changes(0), changes(strength))[0, 1] >= kept - 1e-6
        if strength < 1:
            assert np.corrcoef(changes(0), changes(strength + 1 / 128))[0, 1] < kept
    assert strengths == sorted(strengths)
    assert 0 < strengths[0] < 0.5
    assert strengths[-1] == 1


def test_corrections_may_see_words_as_they_are(tmp_path):
    training = Training(contrast(contrast={"centred": False}), made_pairs(tmp_path))
    assert not training.model.meaning.mean.any()


def test_corrections_leave_the_mean_of_all_words_where_it_is(tmp_path):
    training = Training(contrast(contrast={"strength": 1.0}), made_pairs(tmp_path))
    assert training.model.meaning.mean.any()
    for _ in training.run():
        pass
    states = training._some_states()[:2].flatten(0, 1)
    model = training.model.eval()
    corrections = [vectors - model.own(states) for vectors in model(states)]
    for correction in corrections:
        assert correction.norm(dim=-1).mean() > 0.1
        assert torch.allclose(correction.mean(0), torch.zeros(DIMENSION), atol=1e-5)


def test_preservation_keeps_different_words_as_similar_as_they_were(tmp_path):
    features = made_pairs(tmp_path)
    words = features.facts["word"]

    def moved(weight):
        training = Training(contrast(contrast={"preservation": weight, "strength": 1.0}), features)
        for _ in training.run():
            pass
        model, states = training.model.eval(), features.batch(np.arange(len(features)))[0]
        now, before = (normalize(vectors, dim=-1).detach() for vectors in (model(states).meaning, model.own(states)))
        different = torch.from_numpy(words[:, None] != words[None])
        return (now @ now.T - before @ before.T)[different].square().mean()

    assert moved(30.0) < moved(0.0) / 3


@pytest.mark.parametrize("head", ["linear", "transformer"])
def test_training_brings_meanings_and_contexts_together(tmp_path, head):
    training = Training(contrast(contrast={"head": head, "strength": 1.0}), made_pairs(tmp_path))
    before = training.validate()
    *_, (_, _, last) = training.run()
    assert before.ordered == before.ordered_frozen == last.ordered_frozen
    assert last.ordered > before.ordered + 0.05
    assert last.differing < len(training._held_out)  # rows without the same word elsewhere do not count
    assert all(last.terms[name] < before.terms[name] - 0.1 for name in ("meaning", "context"))


def test_the_frozen_vector_is_the_mean_of_the_top_half_whichever_layers_are_used():
    for first, layers, expected in ((1, 12, 6), (0, 13, 6), (7, 6, 6), (3, 10, 6), (1, 5, 3), (9, 4, 4), (1, 1, 1)):
        chosen = contrast(backbone={"model": "none", "first_layer": first})
        assert objective_of(chosen).new_model(layers, DIMENSION).base_layers == expected
    assert contrast().backbone.first_layer == 1  # contrast uses all layers
    assert settings().backbone.first_layer is None


def test_mixed_precision_leaves_the_frozen_vector_as_it_is():
    model = ResidualModel(LAYERS, DIMENSION, base_layers=2).train()
    states = torch.randn(5, LAYERS, DIMENSION)
    with torch.autocast("cpu", torch.bfloat16):
        meaning = model(states).meaning
    assert torch.equal(meaning, model.own(states))


def test_the_best_model_is_that_of_the_meanings_whatever_contexts_do(tmp_path):
    training = Training(contrast(), made_pairs(tmp_path))
    found = [validation for _, _, validation in training.run() if validation]
    losses = [validation.terms["meaning"] + validation.terms["preservation"] for validation in found]
    assert training.progress.best_loss == pytest.approx(min(losses), abs=training.settings.min_delta)
    assert found[-1].loss == pytest.approx(sum(found[-1].terms.values()))


def trained(rank, workers, folder, head):
    if workers > 1:
        dist.init_process_group("gloo", f"file://{folder}/group{workers}", rank=rank, world_size=workers)
    torch.set_num_threads(1)
    chosen = contrast(batch_size=33, max_epochs=2, contrast={"head": head})
    training = Training(chosen, made_pairs(folder / f"features{rank}"), rank, workers)
    losses = [(step, dict(terms)) for step, terms, _ in training.run()]
    torch.save((losses, training.model.state_dict()), folder / f"{workers}-{rank}.pt")
    if workers > 1:
        dist.destroy_process_group()


@pytest.mark.parametrize(("workers", "head"), [(2, "linear"), (2, "transformer"), (4, "linear")])
def test_workers_together_have_the_losses_and_the_model_of_one(tmp_path, workers, head):
    """Batches of 33 rows, so that the parts of workers differ in size, and a smaller last one.

    Equal but for the order in which numbers are added up.
    """
    trained(0, 1, tmp_path, head)
    processes.spawn(trained, (workers, tmp_path, head), nprocs=workers)
    one, first, *others = (torch.load(tmp_path / f"{w}-{n}.pt") for w in (1, workers) for n in range(w))
    assert [step for step, _ in one[0]] == [step for step, _ in first[0]]
    assert all(other[0] == first[0] for other in others)
    for (_, alone), (_, together) in zip(one[0], first[0], strict=True):
        assert together == pytest.approx(alone, rel=1e-4)
    for name, weights in one[1].items():
        assert torch.allclose(weights, first[1][name], atol=1e-3 if head == "transformer" else 1e-4), name


@pytest.mark.parametrize("head", ["linear", "transformer"])
def test_a_restart_goes_on_bit_for_bit(tmp_path, head):
    features = made_pairs(tmp_path)
    whole, begun, resumed = (Training(contrast(contrast={"head": head}), features) for _ in range(3))
    expected = [dict(terms) for _, terms, _ in whole.run()]
    steps = begun.run()
    got = [dict(next(steps)[1]) for _ in range(10)]
    resumed.load_state(begun.state())
    got += [dict(terms) for _, terms, _ in resumed.run()]
    assert got == expected


@pytest.mark.parametrize(("head", "sentence"), [("linear", 0.4), ("transformer", 0.4), ("linear", None)])
def test_a_saved_model_gives_the_same_vectors(tmp_path, head, sentence):
    chosen = contrast(contrast={"head": head, "strength": 0.5, "sentence_temperature": sentence}, max_epochs=1)
    training = Training(chosen, made_pairs(tmp_path))
    *_, (_, _, validation) = training.run()
    saved = SavedModel.of(training.model, chosen, range(1, LAYERS + 1), {}, vars(validation))
    states = torch.randn(6, LAYERS, DIMENSION)
    loaded = saved.word_model().eval()
    for mine, theirs in zip(training.model.eval()(states), loaded(states), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(loaded(states).in_sentence, loaded(states).meaning) == (sentence is None)
    assert saved.config["format"] == (1 if sentence is None else 2)  # versions before know no such correction
    assert torch.equal(loaded.own(states), own_vectors(states[:, LAYERS // 2 :]))
    assert "Strength of the correction: 0.5" in saved.card
    assert ("whole texts" in saved.card) == (sentence is not None)


def test_heads_count_only_where_there_are_any():
    assert objective_of(contrast(heads=5)).new_model(LAYERS, DIMENSION)
    with pytest.raises(ValueError, match="5 heads cannot share"):
        objective_of(contrast(heads=5, contrast={"head": "transformer"})).new_model(LAYERS, DIMENSION)


def test_what_a_corpus_must_have():
    check_fits(contrast(), DISCOURSE)
    check_fits(contrast(), WORDS)
    with pytest.raises(ConfigError, match=r"negative in the sentence of the original.*set objective to contrast"):
        check_fits(settings(), DISCOURSE)
    assert objective_of(contrast()).term_names == ("meaning", "context", "preservation", "sentence")


def test_what_is_said_of_held_out_pairs():
    found = {"ordered": 0.75, "ordered_frozen": 0.5, "differing": 1200}
    assert ordered_text(found, has_pairs=True) == (
        "75.0% of 1,200 held-out pairs nearer to each other than to the word in another document, "
        "50.0% by the frozen model"
    )
    none = {"ordered": math.nan, "ordered_frozen": math.nan, "differing": 0}
    assert ordered_text(none, has_pairs=True) == "no held-out row has the same word in another document"
