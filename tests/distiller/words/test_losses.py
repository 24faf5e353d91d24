"""Each term is what the paper says, and parts of a batch add up to the whole."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from distiller.training.data import rank_range
from distiller.words.losses import Term, term_losses, terms_of, worker_weight
from distiller.words.model import Distilled, TrainingPosition, WordModel, own_vectors


def vectors(rows=5, dimension=6, seed=0):
    values = torch.randn(3, 3, rows, dimension, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Distilled(values[0], values[1]), values[2]


def paper(meaning, context, own):
    """The terms of method and ablation, written down with NumPy from the formulas."""
    (hm, pm, nm), (hc, pc, nc), (y, p, n) = (np.asarray(x) for x in (meaning, context, own))

    def mse(a, b):
        return float(((a - b) ** 2).sum(1).mean() / a.shape[1])

    pair = [mse((hm + hc) / 2, y), mse((pm + pc) / 2, p), mse((hm + pc) / 2, p), mse((pm + hc) / 2, y)]
    own_negative = mse((nm + nc) / 2, n)
    return {
        "monolingual": [*pair, own_negative, mse((nm + hc) / 2, n), mse((hm + nc) / 2, y)],
        "crosslingual": [*pair, own_negative, mse((nm + pc) / 2, n), mse((hm + nc) / 2, p)],
        "without negatives": pair,
    }


@pytest.mark.parametrize(
    ("kind", "terms"),
    [
        ("monolingual", terms_of()),
        ("crosslingual", terms_of(crosslingual=True)),
        ("without negatives", terms_of(negatives=False)),
        ("without negatives", terms_of(negatives=False, crosslingual=True)),
    ],
)
def test_every_term_is_the_papers(kind, terms):
    distilled, own = vectors()
    losses = term_losses(distilled, own, terms)
    assert losses.tolist() == pytest.approx(paper(*distilled, own)[kind], rel=1e-12)
    assert len({term.name for term in terms}) == len(terms)


def test_without_negatives_none_are_needed():
    distilled, own = vectors()
    terms = terms_of(negatives=False)
    pairs = term_losses(Distilled(distilled.meaning[:2], distilled.context[:2]), own[:2], terms)
    assert torch.equal(pairs, term_losses(distilled, own, terms))


def test_a_name_says_what_a_term_does():
    assert Term("negative_by_context_of_original", 2, 0, 2) in terms_of()
    assert Term("positive_by_context_of_negative", 0, 2, 1) in terms_of(crosslingual=True)


@settings(deadline=None)
@given(rows=st.integers(1, 40), workers=st.integers(1, 8))
def test_the_average_over_workers_is_the_mean_over_the_batch(rows, workers):
    distilled, own = vectors(rows)
    weight = worker_weight(workers, rows)
    parts = []
    for rank in range(workers):  # with more workers than rows some have none
        own_rows = list(rank_range(rows, rank, workers))
        part = Distilled(distilled.meaning[:, own_rows], distilled.context[:, own_rows])
        parts.append(term_losses(part, own[:, own_rows], terms_of(), weight))
    assert torch.allclose(torch.stack(parts).mean(0), term_losses(distilled, own, terms_of()))


@pytest.mark.parametrize("workers", [2, 3, 12])
def test_averaged_gradients_of_workers_are_those_of_one(workers):
    rows = 10
    model = WordModel(16, dropout=0.2).train()
    states = torch.randn(3, rows, 2, 16)

    def gradients(first, stop, weight):
        model.zero_grad()
        part = states[:, first:stop]
        distilled = model(part, TrainingPosition(0, 0, first))
        term_losses(distilled, own_vectors(part), terms_of(), weight).sum().backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    alone = gradients(0, rows, None)
    ranges = [rank_range(rows, rank, workers) for rank in range(workers)]
    together = [gradients(r.start, r.stop, worker_weight(workers, rows)) for r in ranges]
    assert alone.abs().max() > 0.01
    assert torch.allclose(torch.stack(together).mean(0), alone, atol=1e-6)


def leaves(node):
    """The tensors that a backward pass from here gives a gradient."""
    found, seen, waiting = [], set(), [node]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            found += [node.variable] if hasattr(node, "variable") else []
            waiting += [before for before, _ in node.next_functions]
    return found


@pytest.mark.parametrize("terms", [terms_of(), terms_of(crosslingual=True), terms_of(negatives=False)])
def test_gradients_of_each_term_reach_both_distillers_and_nothing_else(terms):
    model = WordModel(16).train()
    states = torch.randn(3, 4, 2, 16)
    losses = term_losses(model(states, TrainingPosition(0, 0)), own_vectors(states), terms)
    for loss in losses:
        model.zero_grad()
        loss.backward(retain_graph=True)
        for name, parameter in model.named_parameters():
            assert parameter.grad.abs().sum() > 0, name
        assert {id(leaf) for leaf in leaves(loss.grad_fn)} == {id(parameter) for parameter in model.parameters()}
