"""Metrics are those of SciPy and scikit-learn; intervals cover, repeat and are paired."""

import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from corpusgen.errors import ConfigError
from distiller.evaluation.metrics import (
    accuracy,
    auc,
    best_threshold,
    bootstrap,
    cosines,
    over_parts,
    paired_bootstrap,
    pearson,
    spearman,
    uncentred_pearson,
)

VALUES = st.one_of(st.integers(-3, 3).map(float), st.integers(-1000, 1000).map(lambda value: value / 7))
"""Few or many different ones: with and without ties."""
PAIRS = st.integers(2, 40).flatmap(lambda n: arrays.arrays(np.float64, (2, n), elements=VALUES))


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def scipy_value(name, a, b):
    stats = pytest.importorskip("scipy.stats")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(stats, name)(a, b).statistic


# --- metrics ---


@given(PAIRS)
def test_correlations_are_those_of_scipy(pair):
    assert pearson(*pair) == pytest.approx(scipy_value("pearsonr", *pair), abs=1e-9, nan_ok=True)
    assert spearman(*pair) == pytest.approx(scipy_value("spearmanr", *pair), abs=1e-9, nan_ok=True)


@given(arrays.arrays(bool, st.tuples(st.just(2), st.integers(1, 30))))
def test_accuracy_is_that_of_scikit_learn(pair):
    metrics = pytest.importorskip("sklearn.metrics")
    assert accuracy(*pair) == pytest.approx(metrics.accuracy_score(pair[1], pair[0]))


@given(st.integers(1, 20).flatmap(lambda n: arrays.arrays(np.float64, (2, n, 5), elements=st.integers(-9, 9))))
def test_cosines_are_those_of_scikit_learn(pair):
    metrics = pytest.importorskip("sklearn.metrics.pairwise")
    assert cosines(*pair) == pytest.approx(np.diag(metrics.cosine_similarity(*pair)), abs=1e-12)


def test_equal_values_share_their_mean_rank():
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / np.sqrt(4.5 * 5))


def test_ranks_without_scipy_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    assert pearson([1, 2], [1, 2]) == pytest.approx(1)
    with pytest.raises(ConfigError, match=r"SciPy: pip install 'wicdistil\[evaluate\]'"):
        spearman([1, 2], [1, 2])


def test_the_uncentred_correlation_is_about_zero():
    assert uncentred_pearson([1, 2, 2], [2, 4, 4]) == pytest.approx(1)
    assert uncentred_pearson([1, 1, 1], [1, 1, -1]) == pytest.approx(1 / 3)
    # All changes are in the wrong direction, though larger where people's are larger.
    assert uncentred_pearson([-3, -2, -1], [1, 2, 3]) == pytest.approx(-10 / 14)
    assert np.isnan(uncentred_pearson([0, 0], [1, 2]))
    assert np.isnan(uncentred_pearson([], []))
    assert np.isnan(uncentred_pearson([np.inf, 1], [1, 2]))


@given(PAIRS)
def test_the_uncentred_correlation_of_centred_values_is_pearsons(pair):
    centred = pair - pair.mean(1, keepdims=True)
    if np.isfinite(pearson(*pair)):
        assert uncentred_pearson(*centred) == pytest.approx(pearson(*pair), abs=1e-9)


@pytest.mark.parametrize("correlation", [pearson, spearman])
@pytest.mark.parametrize("values", [[], [1.0], [0.1] * 7, [1.0, np.nan, 2.0], [1e30] * 3])
def test_what_has_no_correlation_is_not_a_number(correlation, values):
    assert np.isnan(correlation(values, np.arange(len(values))))
    assert np.isnan(correlation(np.arange(len(values)), values))


@pytest.mark.parametrize("statistic", [pearson, uncentred_pearson, spearman, accuracy])
def test_rows_are_separate(statistic):
    a, b = np.random.default_rng(0).integers(0, 4, (2, 6, 9))
    assert statistic(a, b).tolist() == [float(statistic(*rows)) for rows in zip(a, b, strict=True)]


def test_accuracy_of_nothing_is_not_a_number():
    assert np.isnan(accuracy([], []))


def test_a_zero_vector_is_like_nothing_and_an_infinite_one_has_no_cosine():
    a = np.array([[0, 0], [1, 0], [np.inf, 0], [3e30, 4e30]], np.float32)
    b = np.array([[1, 1], [2, 0], [1, 0], [3e30, 4e30]], np.float32)
    assert cosines(a, b) == pytest.approx([0, 1, np.nan, 1], nan_ok=True)


# --- threshold ---


def test_a_threshold_lies_between_its_neighbours():
    assert best_threshold([0.2, 0.4, 0.6], [0, 1, 1]) == pytest.approx(0.3)
    assert best_threshold([0.9912, 0.9871, 0.9908], [1, 0, 0]) == pytest.approx(0.991)


def test_the_middle_of_equally_good_thresholds_is_taken():
    assert best_threshold([0.1, 0.2, 0.3, 0.4], [1, 0, 1, 0]) == pytest.approx(0.25)  # of it and both ends
    assert best_threshold([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1]) == pytest.approx(0.15)  # of it and .35
    assert best_threshold([0.5, 0.5], [0, 1]) == pytest.approx(-1.5)  # of both ends


@pytest.mark.parametrize("same", [0, 1])
def test_where_all_items_are_alike_so_is_every_decision(same):
    threshold = best_threshold([0.3, 0.5], [same, same])
    assert [cosine >= threshold for cosine in (-0.99, 0.2, 0.4, 0.6, 1)] == [same] * 5


def test_neighbouring_numbers_are_told_apart():
    low = 0.7
    high = np.nextafter(low, 1)
    assert best_threshold([low, high], [0, 1]) == high


COSINES = st.one_of(st.integers(-4, 4).map(lambda value: value / 4), st.floats(-1, 1))


@given(st.lists(st.tuples(COSINES, st.booleans()), min_size=1, max_size=30))
def test_no_other_threshold_is_better(items):
    similarities, gold = (np.array(values) for values in zip(*items, strict=True))
    best = np.mean((similarities >= best_threshold(similarities, gold)) == gold)
    every = [-3, *similarities, 3]  # what is decided changes at the similarities only
    assert best == max(np.mean((similarities >= threshold) == gold) for threshold in every)


@given(st.lists(st.tuples(COSINES, st.booleans()), min_size=1, max_size=30), st.randoms())
def test_a_threshold_does_not_depend_on_the_order_of_the_items(items, random):
    shuffled = random.sample(items, len(items))
    assert best_threshold(*zip(*items, strict=True)) == best_threshold(*zip(*shuffled, strict=True))


# --- area under the ROC curve ---


@given(st.lists(st.tuples(VALUES, st.booleans()), max_size=30))
def test_the_area_is_the_share_of_pairs_in_order(items):
    same, others = ([value for value, gold in items if gold is wanted] for wanted in (True, False))
    pairs = [(a > b) + (a == b) / 2 for a in same for b in others]
    predicted, gold = (np.array(values) for values in zip(*items, strict=True)) if items else (np.empty(0),) * 2
    assert auc(predicted, gold) == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)
    assert auc(-predicted, gold) == pytest.approx(1 - np.mean(pairs) if pairs else np.nan, nan_ok=True)


def test_the_area_of_many_is_that_of_each():
    generator = np.random.default_rng(0)
    predicted, gold = generator.integers(6, size=(20, 15)), generator.integers(2, size=(20, 15))
    assert auc(predicted, gold) == pytest.approx([float(auc(*row)) for row in zip(predicted, gold, strict=True)])


def test_an_area_of_what_is_not_a_number_is_none():
    assert np.isnan(auc([0.1, np.nan, 0.3], [1, 0, 1]))
    assert auc(np.array([[0.1, 0.2], [np.nan, 0.2]]), np.array([[0, 1], [0, 1]])) == pytest.approx(
        [1, np.nan], nan_ok=True
    )


# --- intervals ---


@pytest.mark.parametrize("statistic", [pearson, spearman])
def test_an_interval_is_repeatable_and_holds_the_value(statistic):
    generator = np.random.default_rng(1)
    gold = generator.normal(size=200)
    predicted = gold + generator.normal(size=200)
    low, high = bootstrap(statistic, predicted, gold)
    assert low < statistic(predicted, gold) < high < low + 0.3
    assert (low, high) == bootstrap(statistic, predicted, gold)
    assert (low, high) != bootstrap(statistic, predicted, gold, seed=1)


def test_an_interval_of_accuracy_is_the_binomial_one():
    right = np.arange(1400) < 938
    low, high = bootstrap(accuracy, right, np.ones(1400, bool))
    error = 1.96 * np.sqrt(0.67 * 0.33 / 1400)
    assert (low, high) == pytest.approx((0.67 - error, 0.67 + error), abs=0.004)


def test_sets_too_large_for_one_go_are_resampled_as_others():
    right = np.arange(700_000) % 4 > 0
    assert bootstrap(accuracy, right, np.ones(700_000, bool), samples=20) == pytest.approx((0.75, 0.75), abs=0.002)


def test_an_interval_of_nothing_or_of_a_constant_is_not_a_number():
    assert np.isnan(bootstrap(pearson, np.zeros(0), np.zeros(0))).all()
    assert np.isnan(bootstrap(spearman, np.ones(9), np.arange(9.0))).all()


def test_resamples_without_a_correlation_do_not_count():
    assert np.isfinite(bootstrap(pearson, np.array([0.0, 1.0]), np.array([0.0, 1.0]))).all()


def test_parts_weigh_the_same_and_are_resampled_in_themselves():
    predicted = np.concatenate([np.ones(90, bool), np.zeros(10, bool)])
    gold = np.ones(100, bool)
    assert over_parts(accuracy, predicted, gold) == 0.9
    assert over_parts(accuracy, predicted, gold, parts=[90, 10]) == 0.5
    # Within the parts nothing varies: drawn from all items alike, the shares of both would.
    assert bootstrap(accuracy, predicted, gold, parts=[90, 10]) == (0.5, 0.5)


def rated(size: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and gold that agree somewhat."""
    generator = np.random.default_rng(seed)
    gold = generator.normal(size=size)
    return gold + generator.normal(size=size), gold


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(12)), st.sampled_from([None, [7, 5]]))
def test_groups_of_one_item_change_nothing(names, parts):
    predicted, gold = rated(12)
    groups = np.array([f"word {name}" for name in names])
    for statistic in (spearman, pearson):
        whole = bootstrap(statistic, predicted, gold, parts=parts, samples=50)
        assert bootstrap(statistic, predicted, gold, parts=parts, groups=groups, samples=50) == whole
        alone = paired_bootstrap(statistic, predicted, -predicted, gold, parts=parts, samples=50)
        assert paired_bootstrap(statistic, predicted, -predicted, gold, parts=parts, groups=groups, samples=50) == alone


def test_copies_in_a_group_do_not_narrow_an_interval():
    predicted, gold = rated(60)
    interval, difference = bootstrap(pearson, predicted, gold), paired_bootstrap(pearson, predicted, -gold, gold)
    copied = [np.repeat(values, 5) for values in (predicted, gold)]
    groups = np.repeat(np.arange(60), 5)
    assert bootstrap(pearson, *copied, groups=groups) == pytest.approx(interval)
    grouped = paired_bootstrap(pearson, copied[0], -copied[1], copied[1], groups=groups)
    assert grouped == pytest.approx(difference)
    low, high = bootstrap(pearson, *copied)
    assert high - low < 0.6 * (interval[1] - interval[0])  # what they seem to say if they are drawn one by one


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=15))
def test_a_resample_has_as_many_groups_as_there_are_and_each_of_them_whole(names):
    """Of groups of any size, in any order."""
    groups = np.array(names)
    seen = []

    def look(items: np.ndarray) -> np.ndarray:
        seen.extend(items.tolist())
        return np.zeros(len(items))

    assert bootstrap(look, np.arange(len(names)), groups=groups, samples=40) == (0, 0)
    assert len(seen) == 40
    for items in seen:
        times = {name: [items.count(index) for index in np.flatnonzero(groups == name)] for name in set(names)}
        assert all(len(set(of_group)) == 1 for of_group in times.values())
        assert sum(of_group[0] for of_group in times.values()) == len(set(names))


def test_groups_are_drawn_within_the_parts():
    predicted = np.arange(100) < 90
    groups = np.arange(100) % 7
    assert bootstrap(accuracy, predicted, np.ones(100, bool), parts=[90, 10], groups=groups) == (0.5, 0.5)
    assert np.isnan(bootstrap(pearson, np.zeros(0), np.zeros(0), groups=np.zeros(0))).all()


# --- comparison ---


def test_a_better_model_is_found_better_and_the_same_one_equal():
    generator = np.random.default_rng(2)
    gold = generator.normal(size=300)
    good, bad = gold + generator.normal(size=300), gold + 3 * generator.normal(size=300)
    ahead = paired_bootstrap(spearman, good, bad, gold)
    assert ahead.value == pytest.approx(spearman(good, gold) - spearman(bad, gold))
    assert 0 < ahead.low < ahead.value < ahead.high
    assert ahead.p < 0.01
    behind = paired_bootstrap(spearman, bad, good, gold)
    assert behind == pytest.approx((-ahead.value, -ahead.high, -ahead.low, ahead.p))
    assert paired_bootstrap(spearman, good, good, gold) == (0, 0, 0, 1)


def test_the_p_is_twice_the_share_on_the_other_side():
    # Of one item in five the first model alone is right: all resamples without it, (4/5)^5, show no difference.
    first, second = np.ones(5, bool), np.array([0, 1, 1, 1, 1], bool)
    compared = paired_bootstrap(accuracy, first, second, np.ones(5, bool), samples=20_000)
    assert compared.value == pytest.approx(0.2)
    assert compared.p == pytest.approx(2 * 0.8**5, abs=0.02)


def test_models_are_compared_within_the_parts():
    gold = np.ones(100, bool)
    first = np.arange(100) < 90
    compared = paired_bootstrap(accuracy, first, ~first, gold, parts=[90, 10])
    assert compared == (0, 0, 0, 1)


@settings(max_examples=20)
@given(arrays.arrays(np.float64, st.tuples(st.just(3), st.integers(1, 12)), elements=VALUES))
def test_a_comparison_never_fails(three):
    compared = paired_bootstrap(pearson, *three, samples=50)
    assert np.isnan(compared.p) if np.isnan(compared.value) else 0 <= compared.p <= 1
