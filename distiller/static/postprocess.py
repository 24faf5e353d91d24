"""Post-processing of static vectors: order of similarity, all-but-the-top, fewer dimensions, unit length.

All but the last are affine maps that follow from the sums Σx and Σxᵀx over the table, and so do the sums of the mapped
table. So one pass over it in blocks fits every step, and a second applies all of them as one map. Rows that are zero,
of words of which nothing is known, do not count and stay zero.

The steps always come in this order: `order`, `all_but_the_top`, `pca`, after `pca` once more `all_but_the_top` if it
was asked for, `normalize`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusgen.errors import ConfigError
from distiller.static.maps import Affine, Mapped, Matrix
from distiller.static.vectors import StaticVectors

_SMALLEST_SHARE = 1e-8  # of the largest eigenvalue: what is smaller is raised to it before it gets a negative power


@dataclass(frozen=True)
class Steps:
    """What to do to the vectors."""

    order: float | None = None
    """α of X·Q·Δ^α, where XᵀX = QΔQᵀ (Artetxe et al. 2018): 0 only rotates, ½ gives similarities of second order,
    −½ makes all directions equally strong. It is meant for vectors as they were trained."""
    all_but_the_top: bool = False
    """Whether to remove the mean and the first principal components (Mu & Viswanath 2018)."""
    components: int | None = None
    """How many components that removes; by default one for every hundred dimensions."""
    pca: int | None = None
    """The number of dimensions to keep, those of the largest variance; with `all_but_the_top` it is Raunak's (2019)
    method, which removes components before and after."""
    normalize: bool = False
    """Whether to scale vectors to unit length."""

    def check(self, dimension: int) -> None:
        """Raise ConfigError unless these steps make sense together, for vectors of this dimension."""
        if self.order is None and not self.all_but_the_top and self.pca is None and not self.normalize:
            raise ConfigError("nothing to do: choose some of --order, --all-but-the-top, --pca and --normalize")
        if self.order is not None and not -1 <= self.order <= 1:
            raise ConfigError(f"--order {self.order}: choose a value from -1 to 1, for example 0.15 or -0.25")
        if self.order is not None and self.all_but_the_top:
            raise ConfigError(
                "--order and --all-but-the-top both change how much the strongest directions count; choose one"
            )
        if self.order is not None and self.order <= -0.5 and self.pca is not None:
            raise ConfigError(
                f"--order {self.order} leaves no direction stronger than others, so that --pca has none to prefer; "
                "choose one"
            )
        if self.components is not None and not self.all_but_the_top:
            raise ConfigError("--components: only together with --all-but-the-top")
        if self.pca is not None and not 1 <= self.pca < dimension:
            raise ConfigError(f"--pca {self.pca}: choose a number from 1 to {dimension - 1}; there are {dimension} now")
        least, removed = self.pca or dimension, self.removed(dimension)
        if self.all_but_the_top and not 1 <= removed < least:
            raise ConfigError(f"--all-but-the-top cannot remove {removed} of {least} dimensions; lower --components")

    def removed(self, dimension: int) -> int:
        """Return how many components to remove of vectors of this dimension."""
        return max(1, round(dimension / 100)) if self.components is None else self.components


@dataclass(frozen=True)
class Moments:
    """The sums over a table's rows that all steps are fitted to."""

    rows: int
    """How many rows are not zero."""
    total: Matrix
    """Σx, (d,)"""
    products: Matrix
    """Σxᵀx, (d, d)"""
    unit_rows: int = 0
    """How many rows have unit length."""

    @classmethod
    def of(cls, blocks: Iterable[npt.NDArray[np.floating[Any]]], dimension: int) -> Moments:
        """Add up the rows of a table, some at a time."""
        rows, unit_rows, total, products = 0, 0, np.zeros(dimension), np.zeros((dimension, dimension))
        for block in blocks:
            wide = block.astype(np.float64)
            squares = np.einsum("nd,nd->n", wide, wide)
            rows += int(np.count_nonzero(squares))
            unit_rows += int(np.count_nonzero(np.abs(squares - 1) < 1e-3))
            total += wide.sum(axis=0)
            products += wide.T @ wide
        return cls(rows, total, products, unit_rows)

    def under(self, chosen: Affine) -> Moments:
        """Return the moments of the same rows after a map."""
        mapped, offset = self.total @ chosen.matrix, chosen.offset
        products = chosen.matrix.T @ self.products @ chosen.matrix
        products += np.outer(mapped, offset) + np.outer(offset, mapped) + self.rows * np.outer(offset, offset)
        return Moments(self.rows, mapped + self.rows * offset, products)

    @property
    def mean(self) -> Matrix:
        """Return the mean of the rows."""
        return np.asarray(self.total / max(1, self.rows))

    @property
    def scatter(self) -> Matrix:
        """Return the sum of products of the rows after their mean has been subtracted."""
        return np.asarray(self.products - self.rows * np.outer(self.mean, self.mean))


def postprocess(vectors: StaticVectors, steps: Steps) -> tuple[StaticVectors, list[str]]:
    """Return the processed vectors, which are computed when they are used, and what there is to say about the steps."""
    steps.check(vectors.dimension)
    moments = Moments.of(vectors.blocks(), vectors.dimension)
    done, notes = Affine.linear(np.eye(vectors.dimension)), []

    def do(step: Affine, note: str) -> None:
        nonlocal moments, done
        done, moments = done.then(step), moments.under(step)
        notes.append(note)

    if steps.order is not None:
        if moments.rows and moments.unit_rows == moments.rows:
            notes.append("all vectors have unit length; --order is meant for vectors as they were trained")
        do(*change_order(moments, steps.order))
    removed = steps.removed(vectors.dimension)
    if steps.all_but_the_top:
        do(*remove_top(moments, removed))
    if steps.pca is not None:
        do(*reduce_dimensions(moments, steps.pca))
        if steps.all_but_the_top:
            do(*remove_top(moments, removed))
    return StaticVectors(Mapped(vectors.source, done, steps.normalize), vectors.counts), notes


def change_order(moments: Moments, alpha: float) -> tuple[Affine, str]:
    """Return the map Q·Δ^α with Σxᵀx = QΔQᵀ, and a note on it."""
    values, directions = _strongest_first(moments.products)
    least = _SMALLEST_SHARE * values[0] if alpha < 0 else 0.0
    raised = int(np.count_nonzero(values < least))
    powers = np.maximum(values, least) ** alpha if values[0] > 0 else np.ones_like(values)
    note = f"order {alpha:g}"
    if raised:
        note += f"; {raised} of {len(values)} directions are nearly empty, and were not scaled up in full"
    return Affine.linear(directions * powers), note


def remove_top(moments: Moments, count: int) -> tuple[Affine, str]:
    """Return the map v ↦ v − μ − Σ (uᵢᵀ(v − μ))uᵢ over the first `count` principal components, and a note on it."""
    values, directions = _strongest_first(moments.scatter)
    top = directions[:, :count]
    kept = np.eye(len(values)) - top @ top.T
    note = f"removed the mean and {count} of {len(values)} components, {_share(values[:count], values)} of the variance"
    return Affine(kept, -moments.mean @ kept), note


def reduce_dimensions(moments: Moments, count: int) -> tuple[Affine, str]:
    """Return the map to the first `count` principal components, and a note on it."""
    values, directions = _strongest_first(moments.scatter)
    kept = directions[:, :count]
    note = f"kept {count} of {len(values)} dimensions, {_share(values[:count], values)} of the variance"
    return Affine(kept, -moments.mean @ kept), note


def _strongest_first(products: Matrix) -> tuple[Matrix, Matrix]:
    """Return eigenvalues, none below zero, and eigenvectors as columns."""
    values, directions = np.linalg.eigh(products)
    return np.maximum(values[::-1], 0), directions[:, ::-1]


def _share(some: Matrix, values: Matrix) -> str:
    return f"{some.sum() / (values.sum() or 1):.1%}"
