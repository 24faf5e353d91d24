"""The sentences of a training as arrays on a node's disk, which all workers of the node map into memory.

The vectors of their words are among the arrays, or the frozen model makes them when a batch needs them.

Shapes: S sentences, T tokens, N tokens with a vector, D dimensions of the frozen model.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corpusgen.errors import StageError, StoreError
from corpusgen.io.node_cache import discard, local_copy
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import PARAGRAPHS, open_product
from distiller.static.skipgram.teacher import SplitTokens, open_words, word_states
from distiller.static.skipgram.windows import Batch, Integers
from distiller.words.backbone import Backbone

_HASHED = ("shape.json", "bounds.npy", "offsets.npy", "checksums.npy")
_PARAGRAPHS_AT_ONCE, _SENTENCES_AT_ONCE = 1000, 2048


class Lines(Protocol):
    """The sentences of a training."""

    dimension: int
    """D"""

    def __len__(self) -> int: ...

    def batch(self, epoch: int, numbers: Integers) -> Batch:
        """Return some sentences."""
        ...


class _Sentence(NamedTuple):
    """A sentence as a copy holds it: its tokens, and the two arrays that its vectors come from."""

    tokens: NDArray[np.int32]
    numbers: NDArray[np.int32]
    """Which tokens have a vector; if there are none yet, where all tokens are in the text."""
    data: bytes
    """The vectors of these, or the text."""


class _Copy:
    """A copy on this node's disk. Every read compares checksums, because it may be in use for weeks."""

    def __init__(self, cache: str | Path, name: str, sentences: Iterator[_Sentence]) -> None:
        def make(folder: Path) -> None:
            _write(folder, sentences)

        self._folder = local_copy(cache, name, make, hashed=_HASHED)
        tokens, numbers, data = json.loads((self._folder / "shape.json").read_text())
        self._bounds = np.load(self._folder / "bounds.npy", mmap_mode="r")
        self._offsets = np.load(self._folder / "offsets.npy", mmap_mode="r")
        self._tokens = np.memmap(self._folder / "tokens.i32", np.int32, "r", shape=(tokens,))
        self._numbers = np.memmap(self._folder / "numbers.i32", np.int32, "r", shape=(numbers,))
        self._data = np.memmap(self._folder / "data.bin", np.uint8, "r", shape=(data,))
        self._checksums: NDArray[np.uint32] = np.load(self._folder / "checksums.npy", mmap_mode="r")

    def __len__(self) -> int:
        return len(self._checksums)

    def first_token(self, number: int) -> int:
        """Return the place in the whole text of the first token of a sentence."""
        return int(self._bounds[number])

    def sentence(self, number: int) -> _Sentence:
        """Return a sentence; raise StageError if it is not what was written."""
        (first, data_first), (last, data_last) = self._offsets[number : number + 2].tolist()
        found = _Sentence(
            np.array(self._tokens[self._bounds[number] : self._bounds[number + 1]]),
            np.array(self._numbers[first:last]),
            self._data[data_first:data_last].tobytes(),
        )
        if _checksum(found) != self._checksums[number]:
            discard(self._folder)
            raise StageError(
                f"{self._folder}: this node's copy of the sentences is damaged, for example in sentence {number:,}; "
                "run the same command again to make it anew. If this happens again, the disk or the memory is "
                "failing: choose another disk with the setting `cache`, or another node"
            )
        return found


def _checksum(sentence: _Sentence) -> int:
    return zlib.crc32(sentence.data, zlib.crc32(sentence.numbers.data, zlib.crc32(sentence.tokens.data)))


def _write(folder: Path, sentences: Iterator[_Sentence]) -> None:
    bounds, numbered, written = array("q", [0]), array("q", [0]), array("q", [0])
    sums = array("I")
    with (
        open(folder / "tokens.i32", "wb") as tokens,
        open(folder / "numbers.i32", "wb") as numbers,
        open(folder / "data.bin", "wb") as data,
    ):
        for sentence in sentences:
            tokens.write(sentence.tokens.data)
            numbers.write(sentence.numbers.data)
            data.write(sentence.data)
            bounds.append(bounds[-1] + len(sentence.tokens))
            numbered.append(numbered[-1] + len(sentence.numbers))
            written.append(written[-1] + len(sentence.data))
            sums.append(_checksum(sentence))
    if not sums:
        raise StoreError("no sentence is fit for training; build a larger corpus, or change min_tokens and max_tokens")
    np.save(folder / "bounds.npy", np.frombuffer(bounds, np.int64))
    np.save(folder / "offsets.npy", np.stack([np.frombuffer(of, np.int64) for of in (numbered, written)], axis=1))
    np.save(folder / "checksums.npy", np.frombuffer(sums, np.uint32))
    (folder / "shape.json").write_text(json.dumps([bounds[-1], numbered[-1], written[-1]]))


@dataclass
class CachedLines:
    """Sentences whose vectors were made by the pass of the frozen model."""

    store: Store
    dimension: int
    cache: str | Path

    def __post_init__(self) -> None:
        self._copy = _Copy(self.cache, f"{self.store.url} words in context", self._stored())

    def _stored(self) -> Iterator[_Sentence]:
        for batch in open_words(self.store).batches(["tokens", "centres", "states"], _SENTENCES_AT_ONCE):
            for row in batch.to_pylist():
                yield _Sentence(np.array(row["tokens"], np.int32), np.array(row["centres"], np.int32), row["states"])

    def __len__(self) -> int:
        return len(self._copy)

    def batch(self, epoch: int, numbers: Integers) -> Batch:
        """Return some sentences."""
        sentences = [self._copy.sentence(number) for number in numbers.tolist()]
        halves = np.frombuffer(b"".join(one.data for one in sentences), np.float16)
        centres = [one.numbers.astype(np.int64) for one in sentences]
        return _joined(self._copy, epoch, numbers, sentences, centres, halves.reshape(-1, self.dimension))


@dataclass
class OnlineLines:
    """Sentences whose vectors the frozen model makes for each batch; they are rounded as those on disk are."""

    corpus: Store
    split: SplitTokens
    backbone: Backbone
    name: str
    """What identifies the sentences."""
    cache: str | Path

    def __post_init__(self) -> None:
        self.dimension = self.backbone.dimension
        self._copy = _Copy(self.cache, f"{self.corpus.url} {self.name} text of words", self._read())

    def _read(self) -> Iterator[_Sentence]:
        self.split.setup()
        paragraphs: CommittedTable = open_product(self.corpus, PARAGRAPHS.table)
        for batch in paragraphs.batches(list(SplitTokens.needs), _PARAGRAPHS_AT_ONCE):
            rows: list[Mapping[str, Any]] = self.split.process(_table(batch)).rows.to_pylist()
            for row in rows:
                spans = np.array([row["starts"], row["ends"]], np.int32).flatten()
                yield _Sentence(np.array(row["tokens"], np.int32), spans, row["text"].encode())

    def __len__(self) -> int:
        return len(self._copy)

    def batch(self, epoch: int, numbers: Integers) -> Batch:
        """Return some sentences."""
        sentences = [self._copy.sentence(number) for number in numbers.tolist()]
        candidates = [np.flatnonzero(one.tokens >= 0) for one in sentences]
        texts: list[str] = []
        spans: list[tuple[int, int]] = []
        for one, of_sentence in zip(sentences, candidates, strict=True):
            starts, ends = one.numbers.reshape(2, -1)
            texts += [one.data.decode()] * len(of_sentence)
            spans += zip(starts[of_sentence].tolist(), ends[of_sentence].tolist(), strict=True)
        states, there = word_states(self.backbone, texts, spans)
        begins = np.cumsum([0, *map(len, candidates)])  # a worker may have no sentence of a small step
        centres = [of[there[begins[n] : begins[n + 1]]] for n, of in enumerate(candidates)]
        return _joined(self._copy, epoch, numbers, sentences, centres, states[there].astype(np.float16))


def _table(batch: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _joined(
    copy: _Copy,
    epoch: int,
    numbers: Integers,
    sentences: list[_Sentence],
    centres: list[Integers],
    halves: NDArray[np.float16],
) -> Batch:
    """Lay sentences and their vectors (N, D) side by side."""
    bounds = np.cumsum([0, *(len(one.tokens) for one in sentences)])
    firsts = zip(numbers.tolist(), bounds[:-1].tolist(), centres, strict=True)
    places = [copy.first_token(number) + of_sentence for number, _, of_sentence in firsts]
    moved = [first + of_sentence for first, of_sentence in zip(bounds[:-1].tolist(), centres, strict=True)]
    nothing = np.zeros(0, np.int64)
    return Batch(
        epoch,
        np.concatenate([np.zeros(0, np.int32), *(one.tokens for one in sentences)]),
        bounds,
        np.concatenate([nothing, *moved]),
        np.concatenate([nothing, *places]),
        halves.astype(np.float32),
    )
