"""The vectors of all words of a corpus of paragraphs in their sentences, made once and kept beside the corpus.

They have their own store, `<corpus>/static/<16 hex digits>`, as the vectors of sentences for X2Static have. The digits
identify the frozen model, the settings that matter here and the corpus.

A row is a sentence: its words as numbers in the vocabulary, −1 for others, which of them have a vector, and these
vectors as float16, one after the other. A sentence without a row is a reject, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from corpusgen.config.run import Resources, RunSettings
from corpusgen.engine import Pass, Result, Stage
from corpusgen.engine.parts import part_records, row_slices
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.engine.stage import split_by_reason
from corpusgen.errors import StoreError
from corpusgen.io.hashing import content_hash
from corpusgen.store import CommittedTable, Store, Totals
from corpusgen.store.products import PARAGRAPHS, read_vocabulary
from distiller.settings import BackboneSettings
from distiller.static.frozen import made_from, one_layer
from distiller.static.settings import SkipgramSettings
from distiller.static.x2static.teacher import ReadParagraphs, lowered
from distiller.words.backbone import Backbone, States, confirmed_backbone

PASS = "words"
TOO_SHORT, TOO_LONG = "sentence is too short", "sentence is too long"
FEW_WORDS = "sentence has fewer than two words of the vocabulary"
NO_VECTOR = "no word of the sentence has a vector"

_FOLDER = "static"
_NUMBER = np.dtype("<f2")
_LARGEST = float(np.finfo(_NUMBER).max)
_WORDS_AT_ONCE = 20_000
_INTEGERS = pa.list_(pa.int32())
_SENTENCE = pa.schema(
    [("id", pa.string()), ("text", pa.string()), ("starts", _INTEGERS), ("ends", _INTEGERS), ("tokens", _INTEGERS)]
)
_ENCODED = pa.schema([("id", pa.string()), ("tokens", _INTEGERS), ("centres", _INTEGERS), ("states", pa.binary())])
_REJECTS = pa.schema([("id", pa.string()), ("reason", pa.string())])
_READ_AS = ("rare_words", "lower", "min_tokens", "max_tokens")


@dataclass
class SplitTokens(Stage):
    """The stage that turns paragraphs into sentences, each with its text, its tokens' offsets and their numbers."""

    name: ClassVar[str] = "split"
    needs: ClassVar[tuple[str, ...]] = ReadParagraphs.adds
    adds: ClassVar[tuple[str, ...]] = tuple(_SENTENCE.names)
    expands: ClassVar[bool] = True

    read_as: Mapping[str, Any]
    vocabulary: str
    """The hash of the vocabulary."""
    words: int
    """The most frequent words, which get a vector; others have no number."""
    corpus: Store = field(metadata={"content": False})
    resources: Resources = field(default=Resources(cpus=0.25), kw_only=True, metadata={"content": False})

    def setup(self) -> None:
        """Read the vocabulary."""
        words, _ = read_vocabulary(self.corpus)
        self._number = {word: number for number, word in enumerate(words[: self.words])}

    def process(self, rows: pa.Table) -> Result:
        """Return the sentences of all paragraphs; reject those of a length that is not wanted."""
        sentences = [sentence for row in rows.to_pylist() for sentence in self._sentences(row)]
        columns = zip(*sentences, strict=True) if sentences else [[] for _ in _SENTENCE]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, _SENTENCE.types, strict=True)]
        found = split_by_reason(
            pa.Table.from_arrays(arrays, schema=_SENTENCE), [self._problem(sentence[-1]) for sentence in sentences]
        )
        return Result(found.rows, found.rejects, used=rows.num_rows)

    def _problem(self, tokens: Sequence[int]) -> str | None:
        if len(tokens) < self.read_as["min_tokens"]:
            return TOO_SHORT
        if len(tokens) > self.read_as["max_tokens"]:
            return TOO_LONG
        return FEW_WORDS if sum(token >= 0 for token in tokens) < 2 else None

    def _sentences(self, row: Mapping[str, Any]) -> Iterator[tuple[str, str, list[int], list[int], list[int]]]:
        bounds = [0, *accumulate(row["sentence_tokens"])]
        for index, (start, end) in enumerate(zip(row["sentence_starts"], row["sentence_ends"], strict=True)):
            here = slice(bounds[index], bounds[index + 1])
            spans = list(zip(row["token_starts"][here], row["token_ends"][here], strict=True))
            written = [row["text"][first:last] for first, last in spans]
            tokens = [self._number.get(token.lower(), -1) for token in written]
            if self.read_as["rare_words"] == "drop":
                kept = [token.lower() for token, number in zip(written, tokens, strict=True) if number >= 0]
                ends = list(accumulate((len(token) + 1 for token in kept), initial=-1))[1:]
                starts = [last - len(token) for last, token in zip(ends, kept, strict=True)]
                yield row["id"], " ".join(kept), starts, ends, [number for number in tokens if number >= 0]
            else:
                text = row["text"][start:end]
                text = lowered(text) if self.read_as["lower"] else text
                starts, ends = [first - start for first, _ in spans], [last - start for _, last in spans]
                yield row["id"], text, starts, ends, tokens


def word_states(
    backbone: Backbone, texts: Sequence[str], spans: Sequence[tuple[int, int]]
) -> tuple[States, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return the vectors of words in their texts (N, D), rounded to float16, and which of them there are."""
    states, reasons = backbone.states(texts, spans)
    of_layer = states[:, -1]
    there = np.array([reason is None for reason in reasons], bool) & (np.abs(of_layer) <= _LARGEST).all(axis=1)
    return of_layer, there


@dataclass
class EncodeWords(Stage):
    """The stage that adds the vectors of the words of the vocabulary."""

    name: ClassVar[str] = PASS
    needs: ClassVar[tuple[str, ...]] = SplitTokens.adds
    adds: ClassVar[tuple[str, ...]] = ("centres", "states")
    can_use_gpu: ClassVar[bool] = True

    made_with: Mapping[str, Any]
    """What determines the vectors: the frozen model's identity and its layer, but not its local path."""
    backbone: BackboneSettings = field(metadata={"content": False})
    device: str = field(default="auto", metadata={"content": False})

    def setup(self) -> None:
        """Load the frozen model."""
        backbone = confirmed_backbone(self.backbone, self.made_with["backbone"])
        self._backbone = Backbone(backbone, self.device, threads=max(1, int(self.resources.cpus)))

    def process(self, rows: pa.Table) -> Result:
        """Add the vectors of each sentence; reject a sentence without any."""
        texts, tokens = rows["text"].to_pylist(), rows["tokens"].to_pylist()
        starts, ends = rows["starts"].to_pylist(), rows["ends"].to_pylist()
        centres: list[list[int]] = []
        states: list[bytes] = []
        first = 0
        while first < len(texts):  # some sentences at a time, since states in float32 are large
            last, count = first, 0
            while last < len(texts) and count < _WORDS_AT_ONCE:
                count += len(tokens[last])
                last += 1
            words = [(s, p) for s in range(first, last) for p, token in enumerate(tokens[s]) if token >= 0]
            of_words, there = word_states(
                self._backbone, [texts[s] for s, _ in words], [(starts[s][p], ends[s][p]) for s, p in words]
            )
            halves = of_words.astype(_NUMBER)
            sentence = np.array([s for s, _ in words])
            place = np.array([p for _, p in words])
            for number in range(first, last):
                own = np.flatnonzero((sentence == number) & there)
                centres.append(place[own].tolist())
                states.append(halves[own].tobytes())
            first = last
        made = rows.append_column("centres", pa.array(centres, _INTEGERS))
        made = made.append_column("states", pa.array(states, pa.binary()))
        return split_by_reason(made, [None if of_sentence else NO_VECTOR for of_sentence in centres])


# ------------------------------------------------------------------ the store


class Teacher(NamedTuple):
    """What the vectors of words are made from."""

    corpus: str
    words: int
    backbone: BackboneSettings
    settings: SkipgramSettings

    def one_layer(self) -> BackboneSettings:
        """Return the settings of the frozen model with a single layer."""
        return one_layer(self.backbone)

    def content(self) -> dict[str, Any]:
        """Describe what the vectors are made from: the content of their corpus.json."""
        backbone = self.one_layer()
        return {
            "passes": [PASS],
            **made_from(backbone, self.corpus),
            "words in context": {name: getattr(self.settings, name) for name in _READ_AS},
            "words": self.words,
            "settings": {"unit_paragraphs": self.settings.unit_paragraphs, "batch_tokens": backbone.batch_tokens},
        }

    def split(self, content: Mapping[str, Any]) -> SplitTokens:
        """Return the stage that splits paragraphs into sentences."""
        corpus = Store.at(self.corpus)
        return SplitTokens(content["words in context"], content["vocabulary"], self.words, corpus)


def identity(content: Mapping[str, Any]) -> str:
    """Return the name of the vectors, the same for the same frozen model, settings and corpus."""
    names = ("backbone", "layer", "words in context", "words", "paragraphs", "vocabulary")
    return content_hash([content[name] for name in names])[:16]


def words_store(corpus: str, content: Mapping[str, Any]) -> Store:
    """Return the store for the vectors of words; it need not exist yet."""
    return Store.at(f"{corpus.rstrip('/')}/{_FOLDER}/{identity(content)}")


def make_words(teacher: Teacher, executor: Executor, run: RunSettings, device: str = "auto") -> tuple[Store, Totals]:
    """Compute the vectors of all words, or resume doing so; return their store and what became of sentences."""
    content = teacher.content()
    store = words_store(teacher.corpus, content)
    store.ensure_corpus(content)
    made_with = {name: content[name] for name in ("backbone", "layer", "settings")}
    corpus = Store.at(teacher.corpus)
    stages: list[Stage] = [
        ReadParagraphs(store=corpus),
        teacher.split(content),
        EncodeWords(made_with, teacher.one_layer(), device),
    ]
    slices = row_slices(part_records(PARAGRAPHS.open(corpus)), teacher.settings.unit_paragraphs)
    pass_ = Pass(PASS, stages, slices, {PASS: _ENCODED, "rejects": _REJECTS})
    return store, run_pass(pass_, store.pass_store(PASS), executor, run)


def open_words(store: Store) -> CommittedTable:
    """Return the rows of all sentences; raise StoreError if some are missing."""
    rows = CommittedTable(store, PASS, PASS)
    if not rows.complete:
        raise StoreError(f"{store.url}: not all vectors of words are made yet; run the same command to its end")
    return rows
