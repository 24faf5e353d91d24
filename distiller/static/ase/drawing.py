"""The stages that draw the contexts of each word out of paragraphs. None of them needs a model, nor torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusgen.engine import Result, Stage
from corpusgen.engine.parts import OverParts, ReadRows
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import read_vocabulary
from distiller.static.ase.sampling import ALL, Priorities, find_occurrences, limits, lowest, priorities, thresholds

PRIORITIES, THRESHOLDS = "priorities", "thresholds"
"""The passes of these stages; the main table of each has its name."""


@dataclass(frozen=True)
class Words:
    """The words of a corpus that get vectors: the first `size` of its vocabulary."""

    corpus: Store
    size: int

    @cached_property
    def _read(self) -> tuple[list[str], npt.NDArray[np.int64]]:
        words, counts = read_vocabulary(self.corpus)
        return words[: self.size], counts[: self.size]

    @property
    def words(self) -> list[str]:
        """Return the words, the most frequent first."""
        return self._read[0]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Return how often each occurs."""
        return self._read[1]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Return the number of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def __getstate__(self) -> dict[str, Any]:
        return {"corpus": self.corpus, "size": self.size}  # workers read the words themselves


@dataclass
class ReadParagraphs(ReadRows):
    """The stage that reads the paragraphs of a unit."""

    columns: tuple[str, ...] = field(kw_only=True, metadata={"content": False})

    @property
    def adds(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the columns that the stage reads."""
        return self.columns


@dataclass
class LowestPriorities(Stage):
    """The stage that finds the occurrences of lowest priority of each word in a unit."""

    name: ClassVar[str] = "lowest"
    needs: ClassVar[tuple[str, ...]] = ("id", "text", "token_starts", "token_ends")
    adds: ClassVar[tuple[str, ...]] = ("word", "priority")
    expands: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    contexts: int
    seed: int
    vocabulary: str
    """The hash of the vocabulary."""
    words: Words = field(metadata={"content": False})

    def setup(self) -> None:
        """Read the vocabulary."""
        self._limits = limits(self.words.counts, self.contexts)

    def process(self, rows: pa.Table) -> Result:
        """Return the numbers of words with their lowest priorities."""
        found = find_occurrences(rows, self.words.numbers)
        priority = priorities(rows["id"].to_pylist(), found, self.seed)
        low = np.flatnonzero(priority <= self._limits[found.words])
        low = low[lowest(found.words[low], priority[low], self.contexts)]
        columns = {"word": pa.array(found.words[low], pa.int32()), "priority": pa.array(priority[low])}
        return Result(pa.table(columns), used=rows.num_rows)


@dataclass
class MergePriorities(OverParts):
    """The stage that merges the priorities of a range of words into their thresholds."""

    name: ClassVar[str] = "merge"
    needs: ClassVar[tuple[str, ...]] = (*OverParts.needs, "first_word", "words")
    adds: ClassVar[tuple[str, ...]] = ("word", "priority")
    whole: ClassVar[bool] = True

    contexts: int
    vocabulary: str
    words: Words = field(metadata={"content": False})

    def process(self, rows: pa.Table) -> pa.Table:
        """Return the threshold of each word."""
        first, size = rows["first_word"][0].as_py(), rows["words"][0].as_py()
        words, of = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
        for table in self._tables(rows):
            number = table["word"].to_numpy().astype(np.int64) - first
            inside = (number >= 0) & (number < size)
            words.append(number[inside])
            of.append(table["priority"].to_numpy()[inside])
        limit = limits(self.words.counts[first : first + size], self.contexts)
        found = thresholds(np.concatenate(words), np.concatenate(of), limit, self.contexts)
        return pa.table({"word": pa.array(range(first, first + size), pa.int32()), "priority": pa.array(found)})


@dataclass
class FindContexts(Stage):
    """The stage that finds the contexts in paragraphs: a row for each, with its sentence."""

    name: ClassVar[str] = "contexts"
    needs: ClassVar[tuple[str, ...]] = (
        "id", "text", "sentence_starts", "sentence_ends", "sentence_tokens", "token_starts", "token_ends"
    )  # fmt: skip
    adds: ClassVar[tuple[str, ...]] = ("word", "text", "start", "end")
    expands: ClassVar[bool] = True

    seed: int
    vocabulary: str
    words: Words = field(metadata={"content": False})
    thresholds: Store | None = field(metadata={"content": False})
    """The store with the thresholds, whose hash is in the records of units; None: all occurrences are contexts."""

    def setup(self) -> None:
        """Read the vocabulary and the thresholds."""
        self._thresholds: Priorities = np.full(self.words.size, ALL, np.uint64)
        if self.thresholds is not None:
            table = CommittedTable(self.thresholds, THRESHOLDS, THRESHOLDS, finished=True).to_table(["priority"])
            self._thresholds = table["priority"].to_numpy()

    def process(self, rows: pa.Table) -> Result:
        """Return the number of each context's word, its sentence and its span in it."""
        found = find_occurrences(rows, self.words.numbers)
        chosen = priorities(rows["id"].to_pylist(), found, self.seed) <= self._thresholds[found.words]
        paragraphs = rows.select(self.needs).to_pylist()
        ends = [np.cumsum(paragraph["sentence_tokens"]) for paragraph in paragraphs]
        texts, starts, stops = [], [], []
        for row, place in zip(found.rows[chosen].tolist(), found.places[chosen].tolist(), strict=True):
            paragraph = paragraphs[row]
            sentence = int(np.searchsorted(ends[row], place, side="right"))
            first = paragraph["sentence_starts"][sentence]
            texts.append(paragraph["text"][first : paragraph["sentence_ends"][sentence]])
            starts.append(paragraph["token_starts"][place] - first)
            stops.append(paragraph["token_ends"][place] - first)
        columns = [pa.array(found.words[chosen], pa.int32()), pa.array(texts, pa.string())]
        columns += [pa.array(offsets, pa.int32()) for offsets in (starts, stops)]
        return Result(pa.table(columns, names=list(self.adds)), used=rows.num_rows)
