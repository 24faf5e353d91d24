"""The loss and its gradients are those of a computation by hand, in every form."""

import itertools

import numpy as np
import pytest
import torch

from distiller.static.settings import SkipgramSettings
from distiller.static.skipgram.objective import new_map, sums
from tests.distiller.static.skipgram.plain import gradients

WORDS, STATES, DIMENSION = 9, 7, 4
FORMS = list(itertools.product(["window", "none", "pairs"], ["centre", "pair"], [True, False]))


def some_batch(settings, seed):
    """States, contexts and negatives of six centres, with windows of one to three words."""
    numbers = np.random.default_rng(seed)
    contexts = [numbers.integers(0, WORDS, size).tolist() for size in (1, 3, 2, 3, 1, 2)]
    owners = len(contexts) if settings.negatives_per == "centre" else sum(map(len, contexts))
    negatives = numbers.integers(0, WORDS, (owners, 2))
    return numbers.normal(size=(len(contexts), STATES)), contexts, negatives


def padded(contexts):
    present = np.zeros((len(contexts), 3), bool)
    words = np.zeros((len(contexts), 3), np.int64)
    for row, of_centre in enumerate(contexts):
        places = [0, 1, 2] if len(of_centre) == 3 else [0, 2][-len(of_centre) :]  # gaps may be anywhere
        present[row, places], words[row, places] = True, of_centre
    return torch.from_numpy(words), torch.from_numpy(present)


@pytest.mark.parametrize(("attention", "negatives_per", "scaled"), FORMS)
def test_loss_and_gradients_are_those_of_plain_loops(attention, negatives_per, scaled):
    settings = SkipgramSettings(
        attention=attention, negatives_per=negatives_per, scaled=scaled, bias=True, dimension=DIMENSION
    ).completed("paper")
    states, contexts, negatives = some_batch(settings, seed=3)
    numbers = np.random.default_rng(4)
    table, bias = numbers.normal(size=(WORDS, DIMENSION)), numbers.normal(size=DIMENSION)
    weight = numbers.normal(size=(DIMENSION, STATES))
    leaves = [torch.tensor(values, requires_grad=True) for values in (weight, bias, table)]
    centres = torch.from_numpy(states) @ leaves[0].T + leaves[1]
    found = sums(centres, leaves[2], *padded(contexts), torch.from_numpy(negatives), settings)
    of_torch = torch.autograd.grad(found.targets + found.negatives, leaves)
    targets, against, predictions, *of_hand = gradients(states, contexts, negatives, weight, bias, table, settings)
    assert found.predictions == predictions
    np.testing.assert_allclose([found.targets.item(), found.negatives.item()], [targets, against], rtol=1e-12)
    for ours, by_hand in zip(of_torch, of_hand, strict=True):
        np.testing.assert_allclose(ours.numpy(), by_hand, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("attention", "negatives_per", "scaled"), FORMS)
def test_gradients_by_hand_are_those_of_small_differences(attention, negatives_per, scaled):
    settings = SkipgramSettings(
        attention=attention, negatives_per=negatives_per, scaled=scaled, dimension=DIMENSION
    ).completed("paper")
    states, contexts, negatives = some_batch(settings, seed=5)
    numbers = np.random.default_rng(6)
    values = [numbers.normal(size=(DIMENSION, STATES)), np.zeros(DIMENSION), numbers.normal(size=(WORDS, DIMENSION))]

    def loss():
        targets, against, *_ = gradients(states, contexts, negatives, *values, settings)
        return targets + against

    of_hand = gradients(states, contexts, negatives, *values, settings)[3:]
    for value, gradient in zip(values, of_hand, strict=True):
        for place in [tuple(numbers.integers(0, size) for size in value.shape) for _ in range(6)]:
            original, step = value[place], 1e-5
            value[place] = original + step
            above = loss()
            value[place] = original - step
            below = loss()
            value[place] = original
            assert gradient[place] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-7)


def test_the_map_follows_from_the_seed_and_has_a_bias_only_in_the_published_preset():
    maps = [
        new_map(SkipgramSettings().completed(preset), 8, torch.Generator().manual_seed(1))
        for preset in ("paper", "published")
    ]
    assert maps[0].bias is None
    assert maps[1].bias.abs().sum() == 0
    assert torch.equal(maps[0].weight, maps[1].weight)
