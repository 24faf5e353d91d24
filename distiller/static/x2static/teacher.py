"""The vectors of all sentences of a corpus of paragraphs, made once by the frozen model and kept beside the corpus.

They have their own store, `<corpus>/static/<16 hex digits>`, which the engine makes by the same protocol of plan, parts
and commits as a corpus. The digits identify the frozen model, the settings of the sentences and the corpus.

A row is a sentence: the id of its paragraph, its number there, its vector as float16, and the numbers of its words in
the vocabulary. A sentence without a row is a reject, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from corpusgen.config.run import Resources, RunSettings
from corpusgen.engine import Pass, Result, Stage
from corpusgen.engine.parts import ReadRows, part_records, row_slices
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.engine.stage import split_by_reason
from corpusgen.errors import StoreError
from corpusgen.io.hashing import content_hash
from corpusgen.store import CommittedTable, Store, Totals
from corpusgen.store.products import PARAGRAPHS, read_vocabulary
from distiller.settings import BackboneSettings
from distiller.static.frozen import made_from, one_layer
from distiller.static.settings import X2StaticSettings
from distiller.static.x2static.pooling import Pooling, Reading, Spans
from distiller.words.backbone import Backbone, confirmed_backbone

PASS = "sentences"
NO_WORD = "sentence has no word of the vocabulary"
OVERFLOW = "vector is too large for float16"

_FOLDER = "static"
_NUMBER = np.dtype("<f2")
_TEXTS_AT_ONCE = 1000  # encodings are large objects: keep only a few
_OFFSETS = pa.list_(pa.int32())
_SENTENCE = pa.schema(
    [
        ("id", pa.string()),
        ("sentence", pa.int32()),
        ("text", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("word_starts", _OFFSETS),
        ("word_ends", _OFFSETS),
        ("words", _OFFSETS),
    ]
)
_REJECTS = pa.schema([("id", pa.string()), ("sentence", pa.int32()), ("reason", pa.string())])
_TEACHER = ("contexts", "weights", "special_tokens", "lower", "max_pieces")


@dataclass
class ReadParagraphs(ReadRows):
    """The stage that reads the paragraphs of a unit."""

    adds: ClassVar[tuple[str, ...]] = (
        *("id", "text", "sentence_starts", "sentence_ends", "sentence_tokens"),
        *("token_starts", "token_ends"),
    )


@dataclass
class SplitSentences(Stage):
    """The stage that turns paragraphs into sentences, each with its text and the numbers of its words.

    Offsets of a sentence and its tokens count characters of `text`: the sentence itself, or its paragraph.
    """

    name: ClassVar[str] = "split"
    needs: ClassVar[tuple[str, ...]] = ReadParagraphs.adds
    adds: ClassVar[tuple[str, ...]] = tuple(_SENTENCE.names)
    expands: ClassVar[bool] = True

    contexts: str
    vocabulary: str
    """The hash of the vocabulary."""
    corpus: Store = field(metadata={"content": False})
    resources: Resources = field(default=Resources(cpus=0.25), kw_only=True, metadata={"content": False})

    def setup(self) -> None:
        """Read the vocabulary."""
        words, _ = read_vocabulary(self.corpus)
        self._number = {word: number for number, word in enumerate(words)}

    def process(self, rows: pa.Table) -> Result:
        """Return the sentences of all paragraphs."""
        sentences = [sentence for row in rows.to_pylist() for sentence in self._sentences(row)]
        columns = zip(*sentences, strict=True) if sentences else [[] for _ in _SENTENCE]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, _SENTENCE.types, strict=True)]
        return Result(pa.Table.from_arrays(arrays, schema=_SENTENCE), used=rows.num_rows)

    def _sentences(self, row: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        text, number = row["text"], self._number
        bounds = [0, *accumulate(row["sentence_tokens"])]
        for index, (start, end) in enumerate(zip(row["sentence_starts"], row["sentence_ends"], strict=True)):
            tokens = slice(bounds[index], bounds[index + 1])
            starts, ends = row["token_starts"][tokens], row["token_ends"][tokens]
            found = (number.get(text[a:b].lower()) for a, b in zip(starts, ends, strict=True))
            words = [word for word in found if word is not None]
            if self.contexts == "sentence":
                starts, ends = [a - start for a in starts], [b - start for b in ends]
                yield row["id"], index, text[start:end], 0, end - start, starts, ends, words
            else:
                yield row["id"], index, text, start, end, starts, ends, words


@dataclass
class EncodeSentences(Stage):
    """The stage that turns sentences into vectors."""

    name: ClassVar[str] = PASS
    needs: ClassVar[tuple[str, ...]] = SplitSentences.adds
    adds: ClassVar[tuple[str, ...]] = ("context",)
    can_use_gpu: ClassVar[bool] = True

    made_with: Mapping[str, Any]
    """What determines the vectors: the frozen model's identity, its layer and the settings, but not its local path."""
    backbone: BackboneSettings = field(metadata={"content": False})
    settings: X2StaticSettings = field(metadata={"content": False})
    device: str = field(default="auto", metadata={"content": False})

    def setup(self) -> None:
        """Load the frozen model."""
        backbone = confirmed_backbone(self.backbone, self.made_with["backbone"])
        self._backbone = Backbone(backbone, self.device, threads=max(1, int(self.resources.cpus)))
        assert self.settings.max_pieces is not None
        self._pooling = Pooling(
            longest=min(self.settings.max_pieces, self._backbone.longest),
            by_word=self.settings.weights == "word",
            special_tokens=bool(self.settings.special_tokens),
        )

    def process(self, rows: pa.Table) -> Result:
        """Add the vector of each sentence; reject those that have none, or no word to train."""
        has_words = np.diff(rows["words"].combine_chunks().offsets.to_numpy()) > 0
        reasons: list[str | None] = [None if has else NO_WORD for has in has_words.tolist()]
        contexts = np.zeros((rows.num_rows, self._backbone.dimension), _NUMBER)
        wanted: dict[tuple[int, ...], list[tuple[int, NDArray[np.float32]]]] = {}  # sentences of each input
        for number, reading in self._readings(rows, np.flatnonzero(has_words)):
            if isinstance(reading, str):
                reasons[number] = reading
            else:
                wanted.setdefault(reading.ids, []).append((number, reading.weights))
        weights = {ids: np.stack([of for _, of in sentences]) for ids, sentences in wanted.items()}
        for ids, means in self._backbone.means(weights):
            with np.errstate(over="ignore"):  # values too large become infinite and are rejected below
                contexts[[number for number, _ in wanted[ids]]] = means
        for number in np.flatnonzero(~np.isfinite(contexts).all(axis=1)).tolist():
            reasons[number] = OVERFLOW
        return split_by_reason(rows.append_column("context", packed(contexts)), reasons)

    def _readings(self, rows: pa.Table, numbers: NDArray[np.int64]) -> Iterator[tuple[int, Reading | str]]:
        """Yield how the model reads some sentences. Each text is tokenised once."""
        chosen = rows.take(numbers)
        texts = chosen["text"].to_pylist()
        place = {text: index for index, text in enumerate(dict.fromkeys(texts))}
        distinct, text_of = list(place), np.array([place[text] for text in texts], np.int64)
        for first in range(0, len(distinct), _TEXTS_AT_ONCE):
            some = [lowered(text) if self.settings.lower else text for text in distinct[first : first + _TEXTS_AT_ONCE]]
            mine = np.flatnonzero((text_of >= first) & (text_of < first + _TEXTS_AT_ONCE))
            own = chosen.take(mine)
            sentences = Spans(text_of[mine] - first, own["start"].to_numpy(), own["end"].to_numpy())
            readings = self._pooling.read(some, list(self._backbone.encoded(some)), sentences, _words(own))
            yield from zip(numbers[mine].tolist(), readings, strict=True)


def lowered(text: str) -> str:
    """Return a text in lower case, of the same length: letters that would become two stay as they are."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def _words(rows: pa.Table) -> Spans:
    """Return where the words of sentences are; `text` is the number of the sentence."""
    starts, ends = (rows[name].combine_chunks() for name in ("word_starts", "word_ends"))
    sentence = np.repeat(np.arange(rows.num_rows), np.diff(starts.offsets.to_numpy()))
    return Spans(sentence, starts.flatten().to_numpy().astype(np.int64), ends.flatten().to_numpy().astype(np.int64))


def packed(contexts: NDArray[np.float16]) -> pa.Array:
    """Pack vectors (S, D) into S values of fixed size, without a copy."""
    kind = pa.binary(contexts.shape[1] * _NUMBER.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(contexts), [None, pa.py_buffer(contexts)])


def unpacked(column: pa.Array, dimension: int) -> NDArray[np.float16]:
    """Unpack a column into vectors (S, D), a view of the column's own memory."""
    start = column.offset * dimension * _NUMBER.itemsize
    return np.frombuffer(column.buffers()[1], _NUMBER, len(column) * dimension, start).reshape(-1, dimension)


# ------------------------------------------------------------------ the store


class Teacher(NamedTuple):
    """What the vectors of sentences are made from."""

    corpus: str
    backbone: BackboneSettings
    settings: X2StaticSettings

    def one_layer(self) -> BackboneSettings:
        """Return the settings of the frozen model with a single layer."""
        return one_layer(self.backbone)

    def content(self) -> dict[str, Any]:
        """Describe what the vectors are made from: the content of their corpus.json."""
        backbone = self.one_layer()
        return {
            "passes": [PASS],
            **made_from(backbone, self.corpus),
            "sentences": {name: getattr(self.settings, name) for name in _TEACHER},
            "settings": {"unit_paragraphs": self.settings.unit_paragraphs, "batch_tokens": backbone.batch_tokens},
        }


def identity(content: Mapping[str, Any]) -> str:
    """Return the name of the vectors, the same for the same frozen model, settings and corpus."""
    names = ("backbone", "layer", "sentences", "paragraphs", "vocabulary")
    return content_hash([content[name] for name in names])[:16]


def sentences_store(corpus: str, content: Mapping[str, Any]) -> Store:
    """Return the store for the vectors of sentences; it need not exist yet."""
    return Store.at(f"{corpus.rstrip('/')}/{_FOLDER}/{identity(content)}")


def make_sentences(
    teacher: Teacher, executor: Executor, run: RunSettings, device: str = "auto"
) -> tuple[Store, Totals]:
    """Compute the vectors of all sentences, or resume doing so; return their store and what became of sentences."""
    content = teacher.content()
    store = sentences_store(teacher.corpus, content)
    store.ensure_corpus(content)
    totals = run_pass(_pass(teacher, content, device), store.pass_store(PASS), executor, run)
    return store, totals


def open_sentences(store: Store) -> CommittedTable:
    """Return the rows of all sentences; raise StoreError if some are missing."""
    rows = CommittedTable(store, PASS, PASS)
    if not rows.complete:
        raise StoreError(f"{store.url}: not all vectors of sentences are made yet; run the same command to its end")
    return rows


def _pass(teacher: Teacher, content: Mapping[str, Any], device: str) -> Pass:
    corpus = Store.at(teacher.corpus)
    made_with = {name: content[name] for name in ("backbone", "layer", "sentences", "settings")}
    stages: Sequence[Stage] = [
        ReadParagraphs(store=corpus),
        SplitSentences(teacher.settings.contexts, content["vocabulary"], corpus),
        EncodeSentences(made_with, teacher.one_layer(), teacher.settings, device),
    ]
    slices = row_slices(part_records(PARAGRAPHS.open(corpus)), teacher.settings.unit_paragraphs)
    context = pa.binary(content["dimension"] * _NUMBER.itemsize)
    schema = pa.schema([("id", pa.string()), ("sentence", pa.int32()), ("context", context), ("words", _OFFSETS)])
    return Pass(PASS, stages, slices, {PASS: schema, "rejects": _REJECTS})
