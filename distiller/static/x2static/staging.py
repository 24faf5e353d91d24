"""The sentences of a training as arrays on a node's disk, which all workers of the node map into memory.

The first worker on a node copies them from the store. Every read compares the checksums of its sentences, because the
copy may be in use for weeks.

Shapes: S sentences, D dimensions, W words.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpusgen.errors import StageError, StoreError
from corpusgen.io.node_cache import discard, local_copy
from corpusgen.store import Store
from distiller.static.x2static.sentences import Sentences
from distiller.static.x2static.teacher import open_sentences, unpacked

_HASHED = ("shape.json", "offsets.npy", "line_offsets.npy", "checksums.npy")
_ROWS_AT_ONCE = 4096


class Chunk(NamedTuple):
    """Some sentences in the order of the corpus."""

    paragraphs: list[str]
    """The id of the paragraph of each."""
    contexts: NDArray[np.float16]
    tokens: NDArray[np.int32]
    sizes: NDArray[np.int64]
    """The number of words of each."""


@dataclass(frozen=True)
class Staging:
    """What a copy holds: the sentences of a store, with some words of the vocabulary."""

    store: Store
    words: int
    """The most frequent words, which are trained; sentences without any of them are left out."""
    by_paragraph: bool
    """Whether a line is a paragraph, or a sentence."""

    def open(self, cache: str | Path) -> Sentences:
        """Map the sentences into memory; copy them first if no worker of this node has done so."""
        lines = "paragraphs" if self.by_paragraph else "sentences"
        name = f"{self.store.url} {self.words} words, lines are {lines}"

        def make(folder: Path) -> None:
            write_copy(folder, self._chunks(), self.by_paragraph)

        copy = local_copy(cache, name, make, hashed=_HASHED)
        sentences, dimension, words = json.loads((copy / "shape.json").read_text())
        contexts = np.memmap(copy / "contexts.f16", np.float16, "r", shape=(sentences, dimension))
        tokens = np.memmap(copy / "tokens.i32", np.int32, "r", shape=(words,))
        offsets, line_offsets = np.load(copy / "offsets.npy"), np.load(copy / "line_offsets.npy")
        check = Checksums(copy, np.load(copy / "checksums.npy"), offsets)
        return Sentences(contexts, tokens, offsets, line_offsets, check)

    def _chunks(self) -> Iterable[Chunk]:
        dimension: int = self.store.corpus()["dimension"]
        for batch in open_sentences(self.store).batches(["id", "context", "words"], _ROWS_AT_ONCE):
            words = batch["words"]
            sentence = np.repeat(np.arange(len(batch)), np.diff(words.offsets.to_numpy()))
            tokens = words.flatten().to_numpy()
            is_trained = tokens < self.words
            sizes = np.bincount(sentence[is_trained], minlength=len(batch))
            has_words = sizes > 0
            ids = batch["id"].filter(has_words).to_pylist()
            contexts = unpacked(batch["context"], dimension)[has_words]
            yield Chunk(ids, contexts, tokens[is_trained].astype(np.int32), sizes[has_words])


@dataclass(frozen=True)
class Checksums:
    """The checksums of all sentences of a copy, (S,)."""

    copy: Path
    checksums: NDArray[np.uint32]
    offsets: NDArray[np.int64]

    def __call__(self, numbers: NDArray[np.int64], contexts: NDArray[np.float16], tokens: NDArray[np.int32]) -> None:
        """Raise StageError if the vectors or words of sentences are not those that were written."""
        found = checksums(contexts, tokens, self.offsets[numbers + 1] - self.offsets[numbers])
        damaged = numbers[found != self.checksums[numbers]]
        if len(damaged):
            discard(self.copy)
            raise StageError(
                f"{self.copy}: this node's copy of the sentences is damaged, for example in sentence {damaged[0]:,}; "
                "run the same command again to make it anew. If this happens again, the disk or the memory is "
                "failing: choose another disk with the setting `cache`, or another node"
            )


def checksums(contexts: NDArray[np.float16], tokens: NDArray[np.int32], sizes: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the checksum of each sentence: its vector, then its words."""
    data = np.ascontiguousarray(tokens).view(np.uint8).data
    ends = (np.cumsum(sizes) * 4).tolist()
    starts = [0, *ends[:-1]] if ends else []
    vectors = np.ascontiguousarray(contexts)
    found = (
        zlib.crc32(data[start:end], zlib.crc32(vector))
        for vector, start, end in zip(vectors, starts, ends, strict=True)
    )
    return np.fromiter(found, np.uint32, len(vectors))


def write_copy(folder: Path, chunks: Iterable[Chunk], by_paragraph: bool) -> None:
    """Write sentences as arrays into a folder."""
    sizes, sums, starts = [], [], []
    last: str | None = None
    sentences = words = dimension = 0
    with open(folder / "contexts.f16", "wb") as contexts, open(folder / "tokens.i32", "wb") as tokens:
        for chunk in chunks:
            contexts.write(np.ascontiguousarray(chunk.contexts).data)
            tokens.write(np.ascontiguousarray(chunk.tokens).data)
            sizes.append(chunk.sizes)
            sums.append(checksums(chunk.contexts, chunk.tokens, chunk.sizes))
            if by_paragraph:
                is_first = [one != other for other, one in pairwise([last, *chunk.paragraphs])]
                starts.append(sentences + np.flatnonzero(is_first))
                last = chunk.paragraphs[-1] if chunk.paragraphs else last
            sentences, words = sentences + len(chunk.sizes), words + len(chunk.tokens)
            dimension = chunk.contexts.shape[1]
    if not sentences:
        raise StoreError("no sentence has a word to train; build a larger corpus, or choose more words")
    lines = np.concatenate(starts) if by_paragraph else np.arange(sentences)
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64))
    np.save(folder / "line_offsets.npy", np.append(lines, sentences).astype(np.int64))
    np.save(folder / "checksums.npy", np.concatenate(sums))
    (folder / "shape.json").write_text(json.dumps([sentences, dimension, words]))
