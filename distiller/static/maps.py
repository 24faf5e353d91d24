"""Vectors made from other vectors when they are needed: by a map, or by choosing some of the words.

Each class here is a `Source` like a file, so that a table of any size can be looked up, judged and written without
being in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusgen.models.vectors import Source
from corpusgen.models.vectors.vocabulary import Rows, Vocabulary

Matrix = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Affine:
    """The map of rows x ↦ x·matrix + offset."""

    matrix: Matrix
    """(d, m)"""
    offset: Matrix
    """(m,)"""

    @classmethod
    def linear(cls, matrix: Matrix) -> Affine:
        """Return a map without offset."""
        return cls(matrix, np.zeros(matrix.shape[1]))

    def __call__(self, rows: npt.NDArray[np.floating[Any]]) -> Matrix:
        """Map rows (n, d) to rows (n, m)."""
        mapped: Matrix = rows.astype(np.float64) @ self.matrix + self.offset
        return mapped

    def then(self, other: Affine) -> Affine:
        """Return the map that does this, then the other."""
        return Affine(self.matrix @ other.matrix, self.offset @ other.matrix + other.offset)


@dataclass(frozen=True)
class Mapped:
    """The vectors of another source under a map. A vector that is zero stays zero: nothing is known of its word."""

    base: Source
    map: Affine
    normalize: bool = False
    """Whether to scale vectors to unit length in the end."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the words, which are those of the other source."""
        return self.base.vocabulary

    @property
    def dimension(self) -> int:
        """Return the dimension of the mapped vectors."""
        return int(self.map.matrix.shape[1])

    def vectors(self, words: Sequence[bytes], rows: Rows) -> Floats:
        """Return the mapped vector of each word."""
        given = self.base.vectors(words, rows)
        mapped = np.where(given.any(axis=1, keepdims=True), self.map(given), 0)
        return (units(mapped) if self.normalize else mapped).astype(np.float32)


@dataclass(frozen=True)
class Picked:
    """Some words of another source, in a given order; the others have no vector, or one from their pieces."""

    base: Source
    vocabulary: Vocabulary
    chosen: Rows
    """The row of each word in the other source, and at the end −1, for words that are not among them."""

    @classmethod
    def of(cls, base: Source, chosen: Rows) -> Picked:
        """Pick rows of a source."""
        return cls(base, Vocabulary.of(base.vocabulary.encoded(chosen.tolist())), np.append(chosen, -1))

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return self.base.dimension

    def vectors(self, words: Sequence[bytes], rows: Rows) -> Floats:
        """Return the vector of each word."""
        return self.base.vectors(words, self.chosen[rows])


def units(vectors: npt.NDArray[np.floating[Any]]) -> Matrix:
    """Scale vectors to unit length; a zero vector stays zero."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return np.asarray(wide / np.where(lengths == 0, 1, lengths))
