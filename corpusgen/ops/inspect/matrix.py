"""The alignment matrix around a target: how near the words beside it, and those that took a word, are to all words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from corpusgen.corpus.triples.align import Sentences, all_cosines, taken_by
from corpusgen.corpus.triples.stages import AlignTargets

_BESIDE = 2  # words on either side of the target
_DECIMALS = 5


@dataclass(frozen=True)
class MatrixRow:
    """A word of the original and its cosine to each word of the paraphrase."""

    word: str
    start: int
    cosines: Sequence[float]


@dataclass(frozen=True)
class Matrix:
    """Words of the original as `rows`, in their order; the columns are the words of the paraphrase.

    `takers` are, column by column, the cosine of the word of the original that took the word; None if none did.
    """

    columns: Sequence[str]
    rows: Sequence[MatrixRow]
    takers: Sequence[float | None]


def matrix_of(stage: AlignTargets, row: pa.Table) -> Matrix:
    """Of one row: the target, the words beside it, and all that took a word of the paraphrase."""
    pairs = stage.pairs(row)
    text, paraphrase = row["text"][0].as_py(), row["paraphrase"][0].as_py()
    originals, words, target = pairs.originals, pairs.paraphrases, int(pairs.targets[0])
    cosines = all_cosines(
        Sentences(pairs.of_originals, originals.counts), Sentences(pairs.of_paraphrases, words.counts)
    )
    takers = taken_by(cosines, pairs.targets)[0, : len(words.words)].tolist()
    rounded = cosines[0, :, : len(words.words)].round(_DECIMALS)
    beside = range(max(0, target - _BESIDE), min(len(originals.words), target + _BESIDE + 1))
    shown = sorted({*beside, *(taker for taker in takers if taker >= 0)})
    return Matrix(
        [paraphrase[start:end] for start, end in zip(words.starts, words.ends, strict=True)],
        [
            MatrixRow(text[originals.starts[i] : originals.ends[i]], int(originals.starts[i]), rounded[i].tolist())
            for i in shown
        ],
        [float(rounded[taker, column]) if taker >= 0 else None for column, taker in enumerate(takers)],
    )
