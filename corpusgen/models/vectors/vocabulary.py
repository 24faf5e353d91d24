"""The vocabulary of a vector file, kept as raw bytes."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


class Vocabulary(Sequence[str]):
    """The words in the order of the file, and the row of each.

    Two million words as a list and a dictionary would cost every worker about 300 MB. Here their bytes stay where
    they are, often in a file that all workers have mapped, and a row is found by searching their sorted hashes.
    If a word occurs twice, its first row counts.
    """

    def __init__(self, text: bytes | mmap.mmap, starts: Rows, ends: Rows) -> None:
        self._text = text
        self._starts = starts
        self._ends = ends
        hashes = np.fromiter(map(hash, map(self._word, range(len(starts)))), np.int64, len(starts))
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    @classmethod
    def of(cls, words: Iterable[str | bytes]) -> Vocabulary:
        """Make a vocabulary of words, given as text or in UTF-8."""
        encoded = [word.encode("utf-8", "surrogatepass") if isinstance(word, str) else word for word in words]
        bounds = np.append(0, np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded))))
        return cls(b"".join(encoded), bounds[:-1], bounds[1:])

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        return self._word(index).decode("utf-8", "backslashreplace")

    def encoded(self, rows: Iterable[int]) -> list[bytes]:
        """Return the words of some rows in UTF-8, as the file has them."""
        return [self._word(row) for row in rows]

    def rows(self, words: Sequence[bytes]) -> Rows:
        """Return the row of each word, -1 for a word that is not in the vocabulary."""
        hashes = np.fromiter(map(hash, words), np.int64, len(words))
        indices = np.searchsorted(self._hashes, hashes)
        found = map(self._row, words, hashes.tolist(), indices.tolist())
        return np.fromiter(found, np.int64, len(words))

    def _row(self, word: bytes, hashed: int, index: int) -> int:
        while index < len(self._hashes) and self._hashes[index] == hashed:  # other words may have the same hash
            row = int(self._order[index])
            if self._word(row) == word:
                return row
            index += 1
        return -1

    def _word(self, row: int) -> bytes:
        return self._text[self._starts[row] : self._ends[row]]
