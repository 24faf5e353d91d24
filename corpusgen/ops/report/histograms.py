"""Histograms with fixed bins, which count rows as they are read and keep none."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.float64]

_COSINES: Numbers = np.round(np.linspace(-1, 1, 81), 3)  # so that thresholds such as 0.45 lie between two bins
_PROBABILITIES: Numbers = np.logspace(-4, 0, 81)
_WORDS: Numbers = np.arange(0.5, 121)
_TRIPLES: Numbers = np.arange(-0.5, 101)
_NEARLY = 1e-6  # stored values were rounded to five decimals, and then to the nearest float32


@dataclass
class Histogram:
    """How often each value occurs. Values outside the bins count in the outermost ones."""

    title: str
    note: str
    edges: Numbers
    is_log: bool = False
    without_ones: bool = False
    """Count values of 1 separately: most words are their own paraphrase, and that bar would dwarf all others."""
    is_whole: bool = False
    """Whether values are whole numbers, each with its own bin."""
    ones: int = 0
    counts: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.edges) - 1, np.int64)

    def add(self, values: pa.Array) -> None:
        """Count some values, without nulls."""
        numbers = values.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
        if self.without_ones:
            is_one = numbers >= 1 - _NEARLY
            self.ones += int(is_one.sum())
            numbers = numbers[~is_one]
        bins = np.searchsorted(self.edges, numbers + _NEARLY, side="right") - 1
        self.counts += np.bincount(bins.clip(0, len(self.counts) - 1), minlength=len(self.counts))

    @property
    def total(self) -> int:
        """Return how many values are in the bins."""
        return int(self.counts.sum())

    def quantile(self, share: float) -> float:
        """Return the value below which a share of all lies, as exactly as the bins allow; needs at least one value."""
        sums = np.cumsum(self.counts)
        place = int(np.searchsorted(sums, share * sums[-1]))
        low, high = self.edges[place], self.edges[place + 1]
        if self.is_whole:
            return float(round((low + high) / 2))
        before = sums[place] - self.counts[place]
        return float(low + (high - low) * (share * sums[-1] - before) / self.counts[place])


class TripleHistograms:
    """The histograms of a report."""

    COLUMNS = ("text", "alignment", "positive_cosine", "negative_cosine", "negative_probability")

    def __init__(self) -> None:
        self._of = {
            "alignment": Histogram("Alignment", "cosine of wt and the aligned word", _COSINES, without_ones=True),
            "positive_cosine": Histogram("Positive", "cosine of wt and wp", _COSINES, without_ones=True),
            "negative_cosine": Histogram("Negative", "cosine of wt and wn", _COSINES),
            "negative_probability": Histogram(
                "Negative", "probability of wn for the masked LM", _PROBABILITIES, is_log=True
            ),
            "text": Histogram("Sentences", "words in S, parted by spaces", _WORDS, is_whole=True),
        }

    def add(self, batch: pa.RecordBatch) -> None:
        """Count triples; the batch has at least `COLUMNS`."""
        for column, histogram in self._of.items():
            values = batch[column]
            if column == "text":
                values = pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(values)))
            histogram.add(values)

    def by_column(self) -> dict[str, Histogram]:
        """Return the histograms that have any values."""
        return {column: histogram for column, histogram in self._of.items() if histogram.total or histogram.ones}


def per_target(made: Counter[str]) -> Histogram:
    """Count how many targets have how many triples."""
    found = Histogram("Targets", "triples of a target", _TRIPLES, is_whole=True)
    found.add(pa.array(made.values(), pa.int64()))
    return found
