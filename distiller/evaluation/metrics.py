"""Measures of how well predictions agree with people, and how certain that is, over the last axis of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusgen.errors import ConfigError

Values = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Statistic = Callable[..., Values]
"""A figure of arrays over the same items; arrays (resamples, items) give one figure per resample."""

_AT_ONCE = 1 << 20  # resampled values in memory
_RANGE_OF_COSINES = 2.0


class Difference(NamedTuple):
    """The lead of a first model over a second, with its 95 % interval and the two-sided p."""

    value: float
    low: float
    high: float
    p: float


def pearson(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """Return the linear correlation; NaN where either is constant."""
    correlations: Values = (_standardised(a) * _standardised(b)).sum(-1)
    return np.clip(correlations, -1, 1)


def _standardised(values: npt.ArrayLike) -> Values:
    """Scale values to mean 0 and length 1; return NaN if all are the same."""
    values = np.asarray(values, np.float64)
    if values.shape[-1] == 0:
        return np.full((*values.shape[:-1], 1), np.nan)
    # Check the values themselves: minus their rounded mean, equal values are not always 0.
    constant = (values == values[..., :1]).all(-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # infinite values have no correlation
        centred: Values = values - values.mean(-1, keepdims=True)
        lengths = np.sqrt(np.square(centred).sum(-1, keepdims=True))
        return centred / np.where(constant, np.nan, lengths)


def uncentred_pearson(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """Return the correlation about zero instead of the means, i.e. the cosine; NaN where either is all zero."""
    first, second = (np.asarray(values, np.float64) for values in (a, b))
    lengths = np.sqrt(np.square(first).sum(-1) * np.square(second).sum(-1))
    with np.errstate(invalid="ignore"):  # infinite values have no correlation
        correlations: Values = (first * second).sum(-1) / np.where(lengths == 0, np.nan, lengths)
    return np.clip(correlations, -1, 1)


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """Return the correlation of ranks; equal values share the mean of theirs. NaN where either is constant."""
    return pearson(_ranks(a), _ranks(b))


def _ranks(values: npt.ArrayLike) -> Values:
    """Rank values; return NaN if one of them is NaN.

    SciPy's `rankdata` serves well here, but its `pearsonr` would not replace `pearson`: for resamples it takes twice
    as long or more, it raises an error for fewer than two values, and it warns about constant ones.
    """
    try:
        stats = import_module("scipy.stats")  # takes a second to import, and is not always installed
    except ImportError as error:
        raise ConfigError("Spearman's correlation needs SciPy: pip install 'wicdistil[evaluate]'") from error
    ranks: Values = stats.rankdata(np.asarray(values, np.float64), axis=-1)
    return ranks


def accuracy(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> Values:
    """Return the share of right decisions; NaN if there are none."""
    right = np.asarray(predicted) == np.asarray(gold)
    return right.mean(-1) if right.shape[-1] else np.full(right.shape[:-1], np.nan)


def auc(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> Values:
    """Return the area under the ROC curve: the share of pairs of an item with gold 1 and another item, in which the
    first has the higher prediction. Equal predictions count half. NaN without such pairs, or if a prediction is NaN.
    """
    values, same = np.asarray(predicted, np.float64), np.asarray(gold) == 1
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    order = values.argsort(-1)
    ranked, same = np.take_along_axis(values, order, -1), np.take_along_axis(same, order, -1)
    places = np.arange(values.shape[-1])
    rises = ranked[..., 1:] != ranked[..., :-1]
    edge = np.ones((*values.shape[:-1], 1), bool)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, rises], -1), places, 0), -1)
    last = np.where(np.concatenate([rises, edge], -1), places, places[-1])
    last = np.minimum.accumulate(last[..., ::-1], -1)[..., ::-1]  # first and last place of those equal to each
    others = np.concatenate([np.zeros_like(edge, np.int64), np.cumsum(~same, -1)], -1)  # below each place
    beaten = (np.take_along_axis(others, first, -1) + np.take_along_axis(others, last + 1, -1)) / 2
    pairs = same.sum(-1) * others[..., -1]
    unknown = (pairs == 0) | np.isnan(ranked[..., -1])  # NaN is sorted to the end
    areas: Values = (beaten * same).sum(-1) / np.where(unknown, np.nan, pairs)
    return areas


STATISTICS: Mapping[str, Statistic] = {
    "accuracy": accuracy,
    "AUC": auc,
    "Pearson": pearson,
    "uncentred Pearson": uncentred_pearson,
    "Spearman": spearman,
}
"""The statistics by the names that results use."""


def best_threshold(similarities: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """Return the threshold that decides "same" best, for similarities at or above it; there must be some.

    It is sought among the middles between neighbouring different similarities, and one value below and one above any
    cosine, which decide all items alike. So it does not matter how narrow a range a model's similarities have. Of
    several that are equally good it is the middle one, and of two in the middle the lower.
    """
    values, places = np.unique(np.asarray(similarities, np.float64), return_inverse=True)
    same = np.asarray(gold, bool)
    # At a threshold just below values[n], what is lower is decided "different": right if it is.
    different_below, same_below = (
        np.concatenate([[0], np.cumsum(np.bincount(places[chosen], minlength=len(values)))]) for chosen in (~same, same)
    )
    right = different_below + same.sum() - same_below
    best = np.flatnonzero(right == right.max())
    place = int(best[(len(best) - 1) // 2])
    if place == 0:
        return float(values[0]) - _RANGE_OF_COSINES
    if place == len(values):
        return float(values[-1]) + _RANGE_OF_COSINES
    low, high = values[place - 1 : place + 1].tolist()
    middle: float = low + (high - low) / 2
    return middle if middle > low else high  # no number lies between them


def cosines(a: npt.NDArray[np.floating[Any]], b: npt.NDArray[np.floating[Any]]) -> Values:
    """Return the cosine of each row of `a` (n, d) with the same row of `b`; 0 with a zero vector."""
    lengths = np.sqrt(_dots(a, a)) * np.sqrt(_dots(b, b))
    with np.errstate(invalid="ignore"):  # infinite vectors give NaN
        return _dots(a, b) / np.where(lengths == 0, 1, lengths)


def _dots(a: npt.NDArray[np.floating[Any]], b: npt.NDArray[np.floating[Any]]) -> Values:
    return np.asarray(np.einsum("nd,nd->n", a, b, dtype=np.float64))


def over_parts(statistic: Statistic, *arrays: npt.NDArray[Any], parts: Sequence[int] | None = None) -> float:
    """Return the figure of all items; with `parts`, sizes of consecutive sub-corpora, the unweighted mean of theirs."""
    return float(np.mean([statistic(*(array[part] for array in arrays)) for part in _slices(arrays, parts)]))


def bootstrap(
    statistic: Statistic,
    *arrays: npt.NDArray[Any],
    parts: Sequence[int] | None = None,
    groups: npt.NDArray[Any] | None = None,
    samples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the 95 % interval of a figure: percentiles over resamples of the items within each sub-corpus.

    With `groups`, the group of each item, whole groups are drawn, as many as there are. This is for items that are not
    independent of each other: drawn one by one, they would seem to say more than they do.

    Resamples without a figure, such as those with copies of one item only, do not count.
    """
    return _interval(_resampled(statistic, arrays, parts, groups, samples, seed))


def paired_bootstrap(
    statistic: Statistic,
    first: npt.NDArray[Any],
    second: npt.NDArray[Any],
    gold: npt.NDArray[Any],
    *,
    parts: Sequence[int] | None = None,
    groups: npt.NDArray[Any] | None = None,
    samples: int = 1000,
    seed: int = 0,
) -> Difference:
    """Compare two models' predictions for the same items: both are judged by the same resamples, as in `bootstrap`.

    The p is twice the share of resamples in which the difference is zero or has the other sign, at most 1.
    """

    def difference(a: npt.NDArray[Any], b: npt.NDArray[Any], gold: npt.NDArray[Any]) -> Values:
        return statistic(a, gold) - statistic(b, gold)

    value = over_parts(difference, first, second, gold, parts=parts)
    differences = _resampled(difference, (first, second, gold), parts, groups, samples, seed)
    other_side = float(np.mean(differences * np.sign(value) <= 0)) if len(differences) else np.nan
    return Difference(value, *_interval(differences), min(1.0, 2 * other_side) if np.isfinite(value) else np.nan)


def _resampled(
    statistic: Statistic,
    arrays: Sequence[npt.NDArray[Any]],
    parts: Sequence[int] | None,
    groups: npt.NDArray[Any] | None,
    samples: int,
    seed: int,
) -> Values:
    figures = np.zeros(samples)
    slices = list(_slices(arrays, parts))
    for number, part in enumerate(slices):
        generator = np.random.default_rng([seed, number])
        members = [array[part] for array in arrays]
        size = len(members[0])
        at_once = max(1, _AT_ONCE // max(1, size))
        drawn = _draws(generator, size, samples, at_once)
        if groups is not None:
            drawn = _draws_of_groups(generator, groups[part], samples, at_once)
        for resamples, chosen in drawn:
            figures[resamples] += statistic(*(member[chosen] for member in members)) / len(slices)
    return figures[~np.isnan(figures)]


def _draws(generator: np.random.Generator, size: int, samples: int, at_once: int) -> Iterator[tuple[Indices, Indices]]:
    """Yield the numbers of some resamples, and the items that are drawn for each of them, (resamples, items)."""
    for start in range(0, samples, at_once):
        resamples = np.arange(start, min(start + at_once, samples))
        yield resamples, generator.integers(max(1, size), size=(len(resamples), size))


def _draws_of_groups(
    generator: np.random.Generator, groups: npt.NDArray[Any], samples: int, at_once: int
) -> Iterator[tuple[Indices, Indices]]:
    """Yield the same for whole groups: resamples with the same number of items together."""
    numbers: dict[Any, int] = {}  # by first appearance, so that groups of one item are drawn as items are
    codes = np.array([numbers.setdefault(group, len(numbers)) for group in groups.tolist()], np.int64)
    by_group, sizes = codes.argsort(kind="stable"), np.bincount(codes)
    starts = sizes.cumsum() - sizes
    for resamples, drawn in _draws(generator, len(sizes), samples, at_once):
        lengths = sizes[drawn].sum(1)
        for length in np.unique(lengths).tolist():
            alike = lengths == length
            chosen = drawn[alike].ravel()
            before = sizes[chosen].cumsum() - sizes[chosen]  # items of the groups drawn before each
            places = np.arange(sizes[chosen].sum()) + np.repeat(starts[chosen] - before, sizes[chosen])
            yield resamples[alike], by_group[places].reshape(int(alike.sum()), length)


def _slices(arrays: Sequence[npt.NDArray[Any]], parts: Sequence[int] | None) -> Iterator[slice]:
    ends = np.cumsum([len(arrays[0])] if parts is None else parts)
    return (slice(int(start), int(end)) for start, end in zip([0, *ends[:-1]], ends, strict=True))


def _interval(figures: Values) -> tuple[float, float]:
    low, high = np.percentile(figures, [2.5, 97.5]) if len(figures) else (np.nan, np.nan)
    return float(low), float(high)
