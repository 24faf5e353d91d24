"""How well predictions agree with people, and how sure that is: functions of arrays, over their last axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Statistic = Callable[..., Values]
"""A figure of arrays of the same items: of arrays (resamples, items) one figure for each resample."""

_AT_ONCE = 1 << 20  # resampled values in memory
_THRESHOLDS = np.arange(101) / 100


class Difference(NamedTuple):
    """How far a first model is ahead of a second: with the interval of 95 % and the two-sided p."""

    value: float
    low: float
    high: float
    p: float


def pearson(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """The linear correlation; NaN where either is constant."""
    correlations: Values = (_standardised(a) * _standardised(b)).sum(-1)
    return np.clip(correlations, -1, 1)


def _standardised(values: npt.ArrayLike) -> Values:
    """With mean 0 and length 1; NaN if all are the same."""
    values = np.asarray(values, np.float64)
    if values.shape[-1] == 0:
        return np.full((*values.shape[:-1], 1), np.nan)
    # Asked of the values themselves: less their rounded mean, equal ones are not always 0.
    constant = (values == values[..., :1]).all(-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # infinite values have no correlation
        centred: Values = values - values.mean(-1, keepdims=True)
        lengths = np.sqrt(np.square(centred).sum(-1, keepdims=True))
        return centred / np.where(constant, np.nan, lengths)


def uncentred_pearson(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """The same about zero instead of the means: the cosine. NaN where either is zero throughout."""
    first, second = (np.asarray(values, np.float64) for values in (a, b))
    lengths = np.sqrt(np.square(first).sum(-1) * np.square(second).sum(-1))
    with np.errstate(invalid="ignore"):  # infinite values have no correlation
        correlations: Values = (first * second).sum(-1) / np.where(lengths == 0, np.nan, lengths)
    return np.clip(correlations, -1, 1)


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """The correlation of ranks, in which equal values share the mean of theirs; NaN where either is constant."""
    return pearson(_ranks(np.asarray(a, np.float64)), _ranks(np.asarray(b, np.float64)))


def _ranks(values: Values) -> Values:
    order = values.argsort(-1)
    ordered = np.take_along_axis(values, order, -1)
    places = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    changes = ordered[..., 1:] != ordered[..., :-1]
    edge = np.ones((*values.shape[:-1], min(1, values.shape[-1])), bool)
    begins, ends = np.concatenate([edge, changes], -1), np.concatenate([changes, edge], -1)
    # Of each run of equal values, the first and the last place.
    first = np.maximum.accumulate(np.where(begins, places, 0), -1)
    last = np.minimum.accumulate(np.where(ends, places, values.shape[-1])[..., ::-1], -1)[..., ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2, -1)
    return np.where(np.isnan(values), np.nan, ranks)


def accuracy(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> Values:
    """The share of right decisions; NaN of none."""
    right = np.asarray(predicted) == np.asarray(gold)
    return right.mean(-1) if right.shape[-1] else np.full(right.shape[:-1], np.nan)


STATISTICS: Mapping[str, Statistic] = {
    "accuracy": accuracy,
    "Pearson": pearson,
    "uncentred Pearson": uncentred_pearson,
    "Spearman": spearman,
}
"""What results call them."""


def best_threshold(similarities: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """The threshold among 0, .01 … 1 from which on "same" is right most often: the lowest of equally good ones."""
    same = np.asarray(similarities) >= _THRESHOLDS[:, None]  # (thresholds, items)
    return float(_THRESHOLDS[accuracy(same, np.asarray(gold, bool)).argmax()])


def cosines(a: npt.NDArray[np.floating[Any]], b: npt.NDArray[np.floating[Any]]) -> Values:
    """The cosine of each row of `a` (n, d) with the same row of `b`; 0 with a zero vector."""
    lengths = np.sqrt(_dots(a, a)) * np.sqrt(_dots(b, b))
    with np.errstate(invalid="ignore"):  # infinite vectors give NaN
        return _dots(a, b) / np.where(lengths == 0, 1, lengths)


def _dots(a: npt.NDArray[np.floating[Any]], b: npt.NDArray[np.floating[Any]]) -> Values:
    return np.asarray(np.einsum("nd,nd->n", a, b, dtype=np.float64))


def over_parts(statistic: Statistic, *arrays: npt.NDArray[Any], parts: Sequence[int] | None = None) -> float:
    """The figure of all items; with `parts`, the sizes of consecutive sub-corpora, the unweighted mean of theirs."""
    return float(np.mean([statistic(*(array[part] for array in arrays)) for part in _slices(arrays, parts)]))


def bootstrap(
    statistic: Statistic,
    *arrays: npt.NDArray[Any],
    parts: Sequence[int] | None = None,
    samples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """The interval of 95 % of a figure: percentiles over resamples of the items, each sub-corpus resampled in itself.

    Resamples without a figure, such as those of one and the same item, do not count.
    """
    return _interval(_resampled(statistic, arrays, parts, samples, seed))


def paired_bootstrap(
    statistic: Statistic,
    first: npt.NDArray[Any],
    second: npt.NDArray[Any],
    gold: npt.NDArray[Any],
    *,
    parts: Sequence[int] | None = None,
    samples: int = 1000,
    seed: int = 0,
) -> Difference:
    """Compare two models' predictions for the same items: both are judged by the same resamples.

    The p is twice the share of resamples in which the difference is none or of the other sign, at most 1.
    """

    def difference(a: npt.NDArray[Any], b: npt.NDArray[Any], gold: npt.NDArray[Any]) -> Values:
        return statistic(a, gold) - statistic(b, gold)

    value = over_parts(difference, first, second, gold, parts=parts)
    differences = _resampled(difference, (first, second, gold), parts, samples, seed)
    other_side = float(np.mean(differences * np.sign(value) <= 0)) if len(differences) else np.nan
    return Difference(value, *_interval(differences), min(1.0, 2 * other_side) if np.isfinite(value) else np.nan)


def _resampled(
    statistic: Statistic, arrays: Sequence[npt.NDArray[Any]], parts: Sequence[int] | None, samples: int, seed: int
) -> Values:
    figures = np.zeros(samples)
    slices = list(_slices(arrays, parts))
    for number, part in enumerate(slices):
        generator = np.random.default_rng([seed, number])
        members = [array[part] for array in arrays]
        size = len(members[0])
        step = max(1, _AT_ONCE // max(1, size))
        for start in range(0, samples, step):
            shape = (min(step, samples - start), size)
            chosen = generator.integers(max(1, size), size=shape)
            figures[start : start + step] += statistic(*(member[chosen] for member in members)) / len(slices)
    return figures[~np.isnan(figures)]


def _slices(arrays: Sequence[npt.NDArray[Any]], parts: Sequence[int] | None) -> Iterator[slice]:
    ends = np.cumsum([len(arrays[0])] if parts is None else parts)
    return (slice(int(start), int(end)) for start, end in zip([0, *ends[:-1]], ends, strict=True))


def _interval(figures: Values) -> tuple[float, float]:
    low, high = np.percentile(figures, [2.5, 97.5]) if len(figures) else (np.nan, np.nan)
    return float(low), float(high)
