"""Aligning the vectors of one language with those of another: a rotation, from pairs of words that mean the same.

The pairs come from a dictionary, or are words that both languages write alike; pairs found by the rotation itself can
make it better. A part of the dictionary is held out, and tells how often the translation of a word is found. Neither
its pairs nor its source words have any part in the fit, however they are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corpusgen.errors import ConfigError
from corpusgen.io.hashing import seeded_hashes
from corpusgen.models.files import local_path
from corpusgen.models.vectors.vocabulary import Rows
from distiller.evaluation.metrics import accuracy, bootstrap
from distiller.evaluation.results import Score
from distiller.static.combine import common_rows
from distiller.static.csls import best_matches, crowding, mutual_matches
from distiller.static.maps import Affine, Floats, Mapped, Matrix, units
from distiller.static.vectors import StaticVectors

REFINEMENTS = 5
"""Rounds of refinement if there is no dictionary to fit to: words that are written alike often differ in meaning."""

_REFINED_WORDS = 10_000  # the first words of each side, among which refinement looks for pairs
_ANSWERS = 200_000  # the first words of the target, among which translations are sought
_CROWD = 50_000  # the first words of the source, by which the crowding of an answer is measured


@dataclass(frozen=True)
class Pairs:
    """The pairs of a dictionary whose words both sides know, as rows (n, 2) of their vocabularies."""

    fit: Rows
    held_out: Rows


@dataclass(frozen=True)
class Precision:
    """How often the best match of a held-out word is one of its translations."""

    words: int
    nearest: Score
    """By cosine."""
    csls: Score


@dataclass(frozen=True)
class Aligned:
    """The source's vectors in the space of the target, and how they got there."""

    vectors: StaticVectors
    seeds: int
    """The number of pairs that the rotation was first fitted to."""
    pairs: int
    """The number of pairs in the last fit."""


def read_dictionary(path: str, target_first: bool = False) -> list[tuple[str, str]]:
    """Read pairs of a source and a target word, one pair per line, with a tab or spaces between them."""
    try:
        with open(local_path(path), encoding="utf-8-sig") as file:
            lines = [(number, line.strip("\r\n")) for number, line in enumerate(file, 1) if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the dictionary {path}: {error}") from error
    pairs = []
    for number, line in lines:
        words = [word.strip() for word in (line.split("\t") if "\t" in line else line.split())]
        if len(words) != 2 or not all(words):
            raise ConfigError(f"{path}, line {number}: expected two words and a tab between them, got {line[:60]!r}")
        pairs.append((words[1], words[0]) if target_first else (words[0], words[1]))
    return pairs


def known_pairs(dictionary: Sequence[tuple[str, str]], source: StaticVectors, target: StaticVectors) -> Rows:
    """Return the rows (n, 2) of the pairs that both sides know, each once; a word may be in lower case there."""
    sides = [_rows(table, [pair[side] for pair in dictionary]) for side, table in enumerate((source, target))]
    rows = np.stack(sides, axis=1)
    return np.asarray(np.unique(rows[(rows >= 0).all(axis=1)], axis=0))


def _rows(table: StaticVectors, words: Sequence[str]) -> Rows:
    as_written, lower = (
        table.source.vocabulary.rows([word.encode("utf-8", "surrogatepass") for word in some])
        for some in (words, [word.lower() for word in words])
    )
    return np.where(as_written >= 0, as_written, lower)


def split_pairs(pairs: Rows, source: StaticVectors, share: float) -> Pairs:
    """Hold out a share of the source words with all their translations; a hash of the word decides."""
    hashes = seeded_hashes([source.words[row] for row in pairs[:, 0].tolist()], 0, b"align")
    held_out = hashes < share * 2.0**64
    return Pairs(pairs[~held_out], pairs[held_out])


def align(
    source: StaticVectors, target: StaticVectors, pairs: Pairs | None = None, refinements: int | None = None
) -> Aligned:
    """Rotate the source's vectors into the space of the target.

    Args:
        source, target: Vectors of one dimension.
        pairs: The known pairs of a dictionary. Without any to fit to, words that both sides write alike are taken.
        refinements: How often to fit again to pairs that the rotation finds itself, words that are each other's best
            match, beside those of the dictionary; by default 0, or `REFINEMENTS` without a dictionary to fit to.

    Returns:
        The aligned vectors, which are computed when they are used.

    Raises:
        ConfigError: If the dimensions differ, or there is no pair to begin with.
    """
    if source.dimension != target.dimension:
        raise ConfigError(
            f"SOURCE has {source.dimension} dimensions and TARGET {target.dimension}; bring both to one number, for "
            "example with distiller postprocess --pca"
        )
    tested = np.unique(pairs.held_out[:, 0]) if pairs else np.zeros(0, np.int64)
    given = pairs.fit if pairs else np.zeros((0, 2), np.int64)
    seeds = given if len(given) else np.stack(common_rows(source, target), axis=1)
    seeds = seeds[~np.isin(seeds[:, 0], tested)]
    if not len(seeds):
        raise ConfigError("SOURCE and TARGET write no word alike; give pairs of words with --dictionary")
    rotation, used = _fit(source, target, seeds), seeds
    first_rows, first_targets = (np.arange(min(len(table), _REFINED_WORDS)) for table in (source, target))
    first_rows = first_rows[~np.isin(first_rows, tested)]
    for _ in range((0 if len(given) else REFINEMENTS) if refinements is None else refinements):
        rows = _units_of(source, first_rows) @ rotation
        found = mutual_matches(rows.astype(np.float32), _units_of(target, first_targets))
        if not len(found):
            break
        used = np.unique(np.concatenate([given, np.stack([first_rows[found[:, 0]], found[:, 1]], axis=1)]), axis=0)
        rotation = _fit(source, target, used)
    mapped = Mapped(source.source, Affine.linear(rotation))
    return Aligned(StaticVectors(mapped, source.counts), len(seeds), len(used))


def _fit(source: StaticVectors, target: StaticVectors, pairs: Rows) -> Matrix:
    return procrustes(_units_of(source, pairs[:, 0]), _units_of(target, pairs[:, 1]))


def procrustes(x: Floats, y: Floats) -> Matrix:
    """Return the orthogonal W for which the rows x·W are nearest to the rows y."""
    left, _, right = np.linalg.svd(x.astype(np.float64).T @ y.astype(np.float64))
    return np.asarray(left @ right)


def _units_of(table: StaticVectors, rows: Rows) -> Floats:
    return units(table.at(rows)).astype(np.float32)


def precision_at_1(aligned: StaticVectors, target: StaticVectors, held_out: Rows) -> Precision:
    """Translate each held-out word: find the best match of its aligned vector among the target's first words."""
    asked, number_of = np.unique(held_out[:, 0], return_inverse=True)
    answers = _units_of(target, np.arange(min(len(target), _ANSWERS)))
    queries = _units_of(aligned, asked)
    crowd = _units_of(aligned, np.arange(min(len(aligned), _CROWD)))
    translations = set(zip(number_of.tolist(), held_out[:, 1].tolist(), strict=True))

    def score(found: Rows) -> Score:
        right = np.array([answer in translations for answer in enumerate(found.tolist())], np.float64)
        low, high = bootstrap(accuracy, right, np.ones(len(right)))
        return Score(float(right.mean()), low, high)

    by_cosine = score(best_matches(queries, answers))
    return Precision(len(asked), by_cosine, score(best_matches(queries, answers, crowding(answers, crowd))))
