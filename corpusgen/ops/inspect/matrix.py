"""The alignment around a target: how near the words beside it, and the words that took a word, are to all words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpusgen.corpus.triples.align import JudgedPairs
from corpusgen.corpus.triples.choose import Pairs

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
    """Words of the original as `rows`, in order; the columns are the words of the paraphrase.

    `takers` has, for each column, the cosine of the word of the original that took the word; None if none did.
    """

    columns: Sequence[str]
    rows: Sequence[MatrixRow]
    takers: Sequence[float | None]


def matrix_of(pairs: Pairs, judged: JudgedPairs) -> Matrix:
    """Return, for a single pair, the rows of the target, of the words beside it, and of all words that took a word."""
    originals, words, target = pairs.originals.written(), pairs.paraphrases.written(), int(pairs.targets[0])
    takers = judged.takers[0, : len(words)].tolist()
    rounded = judged.cosines[0, :, : len(words)].round(_DECIMALS)
    beside = range(max(0, target - _BESIDE), min(len(originals), target + _BESIDE + 1))
    shown = sorted({*beside, *(taker for taker in takers if taker >= 0)})
    starts = pairs.originals.tokens.starts
    return Matrix(
        words,
        [MatrixRow(originals[index], int(starts[index]), rounded[index].tolist()) for index in shown],
        [float(rounded[taker, column]) if taker >= 0 else None for column, taker in enumerate(takers)],
    )
