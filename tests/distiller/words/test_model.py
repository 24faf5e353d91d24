"""The distillers are the paper's encoder layer, and their dropout depends on the position in the training alone."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from distiller.words.model import StatelessDropout, TrainingPosition, WordModel, own_vectors

DIMENSION, LAYERS = 16, 3


def states(rows, members=3, seed=0):
    return torch.randn(members, rows, LAYERS, DIMENSION, generator=torch.Generator().manual_seed(seed))


def reference(model, distiller):
    """PyTorch's own encoder layer with the distiller's weights."""
    d, heads = model.meaning.contract.out_features, model.meaning.attention.heads
    layer = nn.TransformerEncoderLayer(d, heads, 4 * d, 0.1, activation="gelu", batch_first=True)
    names = {
        "self_attn.in_proj_": "attention.query_key_value.",
        "self_attn.out_proj.": "attention.output.",
        "linear1.": "expand.",
        "linear2.": "contract.",
        "norm1.": "attention_norm.",
        "norm2.": "contract_norm.",
    }
    ours = distiller.state_dict()
    layer.load_state_dict({t + kind: ours[o + kind] for t, o in names.items() for kind in ("weight", "bias")})
    return layer


@pytest.mark.parametrize(("dimension", "heads", "layers"), [(16, 8, 3), (24, 4, 12), (64, 8, 1)])
def test_in_evaluation_it_is_pytorchs_encoder_layer(dimension, heads, layers):
    model = WordModel(dimension, heads)
    for parameter in model.parameters():  # norms and biases too, which begin as ones and zeros
        nn.init.normal_(parameter, std=0.2)
    model.eval()
    words = torch.randn(5, layers, dimension)
    distilled = model(words)
    for distiller, vectors in ((model.meaning, distilled.meaning), (model.context, distilled.context)):
        expected = reference(model, distiller).eval()(words).mean(1)
        assert torch.allclose(vectors, expected, atol=1e-5)
    assert not torch.allclose(distilled.meaning, distilled.context, atol=1e-2)


def test_it_learns_like_pytorchs_encoder_layer_without_dropout():
    model = WordModel(DIMENSION, dropout=0.0).train()
    layer = reference(model, model.meaning)
    for module in layer.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    layer.self_attn.dropout = 0.0
    words = states(4)
    model(words).meaning.square().sum().backward()
    layer(words.flatten(0, 1)).mean(1).square().sum().backward()
    assert torch.allclose(model.meaning.expand.weight.grad, layer.linear1.weight.grad, atol=1e-5)
    assert torch.allclose(
        model.meaning.attention.query_key_value.weight.grad, layer.self_attn.in_proj_weight.grad, atol=1e-5
    )


def test_initialisation_is_that_of_pytorchs_encoder_layer():
    torch.manual_seed(1)
    model, theirs = WordModel(64, seed=1), nn.TransformerEncoderLayer(64, 8, 256, activation="gelu")
    ours = reference(model, model.context)
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        # Uniform in the same bounds, or the same constant.
        assert a.abs().max().item() == pytest.approx(b.abs().max().item(), rel=0.15), name
        assert a.std().item() == pytest.approx(b.std().item(), rel=0.15, abs=1e-9), name


def test_initialisation_follows_the_seed_and_touches_no_random_state():
    before = torch.get_rng_state()
    first, again, other = WordModel(16, seed=3), WordModel(16, seed=3), WordModel(16, seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.meaning.expand.weight, other.meaning.expand.weight)
    assert not torch.equal(first.meaning.expand.weight, first.context.expand.weight)


def test_names_of_saved_weights_never_change():
    parts = ("attention.query_key_value", "attention.output", "attention_norm", "expand", "contract", "contract_norm")
    assert set(WordModel(16).state_dict()) == {
        f"{distiller}.{part}.{kind}"
        for distiller in ("meaning", "context")
        for part in parts
        for kind in ("weight", "bias")
    }


def test_heads_that_do_not_fit_are_refused_with_those_that_do():
    with pytest.raises(ValueError, match=r"8 heads cannot share 100 dimensions evenly.*1, 2, 4, 5, 10, 20, 25$"):
        WordModel(100)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_an_impossible_share_of_dropout_is_refused(share):
    with pytest.raises(ValueError, match="dropout must be"):
        WordModel(16, dropout=share)


def test_half_precision_states_are_distilled_in_the_models_precision():
    model = WordModel(DIMENSION).eval()
    half = states(4).half()
    assert model(half).meaning.dtype == torch.float32
    assert torch.equal(model(half).meaning, model(half.float()).meaning)
    assert torch.equal(own_vectors(half), half.float().mean(2))


def test_evaluation_needs_no_position_and_training_does():
    model = WordModel(DIMENSION)
    with pytest.raises(ValueError, match="give `position`"):
        model.train()(states(2))
    model.eval()
    assert torch.equal(model(states(2)).meaning, model(states(2), TrainingPosition(0, 0)).meaning)


def test_dropout_drops_its_share_and_keeps_the_mean():
    kept = StatelessDropout(0.1, "a").train()(torch.ones(3, 1000, 40), TrainingPosition(0, 0))
    assert (kept == 0).float().mean().item() == pytest.approx(0.1, abs=0.005)
    assert kept.mean().item() == pytest.approx(1, abs=0.005)
    assert kept.unique().tolist() == pytest.approx([0, 1 / 0.9], rel=1e-4)
    by_member, by_row, by_value = ((kept == 0).float().mean(axes) for axes in ((1, 2), (0, 2), (0, 1)))
    assert by_member.std() < 0.01
    assert by_row.std() < 0.04
    assert by_value.std() < 0.02


def test_masks_differ_by_seed_step_layer_row_and_member():
    def mask(name="a", seed=0, step=0, first_row=0):
        values = torch.ones(2, 40, 32)
        return StatelessDropout(0.5, name).train()(values, TrainingPosition(seed, step, first_row)) == 0

    base = mask()
    assert torch.equal(base, mask())
    for other in (
        mask("b"),
        mask(seed=1),
        mask(step=1),
        mask(first_row=40),
        base.flip(0),
        base.roll(1, 1),
        base.roll(16, 1),
    ):
        assert (base == other).float().mean().item() == pytest.approx(0.5, abs=0.05)


def test_every_dropout_of_the_model_has_a_name_of_its_own():
    names = [module.name for module in WordModel(16).modules() if isinstance(module, StatelessDropout)]
    assert len(names) == len(set(names)) == 8


@settings(deadline=None, max_examples=40)
@given(rows=st.integers(1, 70), cuts=st.lists(st.integers(0, 70), max_size=3), step=st.integers(0, 5))
def test_a_batch_divided_among_workers_is_distilled_as_a_whole_one(rows, cuts, step):
    model = WordModel(DIMENSION, dropout=0.3).train()
    batch = states(rows)
    whole = model(batch, TrainingPosition(7, step))
    edges = [0, *sorted(min(cut, rows) for cut in cuts), rows]
    parts = [model(batch[:, start:stop], TrainingPosition(7, step, start)) for start, stop in itertools.pairwise(edges)]
    for name in ("meaning", "context"):
        together = torch.cat([getattr(part, name) for part in parts], 1)
        assert torch.allclose(together, getattr(whole, name), atol=1e-5)


def test_training_ignores_the_random_state():
    model = WordModel(DIMENSION).train()
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        results.append(model(states(8), TrainingPosition(0, 3)).meaning)
    assert torch.equal(*results)
    assert not torch.allclose(results[0], model(states(8), TrainingPosition(0, 4)).meaning, atol=1e-3)
