"""Unit vectors of words, with a cache: the words of a corpus repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from corpusgen.errors import StageError
from corpusgen.models.vectors.vocabulary import Rows, Vocabulary

Floats = npt.NDArray[np.float32]

_WORDS_AT_ONCE = 8192  # bounds what a look-up of new words needs besides its result


class Source(Protocol):
    """What a file offers: words, and the direction of any word's vector."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that have a row of their own, most frequent first."""

    @property
    def dimension(self) -> int:
        """Of the vectors."""

    def vectors(self, words: Sequence[bytes], rows: Rows) -> Floats:
        """One for each word in UTF-8, of any length, given its row or -1; zero where there is nothing.

        It must not depend on the other words: corpora are compared by their bytes.
        """


class WordVectors:
    """Vectors of unit length. Words are looked up as they are; lower-casing is the caller's business.

    At most `cache_bytes` of vectors are kept; when they are full the cache starts anew.
    """

    def __init__(self, path: str, source: Source, cache_bytes: int = 128 << 20) -> None:
        self._path = path
        self._source = source
        self._capacity = max(1, cache_bytes // (4 * source.dimension))
        self._slots: dict[str, int] = {}
        self._units = np.empty((self._capacity, source.dimension), np.float32)  # takes memory as it is written to
        self._known = np.empty(self._capacity, np.bool_)

    @property
    def dimension(self) -> int:
        """The length of each row of `lookup`."""
        return self._source.dimension

    @property
    def vocabulary(self) -> Sequence[str]:
        """The words of the file in its order, by convention the most frequent first."""
        return self._source.vocabulary

    def lookup(self, words: Sequence[str]) -> Floats:
        """A row of unit length for each word, zero for a word of which nothing is known."""
        result = np.empty((len(words), self.dimension), np.float32)
        for chunk in self._chunks(words):
            result[chunk] = self._units[self._find(words[chunk])]
        return result

    def knows(self, words: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Whether each word is in the vocabulary itself: sub-words give vectors to others too."""
        result = np.empty(len(words), np.bool_)
        for chunk in self._chunks(words):
            result[chunk] = self._known[self._find(words[chunk])]
        return result

    def _chunks(self, words: Sequence[str]) -> list[slice]:
        """Pieces that fit into the cache."""
        size = min(self._capacity, _WORDS_AT_ONCE)
        return [slice(start, start + size) for start in range(0, len(words), size)]

    def _find(self, words: Sequence[str]) -> npt.NDArray[np.intp]:
        """Where in the cache the vectors of these words are, now that they are there."""
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
                f"{self._path}: the vector of {word!r} is not a number: the file is damaged, make or fetch it again"
            )
        first = len(self._slots)
        self._units[first : first + len(words)] = vectors / np.where(lengths == 0, 1, lengths)[:, None]
        self._known[first : first + len(words)] = rows >= 0
        self._slots.update(zip(words, range(first, first + len(words)), strict=True))
