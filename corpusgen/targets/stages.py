"""Stages from committed sentences to targets: merge the counts, sketch the candidates, select, fetch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.engine.parts import OverParts
from corpusgen.tables import CANDIDATES, SELECTION, TARGETS, TOKEN_VOCABULARY, VOCABULARY
from corpusgen.targets.names import without_names
from corpusgen.targets.sampling import candidates, fitted_per_word, select
from corpusgen.targets.vocabulary import frequent_tokens, make_vocabulary, merge_counts


@dataclass
class MergeCounts(OverParts):
    """Merges the counts of all units into the vocabulary."""

    name: ClassVar[str] = "merge"
    whole: ClassVar[bool] = True
    adds: ClassVar[tuple[str, ...]] = tuple(VOCABULARY.names)

    drop_top_share: float
    size: int

    def process(self, rows: pa.Table) -> pa.Table:
        """Merge all parts at once: there is only one unit."""
        return make_vocabulary(merge_counts(self._tables(rows)), self.drop_top_share, self.size)


@dataclass
class MergeTokens(OverParts):
    """Merges the counts of all units into the vocabulary of whole paragraphs."""

    name: ClassVar[str] = "merge"
    whole: ClassVar[bool] = True
    adds: ClassVar[tuple[str, ...]] = tuple(TOKEN_VOCABULARY.names)

    min_count: int
    size: int

    def process(self, rows: pa.Table) -> pa.Table:
        """Merge all parts at once: there is only one unit."""
        return frequent_tokens(lambda: self._tables(rows), self.min_count, self.size)


@dataclass
class _Sampling(OverParts):
    """Draws a sample of `size` targets that is balanced over the words of the vocabulary.

    Words that are capitalised more often than `max_capital_share` are left out.
    """

    size: int
    seed: int
    sentences_per_word: int = field(default=1, metadata={"added_later": True})
    max_capital_share: float | None = field(default=None, metadata={"added_later": True})

    def setup(self) -> None:
        """Load the vocabulary, and compute how many candidates to use per word."""
        self._vocabulary = without_names(self._committed("vocabulary", "vocabulary"), self.max_capital_share)
        self._per_word = fitted_per_word(self._vocabulary, self.size, self.sentences_per_word)


@dataclass
class SketchCandidates(_Sampling):
    """Finds, for each word of the vocabulary, the sentences that could become its targets."""

    name: ClassVar[str] = "sketch"
    adds: ClassVar[tuple[str, ...]] = tuple(CANDIDATES.names)

    def process(self, rows: pa.Table) -> pa.Table:
        """Sketch each part."""
        sketches = [
            candidates(sentences, sentences["id"], self._vocabulary, self.seed, self._per_word)
            for sentences in self._tables(rows)
        ]
        return pa.concat_tables(sketches)


@dataclass
class SelectTargets(_Sampling):
    """Selects the balanced sample from all candidates."""

    name: ClassVar[str] = "select"
    whole: ClassVar[bool] = True
    adds: ClassVar[tuple[str, ...]] = tuple(SELECTION.names)

    def process(self, rows: pa.Table) -> pa.Table:
        """Select from all parts at once: there is only one unit."""
        return select(self._tables(rows), self.size, self.seed, self._per_word, self.sentences_per_word)


@dataclass
class FetchTargets(OverParts):
    """Fetches the selected sentences with their targets."""

    name: ClassVar[str] = "fetch"
    adds: ClassVar[tuple[str, ...]] = tuple(TARGETS.names)

    def setup(self) -> None:
        """Load the selection."""
        selected = self._committed("selection", "selection")
        self._selected = selected.select(["sentence", "word", "start", "end"]).rename_columns(
            ["id", "target", "target_start", "target_end"]
        )

    def process(self, rows: pa.Table) -> pa.Table:
        """Keep the selected sentences of each part, in the order of the part."""
        chosen = self._selected["id"].combine_chunks()
        fetched = []
        for sentences in self._tables(rows):
            indices = pc.index_in(sentences["id"], chosen)
            kept = pc.is_valid(indices)
            targets = self._selected.take(indices.filter(kept)).drop_columns(["id"])
            table = sentences.filter(kept)
            for name in targets.column_names:
                table = table.append_column(name, targets[name])
            fetched.append(table.select(TARGETS.names).cast(TARGETS))
        return pa.concat_tables(fetched)
