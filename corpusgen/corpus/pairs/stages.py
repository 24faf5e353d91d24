"""Stages from committed sentences to pairs: find the repeats, choose among them, fetch the sentences, join them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.config.build import DiscourseSettings
from corpusgen.corpus.pairs.repeats import WordFilter, choose, find_repeats
from corpusgen.engine import Result
from corpusgen.engine.parts import OverParts, ReadRows
from corpusgen.engine.stage import Stage
from corpusgen.errors import StoreError
from corpusgen.store import CommittedTable, Store
from corpusgen.tables import CHOICE, CHOSEN_SENTENCES, PAIRS, PROVENANCE, REPEATS

PAIRING, CHOSEN = ("pairing", "choice"), ("fetch", "sentences")
"""The passes and tables of the chosen pairs, and of their sentences."""

_OF_FINDING = ("per_document", "document_bytes", "max_capital_share", "max_overlap", "boilerplate_documents")


@dataclass
class FindRepeats(OverParts):
    """Finds the words that a document has in two sentences, and rejects those that a guard excludes."""

    name: ClassVar[str] = "repeats"
    adds: ClassVar[tuple[str, ...]] = tuple(REPEATS.names)

    settings: DiscourseSettings
    language: str
    seed: int

    def identity(self) -> dict[str, Any]:
        """Return what determines the result: all settings but the size of a unit of pairs."""
        identity = super().identity()
        settings = identity.pop("settings")
        return {**identity, **{name: settings[name] for name in ("size", *_OF_FINDING)}}

    def setup(self) -> None:
        """Load the vocabulary."""
        vocabulary = self._committed("vocabulary", "vocabulary")
        self._words = WordFilter(vocabulary, self.settings, self.language)

    def process(self, rows: pa.Table) -> Result:
        """Look through each part."""
        found = [
            find_repeats(sentences, self._words, self.settings, self.language, self.seed, self._words.per_word)
            for sentences in self._tables(rows)
        ]
        return Result(pa.concat_tables([one.found for one in found]), pa.concat_tables([one.rejects for one in found]))


@dataclass
class ChoosePairs(OverParts):
    """Chooses pairs from all repeats, balanced over the words, and a negative for each."""

    name: ClassVar[str] = "choose"
    whole: ClassVar[bool] = True
    adds: ClassVar[tuple[str, ...]] = tuple(CHOICE.names)

    size: int
    max_capital_share: float | None
    language: str
    seed: int

    def setup(self) -> None:
        """Compute how many pairs to keep for each word."""
        vocabulary = self._committed("vocabulary", "vocabulary")
        settings = DiscourseSettings(size=self.size, max_capital_share=self.max_capital_share)
        self._per_word = WordFilter(vocabulary, settings, self.language).per_word

    def process(self, rows: pa.Table) -> pa.Table:
        """Choose from all parts at once: there is only one unit."""
        return choose(self._tables(rows), self.size, self.seed, self._per_word)


@dataclass
class FetchSentences(OverParts):
    """Fetches the sentences of the chosen pairs."""

    name: ClassVar[str] = "fetch"
    adds: ClassVar[tuple[str, ...]] = tuple(CHOSEN_SENTENCES.names)

    def setup(self) -> None:
        """Load the ids of the chosen sentences."""
        self._chosen = _sentence_ids(self._committed(*PAIRING))

    def process(self, rows: pa.Table) -> pa.Table:
        """Keep the chosen sentences of each part, in the order of the part."""
        return pa.concat_tables(
            sentences.filter(pc.is_in(sentences["id"], self._chosen))
            .select(CHOSEN_SENTENCES.names)
            .cast(CHOSEN_SENTENCES)
            for sentences in self._tables(rows)
        )


@dataclass
class ReadChoice(ReadRows):
    """Reads the chosen pairs of a unit."""

    adds: ClassVar[tuple[str, ...]] = tuple(CHOICE.names)


@dataclass
class JoinSentences(Stage):
    """Turns chosen pairs into pairs with their sentences, and where these come from."""

    name: ClassVar[str] = "join"
    needs: ClassVar[tuple[str, ...]] = tuple(CHOICE.names)
    adds: ClassVar[tuple[str, ...]] = tuple(name for name in PAIRS.names if name != "unit")
    rows_may_fail: ClassVar[bool] = False

    store: Store

    def identity(self) -> dict[str, Any]:
        """Return what determines the result; not where the store is."""
        return {"stage": self.name, "version": self.version}

    def process(self, rows: pa.Table) -> pa.Table:
        """Look up the sentences among all that were fetched, part by part, and keep only those of these rows."""
        ids = _sentence_ids(rows)
        fetched = CommittedTable(self.store, *CHOSEN, finished=True)
        kept = [batch.filter(pc.is_in(batch["id"], ids)) for batch in fetched.batches(CHOSEN_SENTENCES.names)]
        sentences = pa.Table.from_batches(kept, kept[0].schema if kept else CHOSEN_SENTENCES)
        return _joined(_without_copies(rows, sentences), sentences)


def _sentence_ids(pairs: pa.Table) -> pa.Array:
    """Return the ids of the sentences of chosen pairs, each once."""
    ids = pa.concat_arrays([pairs[name].combine_chunks() for name in ("first", "second", "negative")])
    return pc.drop_null(ids).unique()


def _without_copies(rows: pa.Table, sentences: pa.Table) -> pa.Table:
    """Return chosen pairs without negatives that copy a sentence of the pair: there the word means the same."""
    ids = sentences["id"].combine_chunks()
    first, second, negative = (
        sentences["text"].take(pc.index_in(rows[side], ids)) for side in ("first", "second", "negative")
    )
    is_copy = pc.fill_null(pc.or_(pc.equal(negative, first), pc.equal(negative, second)), False)
    for name in ("negative", "negative_start", "negative_end"):
        kept = pc.if_else(is_copy, pa.scalar(None, rows.schema.field(name).type), rows[name])
        rows = rows.set_column(rows.schema.get_field_index(name), name, kept)
    return rows


def _joined(rows: pa.Table, sentences: pa.Table) -> pa.Table:
    columns: dict[str, Any] = {
        "id": rows["id"],
        "target": rows["word"],
        "overlap": rows["overlap"],
        "round": rows["round"],
    }
    members = (("first", "target", "text"), ("second", "positive", "positive"), ("negative", "negative", "negative"))
    for side, member, text in members:
        indices = pc.index_in(rows[side], sentences["id"].combine_chunks())
        if indices.null_count != rows[side].null_count:
            raise StoreError("a sentence of a pair is missing; run `corpusgen verify --repair`, then build again")
        of_side = sentences.take(indices)
        columns |= {
            f"{member}_start": rows[f"{side}_start"],
            f"{member}_end": rows[f"{side}_end"],
            text: of_side["text"],
        }
        if side == "first":
            columns |= {name: of_side[name] for name in (*(name for name, _ in PROVENANCE), "paragraph", "sentence")}
            columns |= _neighbours(rows, of_side["text"])
            continue
        columns[f"{member}_word"] = pc.if_else(pc.is_valid(rows[side]), rows["word"], pa.scalar(None, pa.string()))
        names = ("paragraph", "sentence") if side == "second" else ("source", "article", "title")
        columns |= {f"{member}_{name}": of_side[name] for name in names}
    return pa.table({name: columns[name] for name in JoinSentences.adds})


def _neighbours(rows: pa.Table, texts: pa.ChunkedArray) -> dict[str, Any]:
    starts, ends = rows["neighbour_start"], rows["neighbour_end"]
    spans = zip(texts.to_pylist(), starts.to_pylist(), ends.to_pylist(), strict=True)
    written = [None if start is None else text[start:end] for text, start, end in spans]
    return {"neighbour_word": pa.array(written, pa.string()), "neighbour_start": starts, "neighbour_end": ends}
