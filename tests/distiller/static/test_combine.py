"""Combined tables: the closed form of geometric meta-embeddings is the optimum of the published problem."""

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize

from corpusgen.errors import ConfigError
from distiller.static import vectors as module
from distiller.static.combine import combine, geometric_maps, ridge
from distiller.static.vectors import StaticVectors
from tests.distiller.static.support import random_table

seeds = pytest.mark.parametrize("seed", range(3))
shapes = pytest.mark.parametrize(("d1", "d2"), [(4, 4), (3, 5), (5, 2)])


def sides(d1, d2, seed, words=12):
    """Two tables (d, n) with columns of unit length."""
    generator = np.random.default_rng(seed)
    tables = [generator.normal(size=(dimension, words)) for dimension in (d1, d2)]
    return [one / np.linalg.norm(one, axis=0) for one in tables]


def cost(w, x, z, c):
    return np.square(x.T @ w @ z - np.eye(x.shape[1])).sum() + c * np.square(w).sum()


def gradient(w, x, z, c):
    return 2 * (x @ (x.T @ w @ z - np.eye(x.shape[1])) @ z.T + c * w)


@seeds
@shapes
@pytest.mark.parametrize("c", [0.3, 50])
def test_the_closed_form_is_what_an_optimiser_finds(seed, d1, d2, c):
    x, z = sides(d1, d2, seed)
    w = ridge(x @ x.T, z @ z.T, x @ z.T, c)

    def of_flat(function):
        return lambda flat: np.ravel(function(flat.reshape(d1, d2), x, z, c))

    flat_cost = lambda flat: float(of_flat(cost)(flat)[0])  # noqa: E731
    start = np.random.default_rng(seed).normal(size=d1 * d2)
    assert check_grad(flat_cost, of_flat(gradient), start) < 1e-3
    found = minimize(flat_cost, start, jac=of_flat(gradient), method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-9})
    np.testing.assert_allclose(w, found.x.reshape(d1, d2), atol=1e-4)
    assert np.abs(gradient(w, x, z, c)).max() < 1e-12
    assert cost(w, x, z, c) <= found.fun + 1e-12


@seeds
@shapes
def test_the_cost_is_the_same_through_rotations_and_scale(seed, d1, d2):
    """‖XᵀUᵀBVZ − I‖² + C‖B‖² of the U, B, V that the maps are made of."""
    x, z = sides(d1, d2, seed)
    products = x @ x.T, z @ z.T, x @ z.T
    w = ridge(*products, 2.0)
    of_x, of_z = geometric_maps(*products, 2.0)  # UᵀB^½ and VᵀB^½
    b = np.linalg.svd(w, compute_uv=False)
    np.testing.assert_allclose(of_x @ of_z.T, w, atol=1e-12)
    np.testing.assert_allclose(of_x.T @ of_x, np.diag(b), atol=1e-12)  # U is orthogonal, B a diagonal of its own
    np.testing.assert_allclose(of_z.T @ of_z, np.diag(b), atol=1e-12)
    through = np.square((x.T @ of_x) @ (of_z.T @ z) - np.eye(12)).sum() + 2.0 * np.square(b).sum()
    assert through == pytest.approx(cost(w, x, z, 2.0))


def two_tables():
    first = StaticVectors.of(
        ["b", "a", "only", "c", "a"], np.random.default_rng(0).normal(size=(5, 3)), [5, 4, 3, 2, 1]
    )
    second = StaticVectors.of(["c", "x", "a", "b"], np.random.default_rng(1).normal(size=(4, 3)))
    return first, second


def unit(vector):
    return vector / np.linalg.norm(vector)


def test_common_words_are_joined_in_the_order_of_the_first():
    first, second = two_tables()
    joined = combine(first, second, "concat")
    assert (list(joined.words), joined.dimension, joined.counts.tolist()) == (["b", "a", "c"], 6, [5, 4, 2])
    np.testing.assert_allclose(joined["a"], np.concatenate([unit(first["a"]), unit(second["a"])]), atol=1e-6)
    mean = combine(first, second, "mean")
    np.testing.assert_allclose(mean["c"], (unit(first["c"]) + unit(second["c"])) / 2, atol=1e-6)
    assert mean.lookup(["only", "x"])[1].tolist() == [False, False]


@pytest.mark.parametrize(("how", "dimension"), [("geometric", 8), ("geometric-mean", 4)])
def test_geometric_vectors_are_mapped_and_scaled_before_they_are_joined(how, dimension, monkeypatch):
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
    first, second = random_table(40, 6, 1), random_table(40, 4, 2)
    x, z = (np.array([unit(row) for row in table.vectors.astype(np.float64)]) for table in (first, second))
    of_x, of_z = geometric_maps(x.T @ x, z.T @ z, x.T @ z, 50)
    left, right = unit(x[3] @ of_x), unit(z[3] @ of_z)
    made = combine(first, second, how)
    assert made.dimension == dimension
    wanted = np.concatenate([left, right]) if how == "geometric" else (left + right) / 2
    np.testing.assert_allclose(made["w3"], wanted, atol=1e-5)


def test_two_rotations_of_one_table_become_one():
    vectors = random_table(300, 5)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(5, 5)))[0]
    turned = StaticVectors.of(vectors.words, vectors.vectors.astype(np.float64) @ turn)
    made = combine(vectors, turned, "geometric").vectors
    np.testing.assert_allclose(made[:, :5], made[:, 5:], atol=1e-5)


def test_tables_that_cannot_be_combined_are_refused():
    first, second = random_table(5, 3), random_table(5, 3, prefix="v")
    with pytest.raises(ConfigError, match="the two tables have no word in common"):
        combine(first, second, "concat")
    with pytest.raises(ConfigError, match="--how mean needs vectors of one dimension, not 3 and 4; choose concat"):
        combine(first, random_table(5, 4), "mean")
    with pytest.raises(ConfigError, match="--c 0: must be above 0"):
        combine(first, first, "geometric", c=0)
