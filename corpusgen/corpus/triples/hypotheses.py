"""Choose among several paraphrases of a sentence: an undamaged one, and one in which another word means the target."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.corpus.triples.choose import Pairs
from corpusgen.tables import HYPOTHESES

Mask = npt.NDArray[np.bool_]

_INSIDE_WORDS = re.compile(r"[-'’.]")


def one_per_row(rows: pa.Table) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Return a row for each hypothesis, as if it were the only one, and the number of the row it comes from."""
    several = rows[HYPOTHESES.name].combine_chunks()
    of_row, each = pc.list_parent_indices(several), pc.list_flatten(several)
    table = rows.drop_columns([HYPOTHESES.name]).take(of_row)
    for name in ("pivot", "paraphrase"):
        table = table.set_column(table.column_names.index(name), name, pc.struct_field(each, name))
    return table, of_row.to_numpy().astype(np.int64)


def preferred(
    of_row: npt.NDArray[np.int64], faulty: Mask, differs: Mask, cosines: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """Return the hypothesis to use for each row, of those without a fault if there are any.

    It is the one whose aligned word is another word than the target and nearest to it. If all have the target itself,
    it is the first one, which the translator finds best.
    """
    differs = differs & ~faulty
    order = np.lexsort((np.arange(len(of_row)), np.where(differs, -cosines, 0), ~differs, faulty, of_row))
    return order[np.flatnonzero(np.diff(of_row[order], prepend=-1))]


def unknown_words(pairs: Pairs, knows: Callable[[Sequence[str]], Mask]) -> list[list[str]]:
    """Return the words of each paraphrase that are probably damaged: nobody knows them, and the original lacks them.

    Names and numbers do not count. A compound is known if its parts are.
    """
    originals, paraphrases = pairs.originals, pairs.paraphrases
    of_original: list[set[str]] = [set() for _ in originals.texts]
    for row, word in zip(originals.tokens.rows.tolist(), originals.words, strict=True):
        of_original[row].update(_parts(word))
    new = [
        (row, word, [part for part in _parts(word) if part not in of_original[row]])
        for row, word, written in zip(
            paraphrases.tokens.rows.tolist(), paraphrases.words, paraphrases.written(), strict=True
        )
        if written.islower() and not any(character.isdigit() for character in word)
    ]
    known = _known({part for _, _, parts in new for part in parts}, knows)
    unknown: list[list[str]] = [[] for _ in paraphrases.texts]
    for row, word, parts in new:
        if not known.issuperset(parts):
            unknown[row].append(word)
    return unknown


def _parts(word: str) -> list[str]:
    return [part for part in _INSIDE_WORDS.split(word) if len(part) > 1]


def _known(words: Collection[str], knows: Callable[[Sequence[str]], Mask]) -> set[str]:
    listed = sorted(words)
    return {word for word, is_known in zip(listed, knows(listed).tolist(), strict=True) if is_known}
