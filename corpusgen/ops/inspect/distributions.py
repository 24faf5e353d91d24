"""Distributions of numbers, in bounded memory however many there are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PERCENTILES = (5, 25, 50, 75, 95)
_MOST_VALUES = 1 << 20  # distinct ones
_AT_ONCE = 1 << 20  # values that wait to be counted


class Distribution:
    """A distribution that counts how often each value occurs.

    It is exact for values with at most `decimals` decimals, as all cosines and probabilities of a store have. Where too
    many values differ for that, they are rounded further.
    """

    def __init__(self, decimals: int = 5) -> None:
        self._decimals = decimals
        self._values: npt.NDArray[np.float64] = np.zeros(0)
        self._counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._waiting: list[npt.NDArray[np.float64]] = []

    def add(self, values: pa.Array) -> None:
        """Count some values, without nulls and nans."""
        numbers = values.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
        self._waiting.append(numbers[np.isfinite(numbers)])
        if sum(map(len, self._waiting)) >= _AT_ONCE:
            self._count()

    def _count(self) -> None:
        numbers = np.concatenate([self._values, *self._waiting])
        weights = np.append(self._counts, np.ones(len(numbers) - len(self._counts), np.int64))
        self._waiting = []
        self._values, self._counts = _unique(np.round(numbers, self._decimals), weights)
        while len(self._values) > _MOST_VALUES:
            self._decimals -= 1
            self._values, self._counts = _unique(np.round(self._values, self._decimals), self._counts)

    def counted(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Return the distinct values in ascending order, and how often each occurs."""
        self._count()
        return self._values, self._counts

    def summary(self) -> dict[str, float] | None:
        """Return number, mean, lowest, highest and percentiles (each a value that occurs); None without any value."""
        self._count()
        if not len(self._values):
            return None
        sums = np.cumsum(self._counts)
        ranks = [max(1, -(-share * int(sums[-1]) // 100)) for share in PERCENTILES]
        values = self._values[np.searchsorted(sums, ranks)].tolist()
        found = dict(zip((f"p{p}" for p in PERCENTILES), values, strict=True))
        mean = float((self._values * self._counts).sum() / sums[-1])
        lowest, highest = self._values[0].item(), self._values[-1].item()
        return {"count": int(sums[-1]), "mean": round(mean, 6), "min": lowest, **found, "max": highest}


def _unique(
    values: npt.NDArray[np.float64], weights: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the distinct values in ascending order, and the sum of the weights of each."""
    distinct, positions = np.unique(values, return_inverse=True)
    counts = np.zeros(len(distinct), np.int64)
    np.add.at(counts, positions, weights)
    return distinct, counts
