"""Extrapolation from a part of the source to all of it: sums grow with its bytes, distinct words more slowly."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusgen.ops.estimate.measure import MeasuredPass
from corpusgen.ops.estimate.source import SourceSample
from corpusgen.ops.estimate.uncertain import DRAWS, Uncertain
from corpusgen.targets.sampling import fitted_per_word
from corpusgen.targets.vocabulary import merge_counts

_HEADS = 1.15  # factor by which the rest of a file may differ from its beginning
_ONE_PIECE = 2.0  # factor by which the rest may differ from a single piece
_SLACK = 2  # candidates kept for a word, in all parts together, as a multiple of those it needs


class WholeSource:
    """The whole source, with the pieces resampled with replacement to show what else their sums might have been."""

    def __init__(self, source: SourceSample, chance: np.random.Generator) -> None:
        self._source, self._chance = source, chance
        self._pieces = np.array([piece.bytes for piece in source.pieces], np.float64)
        number = len(self._pieces)
        self._drawn = chance.multinomial(number, np.full(number, 1 / number), DRAWS)
        self._rest = Uncertain.exactly(1.0).spread(_HEADS if source.heads else 1.0, chance)

    def sum_of(self, of_pieces: Sequence[float] | npt.NDArray[np.float64]) -> Uncertain:
        """Return the sum over the whole source, from the value of each piece."""
        values, source = np.asarray(of_pieces, np.float64), self._source
        number = len(values)
        whole = float(values.sum() / self._pieces.sum() * source.bytes)
        if source.share >= 1:
            return Uncertain.exactly(whole)
        if number == 1:
            return Uncertain.exactly(whole).spread(_ONE_PIECE, self._chance)
        drawn = self._drawn @ values / (self._drawn @ self._pieces) * source.bytes
        # Resampling few pieces makes the spread too small; and the part that was read is known.
        factor = math.sqrt(number / (number - 1) * (1 - source.share))
        return Uncertain(whole, np.maximum(whole + factor * (drawn - whole), 0)) * self._rest

    def seconds_of(self, of_pieces: Sequence[float]) -> Uncertain:
        """Return the sum of seconds. The first piece warmed up: it counts as if it had been as fast as the others."""
        values = np.array(of_pieces, np.float64)
        if len(values) > 1:
            values[0] = self._pieces[0] * values[1:].sum() / self._pieces[1:].sum()
        return self.sum_of(values)


def distinct_words(harvest: MeasuredPass, rows: float, table: str = "sentences") -> float:
    """Return the number of distinct words in so many rows of a table, by Heaps' law.

    It is fitted to the distinct words in one piece, in half of the pieces, and in all of them.
    """
    sizes, words = (np.array([part.get(name, 0) for part in harvest.part_rows]) for name in (table, "counts"))
    pieces = len(sizes)
    known = [(sizes.mean(), words.mean())]
    for number in (pieces // 2, pieces) if pieces > 1 else ():
        together = merge_counts([harvest.rows["counts"].slice(0, int(words[:number].sum()))])
        known.append((sizes[:number].sum(), together.num_rows))
    x, y = np.log(np.maximum(known, 1e-9)).T
    at = math.log(max(rows, 1e-9))
    if pieces == 1 or at <= x[-1]:
        return float(np.exp(np.interp(at, x, y)))
    return float(np.exp(y[-1] + (y[-1] - y[-2]) / max(x[-1] - x[-2], 1e-9) * (at - x[-1])))


def most_candidates(vocabulary: pa.Table, times: float, targets: float, parts: int, at_once: int = 1) -> float:
    """Return the most candidates that `parts` parts can keep of these words, if they occur `times` times as often."""
    counts = np.ceil(vocabulary["count"].to_numpy() * times).astype(np.int64)
    per_word = fitted_per_word(pa.table({"count": counts}), max(1, round(targets)), at_once)
    return float(np.minimum(counts, min(_SLACK, parts) * per_word).sum())
