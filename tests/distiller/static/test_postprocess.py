"""Each step of post-processing against its formula, on whole matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from corpusgen.errors import ConfigError
from distiller.static import vectors as module
from distiller.static.postprocess import Moments, Steps, postprocess
from distiller.static.vectors import StaticVectors
from tests.distiller.static.support import random_table

seeds = st.integers(0, 2**32 - 1)
few = pytest.mark.parametrize("seed", range(3))


def table(seed, rows=60, dimension=6):
    """Directions of different strength, and a mean that is not zero."""
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(rows, dimension)) * np.logspace(0, -1, dimension) @ rotation(dimension, seed) + 0.3
    return StaticVectors.of([f"w{number}" for number in range(rows)], matrix.astype(np.float32))


def rotation(dimension, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dimension, dimension)))[0]


def done(vectors, **steps):
    return postprocess(vectors, Steps(**steps))[0].vectors.astype(np.float64)


def cosines(matrix):
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit @ unit.T


def same_up_to_signs(first, second):
    """Eigenvectors have no sign of their own."""
    signs = np.sign((first * second).sum(axis=0))
    np.testing.assert_allclose(first, second * signs, atol=1e-3 * np.abs(second).max())


@given(seeds)
def test_order_0_only_rotates(seed):
    vectors = table(seed)
    np.testing.assert_allclose(cosines(done(vectors, order=0)), cosines(vectors.vectors.astype(np.float64)), atol=1e-5)


@given(seeds, st.sampled_from([0.15, 0.25, 0.5, -0.15, -0.25, -0.5]))
def test_order_does_not_depend_on_a_rotation_of_the_vectors(seed, alpha):
    vectors = table(seed)
    turned = StaticVectors.of(vectors.words, vectors.vectors.astype(np.float64) @ rotation(6, seed + 1))
    np.testing.assert_allclose(cosines(done(vectors, order=alpha)), cosines(done(turned, order=alpha)), atol=1e-4)


@few
@pytest.mark.parametrize("alpha", [0.5, 0.15, -0.25])
def test_order_is_that_of_the_formula(seed, alpha):
    vectors = table(seed)
    raw = vectors.vectors.astype(np.float64)
    values, directions = np.linalg.eigh(raw.T @ raw)
    same_up_to_signs(done(vectors, order=alpha), (raw @ directions * values**alpha)[:, ::-1])


@few
def test_order_of_a_half_gives_similarities_of_second_order(seed):
    vectors = table(seed)
    raw = vectors.vectors.astype(np.float64)
    second_order = (raw @ raw.T) @ (raw @ raw.T)
    made = done(vectors, order=0.5)
    np.testing.assert_allclose(made @ made.T, second_order, atol=1e-3 * np.abs(second_order).max())


@few
def test_order_of_minus_a_half_whitens(seed):
    made = done(table(seed), order=-0.5)
    np.testing.assert_allclose(made.T @ made, np.eye(6), atol=1e-4)


def test_directions_without_length_stay_finite():
    vectors = table(0)
    padded = StaticVectors.of(vectors.words, np.pad(vectors.vectors, ((0, 0), (0, 2))))
    after, notes = postprocess(padded, Steps(order=-0.5))
    assert np.isfinite(after.vectors).all()
    assert np.abs(after.vectors[:, 6:]).max() < 1e-3
    assert notes == ["order -0.5; 2 of 8 directions are nearly empty, and were not scaled up in full"]


def test_order_of_vectors_of_unit_length_is_remarked_on():
    unit, _ = postprocess(table(0), Steps(normalize=True))
    assert postprocess(unit, Steps(order=0.5))[1][0].startswith("all vectors have unit length")


@few
def test_all_but_the_top_is_that_of_the_formula(seed):
    vectors = table(seed)
    raw = vectors.vectors.astype(np.float64)
    centred = raw - raw.mean(axis=0)
    top = PCA(2).fit(raw).components_
    np.testing.assert_allclose(
        done(vectors, all_but_the_top=True, components=2), centred - centred @ top.T @ top, atol=1e-5
    )


@given(seeds, st.integers(1, 5))
def test_all_but_the_top_removes_the_mean_and_the_components(seed, count):
    vectors = table(seed)
    made = done(vectors, all_but_the_top=True, components=count)
    np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-5)
    raw = vectors.vectors.astype(np.float64)
    components = PCA().fit(raw).components_
    np.testing.assert_allclose(made @ components[:count].T, 0, atol=1e-4)
    centred = raw - raw.mean(axis=0)
    np.testing.assert_allclose(made @ components[count:].T, centred @ components[count:].T, atol=1e-4)


@pytest.mark.parametrize(("dimension", "removed"), [(4, 1), (149, 1), (300, 3), (768, 8)])
def test_one_component_is_removed_for_every_hundred_dimensions(dimension, removed):
    notes = postprocess(random_table(10, dimension), Steps(all_but_the_top=True))[1]
    assert notes[0].startswith(f"removed the mean and {removed} of {dimension} components")


@few
def test_fewer_dimensions_are_those_of_scikit_learn(seed):
    vectors = table(seed)
    same_up_to_signs(done(vectors, pca=3), PCA(3).fit_transform(vectors.vectors.astype(np.float64)))
    share = PCA(3).fit(vectors.vectors.astype(np.float64)).explained_variance_ratio_.sum()
    assert postprocess(vectors, Steps(pca=3))[1] == [f"kept 3 of 6 dimensions, {share:.1%} of the variance"]


@few
def test_with_fewer_dimensions_components_are_removed_before_and_after(seed):
    vectors = table(seed)
    one, other, last = Steps(all_but_the_top=True), Steps(pca=4), Steps(all_but_the_top=True)
    step_by_step = vectors
    for steps in (one, other, last):
        step_by_step = StaticVectors.of(vectors.words, postprocess(step_by_step, steps)[0].vectors)
    together, notes = postprocess(vectors, Steps(all_but_the_top=True, pca=4))
    np.testing.assert_allclose(cosines(together.vectors), cosines(step_by_step.vectors), atol=1e-3)
    assert [note.split()[0] for note in notes] == ["removed", "kept", "removed"]


@few
def test_vectors_of_zeros_stay_zero_and_do_not_count(seed):
    vectors = table(seed)
    with_zeros = StaticVectors.of(["none", *vectors.words], np.pad(vectors.vectors, ((1, 0), (0, 0))))
    for steps in ({"all_but_the_top": True}, {"pca": 3, "normalize": True}, {"order": 0.5}):
        made = done(with_zeros, **steps)
        assert not made[0].any()
        np.testing.assert_allclose(cosines(made[1:]), cosines(done(vectors, **steps)), atol=1e-5)


def test_unit_length_comes_last():
    made = done(table(0), all_but_the_top=True, pca=3, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)


def test_blocks_make_no_difference(monkeypatch):
    vectors = table(4)
    whole = Moments.of([vectors.vectors], 6)
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
    parts = Moments.of(vectors.blocks(), 6)
    np.testing.assert_allclose(parts.products, whole.products)
    np.testing.assert_allclose(parts.total, whole.total)
    assert (parts.rows, parts.unit_rows) == (60, 0)


def test_counts_and_words_stay():
    vectors = StaticVectors.of(["a", "b"], np.eye(2), [2, 1])
    after = postprocess(vectors, Steps(normalize=True))[0]
    assert (list(after.words), after.counts.tolist()) == (["a", "b"], [2, 1])


@pytest.mark.parametrize(
    ("steps", "complaint"),
    [
        ({}, "nothing to do: choose some of --order"),
        ({"order": 1.5}, "--order 1.5: choose a value from -1 to 1"),
        ({"order": 0.5, "all_but_the_top": True}, "both change how much the strongest directions count; choose one"),
        ({"order": -0.5, "pca": 3}, "--order -0.5 leaves no direction stronger than others"),
        ({"pca": 3, "components": 2}, "--components: only together with --all-but-the-top"),
        ({"pca": 6}, "--pca 6: choose a number from 1 to 5; there are 6 now"),
        ({"pca": 0}, "--pca 0: choose a number from 1 to 5"),
        ({"all_but_the_top": True, "components": 6}, "cannot remove 6 of 6 dimensions; lower --components"),
        ({"all_but_the_top": True, "components": 3, "pca": 3}, "cannot remove 3 of 3 dimensions"),
        ({"all_but_the_top": True, "components": 0}, "cannot remove 0 of 6 dimensions"),
    ],
)
def test_steps_that_make_no_sense_are_refused(steps, complaint):
    with pytest.raises(ConfigError, match=complaint):
        postprocess(table(0), Steps(**steps))
