"""Combining two tables over the words they have in common.

Geometric meta-embeddings (Jawanpuria et al. 2020) rotate both tables into one space and scale its directions. With
W = UᵀBV their problem, min ‖XᵀUᵀBVZ − I‖² + C‖B‖² over orthogonal U, V and positive B, is a ridge regression in W: any
W is of that form, by its SVD, and has the norm of its B. So it has a closed form, from sums over the tables, instead of
an optimisation on a manifold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from corpusgen.errors import ConfigError
from corpusgen.models.vectors.vocabulary import Rows, Vocabulary
from distiller.static.maps import Floats, Matrix, Picked, units
from distiller.static.vectors import StaticVectors

How = Literal["geometric", "geometric-mean", "concat", "mean"]


@dataclass(frozen=True)
class Combined:
    """The vectors of two tables of the same words, each scaled to unit length, mapped if there are maps, and joined."""

    first: Picked
    second: Picked
    maps: tuple[Matrix, Matrix] | None
    mean: bool
    """Whether to take the mean of both, instead of putting one after the other."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the common words."""
        return self.first.vocabulary

    @property
    def dimension(self) -> int:
        """Return the dimension of the joined vectors."""
        sizes = [self.first.dimension, self.second.dimension]
        if self.maps is not None:
            sizes = [chosen.shape[1] for chosen in self.maps]
        return sizes[0] if self.mean else sum(sizes)

    def vectors(self, words: Sequence[bytes], rows: Rows) -> Floats:
        """Return the joined vector of each common word; zero for others."""
        parts = [units(source.vectors(words, rows)) for source in (self.first, self.second)]
        if self.maps is not None:
            parts = [units(part @ chosen) for part, chosen in zip(parts, self.maps, strict=True)]
        joined = (parts[0] + parts[1]) / 2 if self.mean else np.concatenate(parts, axis=1)
        return np.where((rows >= 0)[:, None], joined, 0).astype(np.float32)


def combine(first: StaticVectors, second: StaticVectors, how: How, c: float = 50) -> StaticVectors:
    """Combine two tables over their common words, in the order of the first.

    Args:
        first, second: The tables, which may differ in dimension unless `how` is "mean".
        how: "geometric" and "geometric-mean" map both into one space, then put one after the other or take the mean;
            "concat" and "mean" do that to the vectors as they are, scaled to unit length.
        c: The weight C of the geometric maps' own size: the higher, the more they prefer strong directions.

    Returns:
        The combined vectors, which are computed when they are used.

    Raises:
        ConfigError: If they have no word in common, or their dimensions do not fit.
    """
    if how == "mean" and first.dimension != second.dimension:
        raise ConfigError(
            f"--how mean needs vectors of one dimension, not {first.dimension} and {second.dimension}; "
            "choose concat or geometric"
        )
    if c <= 0:
        raise ConfigError(f"--c {c:g}: must be above 0")
    chosen = common_rows(first, second)
    if not len(chosen[0]):
        raise ConfigError("the two tables have no word in common; are they of one language, and both in lower case?")
    sides = [Picked.of(table.source, rows) for table, rows in zip((first, second), chosen, strict=True)]
    maps = geometric_maps(*_products(*sides), c) if how.startswith("geometric") else None
    counts = None if first.counts is None else first.counts[chosen[0]]
    return StaticVectors(Combined(sides[0], sides[1], maps, how.endswith("mean")), counts)


def common_rows(first: StaticVectors, second: StaticVectors) -> tuple[Rows, Rows]:
    """Return the rows of the words that both vocabularies have, in the order of the first."""
    words = first.source.vocabulary.encoded(range(len(first)))
    rows = second.source.vocabulary.rows(words)
    own = first.source.vocabulary.rows(words) == np.arange(len(first))  # the first of equal words
    common = np.flatnonzero((rows >= 0) & own)
    return common, rows[common]


def _products(first: Picked, second: Picked) -> tuple[Matrix, Matrix, Matrix]:
    """Return XXᵀ, ZZᵀ and XZᵀ of two tables of the same words, whose columns have unit length."""
    sizes = first.dimension, second.dimension
    xx, zz, xz = np.zeros((sizes[0], sizes[0])), np.zeros((sizes[1], sizes[1])), np.zeros(sizes)
    for x_block, z_block in zip(StaticVectors(first).blocks(), StaticVectors(second).blocks(), strict=True):
        x, z = units(x_block), units(z_block)
        xx += x.T @ x
        zz += z.T @ z
        xz += x.T @ z
    return xx, zz, xz


def geometric_maps(xx: Matrix, zz: Matrix, xz: Matrix, c: float) -> tuple[Matrix, Matrix]:
    """Return the maps UᵀB^½ and VᵀB^½ of rows of the first and the second table into their common space."""
    rotation_of_x, strengths, rotation_of_z = np.linalg.svd(ridge(xx, zz, xz, c), full_matrices=False)
    scale = np.sqrt(strengths)
    return rotation_of_x * scale, rotation_of_z.T * scale


def ridge(xx: Matrix, zz: Matrix, xz: Matrix, c: float) -> Matrix:
    """Return the W that minimises ‖XᵀWZ − I‖² + C‖W‖², which solves XXᵀ·W·ZZᵀ + C·W = XZᵀ."""
    a, of_x = np.linalg.eigh(xx)
    e, of_z = np.linalg.eigh(zz)
    rotated = of_x.T @ xz @ of_z
    return np.asarray(of_x @ (rotated / (np.outer(np.maximum(a, 0), np.maximum(e, 0)) + c)) @ of_z.T)
