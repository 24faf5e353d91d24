"""Explanations of why a pair is what it is, or why a word has none, by the code that finds and chooses pairs."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.pairs import guards
from corpusgen.corpus.pairs.repeats import WordFilter, documents_of, judge_occurrences
from corpusgen.corpus.pairs.stages import ChoosePairs, FindRepeats, JoinSentences
from corpusgen.corpus.recipes.discourse import RECIPE
from corpusgen.corpus.stored_settings import recorded_config
from corpusgen.engine import Result
from corpusgen.engine.parts import part_records
from corpusgen.errors import CorpusgenError
from corpusgen.io.hashing import content_hash
from corpusgen.io.terminal import marked
from corpusgen.ops.inspect.stored import Origins, Stored
from corpusgen.ops.inspect.units import unit_facts
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import DISCOURSE
from corpusgen.store.rows import Row, find_rows, plain_rows, random_rows
from corpusgen.tables import REPEATS

NOT_REACHED = "not tried: enough came before"
_DOCUMENTS_SHOWN = 20


@dataclass(frozen=True)
class SeenOccurrence:
    """An occurrence of the word in the document, numbered in the order in which occurrences are tried."""

    number: int
    text: str
    """The sentence, with the word in brackets."""
    paragraph: int
    sentence: int
    reason: str | None
    """Why it is in no pair; None if it may be in one."""


@dataclass(frozen=True)
class TriedPair:
    """Two occurrences, by their numbers; `verdict` is what spoke against the pair, or "taken"."""

    first: int
    second: int
    overlap: float
    verdict: str


@dataclass(frozen=True)
class PairExplanation:
    """How a pair came about. `stored` is its row; `differences` are columns, their value in the store, and now."""

    store: str
    stored: Row
    unit: Mapping[str, Any]
    settings: Mapping[str, Any]
    same_code: bool
    document: str
    sentences: int
    """The number of sentences of the document."""
    occurrences: Sequence[SeenOccurrence]
    tried: Sequence[TriedPair]
    priority: int
    candidates: int
    """The number of candidate pairs of the word, in all documents."""
    differences: Sequence[tuple[str, Any, Any]]

    @property
    def same(self) -> bool:
        """Return whether the same pair comes out now."""
        return not self.differences


@dataclass(frozen=True)
class NoPair:
    """Why a word has no pair: in the vocabulary or not, never paired at all, or for reasons in some documents."""

    store: str
    word: str
    in_vocabulary: bool
    reason: str | None
    """Why the word is never paired, in whatever document."""
    documents: int
    """The number of documents that were looked at and have the word in two sentences."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    examples: Sequence[tuple[str, str]] = ()
    """Some documents, each with its reason."""
    candidates: int = 0
    """Candidate pairs that were found, but not chosen."""
    whole: bool = True
    """Whether all documents were looked at."""


def find_pair(store: Store, id_: str) -> Stored:
    """Return the pair with this id; raise CorpusgenError if there is none."""
    rows = find_rows(DISCOURSE.open(store), id_)
    if not rows:
        shown = f"`corpusgen sample {store.url} --table {DISCOURSE.table}` shows some ids"
        raise CorpusgenError(f"{store.url}: no pair has the id {id_}; {shown}")
    return Stored(store, DISCOURSE.table, rows[0])


def pair_of_word(store: Store, word: str, seed: int = 0) -> Stored | None:
    """Return a pair of the word, the same one for the same seed; None if there is none."""
    rows = random_rows(DISCOURSE.open(store), 1, seed, word)
    return Stored(store, DISCOURSE.table, rows[0]) if rows else None


def explain_pair(stored: Stored) -> PairExplanation:
    """Explain a pair: what its document had to choose from, why this one was taken, and whether it still would be."""
    stored = Origins(DISCOURSE).of(stored)
    store, row = stored.store, stored.row
    found = _Finder(store)
    settings, word, document = found.config.discourse, row["target"], row["id"].partition("-")[0]
    record, sentences = found.part_with(row)
    judged = judge_occurrences(sentences, found.words, settings, *found.context, word, document)
    numbers = {(one.occurrence.row, one.occurrence.start): number for number, one in enumerate(judged, 1)}
    usable = [one.occurrence for one in judged if one.reason is None]
    most = max(guards.MOST_OCCURRENCES, 2 * settings.per_document)
    tried = guards.try_pairs(usable[:most], settings.per_document, settings.max_overlap, found.config.language.code)
    beyond = {(one.row, one.start) for one in usable[most:]}
    repeats = found.repeats_of(word)
    candidates = repeats.filter(pc.is_valid(repeats["second"]))
    own = candidates.filter(pc.equal(candidates["document"], document))
    return PairExplanation(
        store=store.url,
        stored=row,
        unit=unit_facts(store, row["unit"], DISCOURSE),
        settings=settings.model_dump(mode="json"),
        same_code=found.same_code,
        document=document,
        sentences=int((found.documents.of_row == found.documents.keys.index(document)).sum()),
        occurrences=[
            SeenOccurrence(
                number,
                marked(sentences["text"][one.occurrence.row].as_py(), one.occurrence.start, one.occurrence.end),
                sentences["paragraph"][one.occurrence.row].as_py(),
                sentences["sentence"][one.occurrence.row].as_py(),
                NOT_REACHED if (one.occurrence.row, one.occurrence.start) in beyond else one.reason,
            )
            for number, one in enumerate(judged, 1)
        ],
        tried=[
            TriedPair(
                numbers[one.first.row, one.first.start],
                numbers[one.second.row, one.second.start],
                round(one.overlap, 5),
                one.problem or "taken",
            )
            for one in tried
        ],
        priority=own["priority"][0].as_py() if own.num_rows else 0,
        candidates=candidates.num_rows,
        differences=[*found.changed_candidates(record, word, document, own), *found.changed_columns(row)],
    )


class _Finder:
    """The stages that made the pairs of a store, set up again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.config: BuildConfig = recorded_config(store.url, store.corpus())
        self._find = FindRepeats(self.config.discourse, self.config.language.code, self.config.seed, store=store)
        self._find.setup()
        vocabulary = CommittedTable(store, "vocabulary", "vocabulary").to_table()
        self.words = WordFilter(vocabulary, self.config.discourse, self.config.language.code)
        self.context = self.config.language.code, self.config.seed
        self._harvest = CommittedTable(store, "harvest", "sentences")

    @property
    def same_code(self) -> bool:
        """Return whether the stages have the settings and versions with which the passes were planned."""
        for name in ("repeats", "pairing", DISCOURSE.pass_name):
            stages = RECIPE.passes[name].stages(self.config, self.store)
            now = content_hash({"pass": name, "stages": [stage.identity() for stage in stages]})
            if self.store.pass_store(name).plan().fingerprint != now:
                return False
        return True

    def part_with(self, row: Row) -> tuple[dict[str, Any], pa.Table]:
        """Return the part of the harvest with the document of a pair: its record, and its sentences."""
        document = row["id"].partition("-")[0]
        for record, part in zip(part_records(self._harvest), self._harvest.parts, strict=True):
            names = pa.Table.from_batches(list(self._harvest.part_batches(part, ("source", "article"))))
            here = pc.equal(names["source"], row["source"])
            if row["article"] is not None:
                here = pc.and_(here, pc.equal(names["article"], row["article"]))
            if not pc.any(here).as_py():
                continue
            sentences = pa.Table.from_batches(list(self._harvest.part_batches(part)), self._harvest.schema)
            self.documents = documents_of(sentences, self.config.discourse.document_bytes)
            if document in self.documents.keys:
                return record, sentences
        raise CorpusgenError(
            f"{self.store.url}: the document of {row['id']} is not in the harvest; run `corpusgen verify`"
        )

    def repeats_of(self, word: str) -> pa.Table:
        """Return what was found of a word in all documents, the lowest priority first."""
        table = CommittedTable(self.store, "repeats", "repeats")
        batches = [batch.filter(pc.equal(batch["word"], word)) for batch in table.batches()]
        found = pa.Table.from_batches(batches, REPEATS) if batches else REPEATS.empty_table()
        return found.sort_by([("priority", "ascending"), ("document", "ascending")])

    def found_in(self, record: Mapping[str, Any]) -> Result:
        """Look for repeats in a part of the harvest, as the build did."""
        return self._find.process(pa.Table.from_pylist([dict(record)]))

    def changed_candidates(
        self, record: Mapping[str, Any], word: str, document: str, stored: pa.Table
    ) -> Iterator[tuple[str, Any, Any]]:
        """Yield what differs between the candidates that the document gives now, and those that are committed."""
        rows = self.found_in(record).rows
        mine = pc.and_(pc.equal(rows["word"], word), pc.equal(rows["document"], document))
        now = rows.filter(pc.and_(mine, pc.is_valid(rows["second"]))).sort_by("priority")
        if now.to_pylist() != stored.to_pylist():
            yield "candidates", stored.num_rows, now.num_rows

    def changed_columns(self, row: Row) -> Iterator[tuple[str, Any, Any]]:
        """Choose among the candidates of the word again, and yield the columns of the pair that come out otherwise."""
        config = self.config
        found = config.discourse
        stage = _ChooseForWord(
            *(found.size, found.max_capital_share, *self.context), store=self.store, word=row["target"]
        )
        stage.setup()
        stage.size = sys.maxsize  # other words, which take turns with this one, are not looked at
        chosen = stage.process(pa.Table.from_pylist(part_records(CommittedTable(self.store, "repeats", "repeats"))))
        chosen = chosen.filter(pc.equal(chosen["id"], row["id"]))
        if not chosen.num_rows:
            yield "id", row["id"], None
            return
        (now,) = plain_rows(JoinSentences(self.store).process(chosen))
        yield from ((name, row[name], value) for name, value in now.items() if row[name] != value)

    def parts_repeating(self, word: str) -> Iterator[tuple[Mapping[str, Any], dict[str, str]]]:
        """Yield parts of the harvest in which a document may have the word twice, with the titles of its documents."""
        block = self.config.discourse.document_bytes
        for record, part in zip(part_records(self._harvest), self._harvest.parts, strict=True):
            sentences = pa.Table.from_batches(list(self._harvest.part_batches(part)), self._harvest.schema)
            with_word = pc.indices_nonzero(pc.match_substring(sentences["text"], word)).to_pylist()
            documents = documents_of(sentences, block)
            times = Counter(documents.of_row[with_word].tolist())
            if max(times.values(), default=0) > 1:
                titles = {}
                for row in with_word:
                    told = [sentences[name][row].as_py() for name in ("title", "article", "source")]
                    titles[documents.keys[documents.of_row[row]]] = str(next(filter(None, told), ""))
                yield record, titles


@dataclass
class _ChooseForWord(ChoosePairs):
    """Chooses among the repeats of one word."""

    word: str = field(kw_only=True)

    def _tables(self, rows: pa.Table) -> Iterator[pa.Table]:
        for table in super()._tables(rows):
            yield table.filter(pc.equal(table["word"], self.word))


def explain_no_pair(store: Store, word: str) -> NoPair:
    """Explain why a word has no pair: look for it until some documents are found that repeat it."""
    if "merged" in store.corpus():
        raise CorpusgenError(f"{store.url} was merged: use the stores that it was merged from to explain {word!r}")
    found = _Finder(store)
    code = found.words.words.index(pa.scalar(word)).as_py()
    if code < 0:
        return NoPair(store.url, word, False, None, 0)
    reason = found.words.reasons[code]
    if reason is not None:
        return NoPair(store.url, word, True, reason, 0)
    reasons: Counter[str] = Counter()
    examples: list[tuple[str, str]] = []
    whole = True
    for record, titles in found.parts_repeating(word):
        if len(examples) >= _DOCUMENTS_SHOWN:
            whole = False
            break
        rejects = found.found_in(record).rejects
        for row in rejects.filter(pc.equal(rejects["word"], word)).to_pylist() if rejects is not None else ():
            reasons[row["reason"]] += 1
            examples.append((titles[row["document"]], row["reason"]))
    candidates = int(pc.sum(pc.is_valid(found.repeats_of(word)["second"])).as_py() or 0)
    return NoPair(
        *(store.url, word, True, None, len(examples), dict(reasons.most_common()), examples[:_DOCUMENTS_SHOWN]),
        candidates=candidates,
        whole=whole,
    )
