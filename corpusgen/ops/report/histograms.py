"""Histograms, which count rows as they are read and keep none."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusgen.ops.inspect.distributions import Distribution
from corpusgen.ops.inspect.stats import words_per_text
from corpusgen.ops.paragraph_funnel import LENGTHS, lengths
from corpusgen.pages.charts import round_step

Numbers = npt.NDArray[np.float64]

_COSINES: Numbers = np.round(np.linspace(-1, 1, 81), 3)  # so that thresholds such as 0.45 lie between two bins
_PROBABILITIES: Numbers = np.logspace(-4, 0, 81)
_WORDS: Numbers = np.arange(0.5, 121)
_ROWS: Numbers = np.arange(-0.5, 101)
_MOST_BINS, _USUAL_BINS = 120, 40
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
        bin_ = int(np.searchsorted(sums, share * sums[-1]))
        low, high = self.edges[bin_], self.edges[bin_ + 1]
        if self.is_whole:
            return float(round((low + high) / 2))
        before = sums[bin_] - self.counts[bin_]
        return float(low + (high - low) * (share * sums[-1] - before) / self.counts[bin_])


class TripleHistograms:
    """The histograms of a report."""

    columns: Sequence[str] = ("text", "alignment", "positive_cosine", "negative_cosine", "negative_probability")
    """The columns that are counted."""

    def __init__(self) -> None:
        self._of = {
            "alignment": Histogram("Alignment", "cosine of wt and the aligned word", _COSINES, without_ones=True),
            "positive_cosine": Histogram("Positive", "cosine of wt and wp", _COSINES, without_ones=True),
            "negative_cosine": Histogram("Negative", "cosine of wt and wn", _COSINES),
            "negative_probability": Histogram(
                "Negative", "probability of wn for the masked LM", _PROBABILITIES, is_log=True
            ),
            "text": Histogram("Sentences", "words in S, separated by spaces", _WORDS, is_whole=True),
        }

    def add(self, batch: pa.RecordBatch) -> None:
        """Count triples; the batch has at least `columns`."""
        for column, histogram in self._of.items():
            values = batch[column]
            if column == "text":
                values = words_per_text(values)
            histogram.add(values)

    def by_column(self) -> dict[str, Histogram]:
        """Return the histograms that have any values."""
        return {column: histogram for column, histogram in self._of.items() if histogram.total or histogram.ones}


class _FittedHistograms:
    """Histograms whose bins follow from the values; `notes` says what the numbers of each are, `columns` is read."""

    def __init__(self, notes: Mapping[str, str], columns: Sequence[str]) -> None:
        self._notes, self.columns = notes, columns
        self._of = {name: Distribution() for name in notes}

    def by_column(self) -> dict[str, Histogram]:
        """Return the histograms that have any values."""
        counted = {column: found.counted() for column, found in self._of.items()}
        return {
            column: _with_bins(self._title(column), self._notes[column], values, counts)
            for column, (values, counts) in counted.items()
            if len(values)
        }

    def _title(self, column: str) -> str:
        return column.replace("_", " ").capitalize()


class ParagraphHistograms(_FittedHistograms):
    """The histograms of paragraphs: how long they and their sentences are."""

    def __init__(self) -> None:
        super().__init__(LENGTHS, ["sentence_tokens"])

    def add(self, batch: pa.RecordBatch) -> None:
        """Count paragraphs; the batch has at least the column `sentence_tokens`."""
        for name, values in lengths(batch).items():
            self._of[name].add(values)


class ColumnHistograms(_FittedHistograms):
    """The histograms of a product without any of its own: its numbers, and the lengths of its sentences."""

    def __init__(self, numbers: Mapping[str, str], sentence: str) -> None:
        notes = {**numbers, sentence: f"words in {sentence}, separated by spaces"}
        super().__init__(notes, list(notes))
        self._sentence = sentence

    def add(self, batch: pa.RecordBatch) -> None:
        """Count rows; the batch has at least the columns of the numbers, and that of the sentence."""
        for column, found in self._of.items():
            found.add(words_per_text(batch[column]) if column == self._sentence else batch[column])

    def _title(self, column: str) -> str:
        return "Sentences" if column == self._sentence else super()._title(column)


def _with_bins(title: str, note: str, values: Numbers, counts: npt.NDArray[np.int64]) -> Histogram:
    """Return a histogram of counted values: a bin for each number if they are whole and near each other."""
    low, high = float(values[0]), float(values[-1])
    is_whole = bool((values == np.rint(values)).all()) and high - low < _MOST_BINS
    step = 1.0 if is_whole else round_step(high - low, _USUAL_BINS)
    first, last = math.floor(low / step + _NEARLY), math.ceil(high / step - _NEARLY)
    numbers = np.arange(first, max(last, first + 1) + 1, dtype=np.float64)
    edges: Numbers = np.append(numbers[: last - first + 1] - 0.5, last + 0.5) if is_whole else numbers * step
    found = Histogram(title, note, edges, is_whole=is_whole)
    bins = np.searchsorted(edges, values + _NEARLY * step, side="right") - 1
    np.add.at(found.counts, bins.clip(0, len(found.counts) - 1), counts)
    return found


def per_word(made: Counter[str], title: str, note: str) -> Histogram:
    """Count how many words have how many rows."""
    found = Histogram(title, note, _ROWS, is_whole=True)
    found.add(pa.array(made.values(), pa.int64()))
    return found
