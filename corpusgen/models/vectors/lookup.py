"""Look up unit vectors of words, with a cache because the words of a corpus repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from corpusgen.errors import StageError
from corpusgen.models.vectors.vocabulary import Rows, Vocabulary

Floats = npt.NDArray[np.float32]

_WORDS_AT_ONCE = 8192  # bounds the memory that looking up new words needs besides the result


class Source(Protocol):
    """A file of word vectors: its words, and the direction of any word's vector."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the words that have a row of their own, most frequent first."""

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""

    def vectors(self, words: Sequence[bytes], rows: Rows) -> Floats:
        """Return a vector of any length for each word in UTF-8, given its row or -1; zero if nothing is known.

        A vector must not depend on the other words: corpora are compared by their bytes.
        """


class WordVectors:
    """Word vectors of unit length. Words are looked up as they are; lower-casing is up to the caller.

    The cache holds at most `cache_bytes` of vectors; when it is full, it starts over.
    """

    def __init__(self, path: str, source: Source, cache_bytes: int = 128 << 20) -> None:
        self._path = path
        self._source = source
        self._capacity = max(1, cache_bytes // (4 * source.dimension))
        self._slots: dict[str, int] = {}
        self._units = np.empty((self._capacity, source.dimension), np.float32)  # takes memory only as it is written
        self._known = np.empty(self._capacity, np.bool_)

    @property
    def dimension(self) -> int:
        """Return the length of each row of `lookup`."""
        return self._source.dimension

    @property
    def vocabulary(self) -> Sequence[str]:
        """Return the words of the file in its order, by convention the most frequent first."""
        return self._source.vocabulary

    def lookup(self, words: Sequence[str]) -> Floats:
        """Return a row of unit length for each word; zero if nothing is known of it."""
        result = np.empty((len(words), self.dimension), np.float32)
        for chunk in self._chunks(words):
            result[chunk] = self._units[self._find(words[chunk])]
        return result

    def knows(self, words: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return whether each word is in the vocabulary itself: sub-words give vectors to other words too."""
        result = np.empty(len(words), np.bool_)
        for chunk in self._chunks(words):
            result[chunk] = self._known[self._find(words[chunk])]
        return result

    def _chunks(self, words: Sequence[str]) -> list[slice]:
        """Cut the words into slices that fit into the cache."""
        size = min(self._capacity, _WORDS_AT_ONCE)
        return [slice(start, start + size) for start in range(0, len(words), size)]

    def _find(self, words: Sequence[str]) -> npt.NDArray[np.intp]:
        """Return where the vectors of these words are in the cache, after adding those that are missing."""
        if new := [word for word in dict.fromkeys(words) if word not in self._slots]:
            if len(self._slots) + len(new) > self._capacity:
                self._slots.clear()
                new = list(dict.fromkeys(words))
            self._add(new)
        return np.fromiter(map(self._slots.__getitem__, words), np.intp, len(words))

    def _add(self, words: list[str]) -> None:
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        rows = self._source.vocabulary.rows(encoded)
        vectors = self._source.vectors(encoded, rows).astype(np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        if not np.isfinite(lengths).all():
            word = words[int(np.argmin(np.isfinite(lengths)))]
            raise StageError(
                f"{self._path}: the vector of {word!r} is not a number: the file is damaged; make or download it again"
            )
        first = len(self._slots)
        self._units[first : first + len(words)] = vectors / np.where(lengths == 0, 1, lengths)[:, None]
        self._known[first : first + len(words)] = rows >= 0
        self._slots.update(zip(words, range(first, first + len(words)), strict=True))
