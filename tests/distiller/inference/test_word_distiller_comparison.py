"""Vectors are compared by their cosines, and the nearest are those of a full sort."""

import numpy as np
import pytest
import torch

from distiller.inference.word_distiller import WordDistiller


def cosines_of(a, b):
    return np.array([[x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) for y in b] for x in a])


def test_similarity_is_the_cosine():
    chance = np.random.default_rng(0)
    a, b = chance.normal(size=(4, 8)), chance.normal(size=(6, 8)) * 100
    np.testing.assert_allclose(WordDistiller.similarity(a, b), cosines_of(a, b), atol=1e-6)
    np.testing.assert_allclose(WordDistiller.similarity(torch.tensor(a), b.tolist()), cosines_of(a, b), atol=1e-6)
    assert WordDistiller.similarity(a[0], b[0]).shape == (1, 1)
    assert WordDistiller.similarity(a[0], b).shape == (1, 6)
    assert WordDistiller.similarity(np.zeros((0, 8)), b).shape == (0, 6)


def test_a_zero_vector_is_like_nothing():
    assert WordDistiller.similarity(np.zeros(8), np.ones((2, 8))).tolist() == [[0, 0]]
    rows, cosines = WordDistiller.nearest(np.ones(8), [-np.ones(8), np.zeros(8), np.ones(8)], 3)
    assert rows.tolist() == [[2, 1, 0]]
    assert cosines[0] == pytest.approx([1, 0, -1], abs=1e-6)


@pytest.mark.parametrize("k", [0, 1, 5, 49, 50, 60])
def test_the_nearest_are_those_of_a_full_sort(k):
    chance = np.random.default_rng(1)
    query, candidates = chance.normal(size=(7, 8)), chance.normal(size=(50, 8))
    rows, cosines = WordDistiller.nearest(query, torch.tensor(candidates), k)
    expected = cosines_of(query, candidates)
    best = np.argsort(-expected, axis=1)[:, :k]
    np.testing.assert_array_equal(rows, best)
    np.testing.assert_allclose(cosines, np.take_along_axis(expected, best, 1), atol=1e-6)
    assert rows.shape == (7, min(k, 50))


def test_equals_come_in_the_order_of_their_rows():
    one, other = [1.0, 0.0], [0.0, 1.0]
    candidates = np.array([other, one, other, one, other] * 20)
    rows, _ = WordDistiller.nearest(one, candidates, 60)
    best = [row for row, candidate in enumerate(candidates) if candidate[0] == 1]
    assert rows[0][:40].tolist() == best
    assert rows[0][40:].tolist() == sorted(rows[0][40:])


@pytest.mark.parametrize("k", range(8))
def test_of_equals_at_the_end_the_first_are_taken(k):
    one, other = [1.0, 0.0], [0.0, 1.0]
    rows, _ = WordDistiller.nearest([one, other], np.array([other, one] * 50), k)
    assert rows.tolist() == [list(range(1, 100, 2))[:k], list(range(0, 100, 2))[:k]]


def test_a_negative_number_of_neighbours_is_refused():
    with pytest.raises(ValueError, match="k must be at least 0, not -1"):
        WordDistiller.nearest([1.0, 0.0], [[1.0, 0.0]] * 3, -1)


def test_nothing_is_near_where_there_is_nothing():
    assert WordDistiller.nearest(np.ones((2, 8)), np.zeros((0, 8)))[0].shape == (2, 0)
    assert WordDistiller.nearest(np.zeros((0, 8)), np.ones((3, 8)))[0].shape == (0, 3)
