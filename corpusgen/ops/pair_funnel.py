"""The funnel of a corpus of pairs, from the words that documents repeat to pairs; its numbers add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.corpus.pairs.stages import PAIRING
from corpusgen.store import CommittedTable, StageCount, Store, Totals
from corpusgen.store.products import DISCOURSE
from corpusgen.store.status import PassStatus

_REPEATS = ("repeats", "repeats")
NOWHERE_ELSE = "in no other document"
COPIED = "it copied a sentence"
NOT_KNOWN = "not known of merged pairs"


@dataclass(frozen=True)
class Repeated:
    """What the documents repeat. A *repeat* is a word of the vocabulary that a document has in two sentences.

    Each repeat was rejected for one reason, or gave candidate pairs: `repeats` is the sum of `rejected` and `paired`.
    Of the `candidates`, `chosen` are in the corpus.
    """

    sentences: int
    repeats: int
    rejected: dict[str, int]
    paired: int
    candidates: int
    chosen: int


@dataclass(frozen=True)
class PairFunnel:
    """The numbers of pairs, and what they come from; `repeated` is None in a merged store, which has only pairs.

    Each pair has a negative, or a reason why not: `pairs` is the sum of `with_negative` and `without_negative`. Either
    the word can be used in no other document, or the sentence that was found there copied one of the pair's.
    """

    repeated: Repeated | None
    pairs: int
    with_negative: int
    without_negative: dict[str, int]
    words: int
    most_of_a_word: int
    documents: int

    @property
    def mean_of_a_word(self) -> float:
        """Return the mean number of pairs of a word that has any."""
        return self.pairs / self.words if self.words else 0.0


@dataclass
class PairFunnelCount:
    """A funnel counted batch by batch. What comes before the pairs is complete when they begin: it is read once."""

    OF_ROWS = ("id", "target", "negative")
    OF_REJECTS = ()

    store: Store
    made: Counter[str] = field(default_factory=Counter)
    _documents: set[str] = field(default_factory=set)
    _with_negative: int = 0
    _without_negative: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        begun = {found.name for found in self.store.passes()}
        self._repeated = _repeated(self.store) if _REPEATS[0] in begun else None
        self._nowhere_else = _chosen_without_negative(self.store) if PAIRING[0] in begun else None

    def add_stages(self, stages: Sequence[StageCount]) -> None:
        """Count nothing: what comes before the pairs is counted already."""

    def add_rows(self, batch: pa.RecordBatch) -> None:
        """Count pairs; the batch has at least the columns `OF_ROWS`."""
        self.made.update(batch["target"].to_pylist())
        self._documents.update(id_.partition("-")[0] for id_ in batch["id"].to_pylist())
        self._with_negative += batch.num_rows - batch["negative"].null_count
        without = batch["id"].filter(pc.is_null(batch["negative"])).to_pylist()
        self._without_negative.update(map(self._why_without, without))

    def _why_without(self, pair: str) -> str:
        if self._nowhere_else is None:
            return NOT_KNOWN
        return NOWHERE_ELSE if pair in self._nowhere_else else COPIED

    def add_rejects(self, batch: pa.RecordBatch) -> None:
        """Count nothing: rejects are those of the repeats, which only their commits count."""

    def result(self) -> PairFunnel:
        """Return the funnel of everything that was added."""
        return PairFunnel(
            self._repeated,
            pairs=self.made.total(),
            with_negative=self._with_negative,
            without_negative=dict(self._without_negative.most_common()),
            words=len(self.made),
            most_of_a_word=max(self.made.values(), default=0),
            documents=len(self._documents),
        )


def _repeated(store: Store) -> Repeated:
    totals = PassStatus(store.pass_store(_REPEATS[0])).refresh()
    rejected: Counter[str] = Counter()
    for stage in totals.stages.values():
        rejected.update(stage.rejected)
    paired = candidates = 0
    table = CommittedTable(store, *_REPEATS)
    for part in table.parts:
        columns = ("word", "document", "second")
        rows = pa.Table.from_batches(list(table.part_batches(part, columns)))
        pairs = rows.filter(pc.is_valid(rows["second"]))  # the others are words that stand alone in their document
        candidates += pairs.num_rows
        paired += pairs.group_by(["word", "document"]).aggregate([]).num_rows
    return Repeated(
        sentences=_rows(store, "harvest", "sentences"),
        repeats=rejected.total() + paired,
        rejected=dict(rejected.most_common()),
        paired=paired,
        candidates=candidates,
        chosen=_rows(store, *PAIRING),
    )


def _chosen_without_negative(store: Store) -> set[str]:
    """Return the ids of the pairs for which no negative was found; other negatives were dropped when they were read."""
    batches = CommittedTable(store, *PAIRING).batches(("id", "negative"))
    return {pair for batch in batches for pair in batch["id"].filter(pc.is_null(batch["negative"])).to_pylist()}


def _rows(store: Store, pass_name: str, table: str) -> int:
    found = store.pass_store(pass_name)
    totals: Totals = PassStatus(found).refresh()
    return totals.rows.get(table, 0)


def pair_funnel(store: Store) -> PairFunnel:
    """Return the funnel of what is committed."""
    count = PairFunnelCount(store)
    for batch in DISCOURSE.open(store).batches(PairFunnelCount.OF_ROWS):
        count.add_rows(batch)
    return count.result()


def lines(found: PairFunnel) -> Iterator[str]:
    """Yield a table for the terminal; shares are of the number that a line is part of."""
    yield "funnel of pairs"
    if before := found.repeated:
        yield _line("sentences", before.sentences)
        yield _line("words that a document repeats", before.repeats)
        for reason, count in before.rejected.items():
            yield _line(f"  {reason}", count, before.repeats)
        yield _line("  with candidate pairs", before.paired, before.repeats)
        yield _line("candidate pairs", before.candidates)
        yield _line("  chosen", before.chosen, before.candidates)
    yield _line("pairs", found.pairs)
    yield _line("  with a negative", found.with_negative, found.pairs)
    for reason, count in found.without_negative.items():
        yield _line(f"  without: {reason}", count, found.pairs)
    yield _line("  documents", found.documents)
    yield _line("  words", found.words)
    yield f"{'  pairs of a word':36}{found.mean_of_a_word:>12.2f} on average, {found.most_of_a_word:,} at most"


def _line(label: str, value: int, of: int | None = None) -> str:
    return f"{label:36}{value:>12,}" + (f"{value / of:>8.1%}" if of else "")
