"""Words of sentences, and the places in them that words are predicted for: what the stages of `generate` work on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusgen.corpus.triples.contexts import Place
from corpusgen.corpus.triples.positives import match_case
from corpusgen.errors import StageError
from corpusgen.text.words import DIGIT, LETTER, character_kinds, starts_of, tokenize

_NOTHING = np.zeros(0)


class Judged(NamedTuple):
    """A predicted word and why it was passed over; None if nothing speaks against it."""

    word: str
    probability: float
    cosine: float
    problem: str | None


class Seen(NamedTuple):
    """All words predicted for a place, and the indices of those that the rules look at."""

    words: Sequence[str]
    probabilities: npt.NDArray[np.float64]
    cosines: npt.NDArray[np.float64]
    kept: npt.NDArray[np.int64]


class Slot(NamedTuple):
    """A place in a sentence, with the words predicted for it, in lower case and most probable first."""

    row: int
    text: str
    span: tuple[int, int]
    place: Place | None = None
    words: Sequence[str] = ()
    probabilities: npt.NDArray[np.float64] = _NOTHING
    cosines: npt.NDArray[np.float64] = _NOTHING
    problem: str | None = None
    """Why nothing could be predicted."""
    seen: Seen | None = None

    def candidates(self) -> Iterator[tuple[str, float, float]]:
        """Each word with its probability and its cosine to the target."""
        return zip(self.words, self.probabilities.tolist(), self.cosines.tolist(), strict=True)

    @property
    def surface(self) -> str:
        """What stands there."""
        return self.text[slice(*self.span)]

    def replaced(self, kind: str, word: str) -> dict[str, Any]:
        """The sentence with exactly the span replaced, in the case of what was there, and where the new word is."""
        start, end = self.span
        word = match_case(word, self.surface)
        return sentence_columns(kind, self.text[:start] + word + self.text[end:], (start, start + len(word)))


class Words(NamedTuple):
    """The words, in lower case and without marks, of many texts: flat, with the row and the span of each."""

    words: list[str]
    rows: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]

    @classmethod
    def tokenized(cls, texts: Sequence[str]) -> Words:
        """Of texts that have no tokens yet."""
        return cls.of(texts, *tokenize(texts))

    @classmethod
    def of(cls, texts: Sequence[str], counts: Any, starts: Any, ends: Any) -> Words:
        """Those of the tokens that begin with a letter or digit."""
        rows = np.repeat(np.arange(len(texts)), np.asarray(counts))
        starts, ends = np.asarray(starts), np.asarray(ends)
        kept = (character_kinds(texts)[starts_of(texts)[rows] + starts] & (LETTER | DIGIT)) != 0
        rows, starts, ends = rows[kept], starts[kept], ends[kept]
        spans = zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)
        words = [texts[row][start:end].lower() for row, start, end in spans]
        return cls(words, rows, starts, ends, np.bincount(rows, minlength=len(texts)))

    @property
    def firsts(self) -> npt.NDArray[np.int64]:
        """The index of each text's first word."""
        return np.cumsum(self.counts) - self.counts

    def at(self, starts: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """The index of the word that starts there, for each text."""
        index = np.flatnonzero(self.starts == starts[self.rows])
        if len(index) != len(starts):
            raise StageError("a target is no word of its sentence: the store was not made by this version")
        return index

    def by_row(self) -> list[dict[int, str]]:
        """For each text its words by where they start."""
        texts: list[dict[int, str]] = [{} for _ in self.counts]
        for row, start, word in zip(self.rows.tolist(), self.starts.tolist(), self.words, strict=True):
            texts[row][start] = word
        return texts


class Pairs(NamedTuple):
    """Originals and paraphrases to be aligned: words, which of each original's is the target, and vectors of all.

    `marks` are those that the aligner asks for: which words of the paraphrases come into question, or look like the
    target.
    """

    originals: Words
    paraphrases: Words
    targets: npt.NDArray[np.int64]
    marks: npt.NDArray[np.bool_] | None
    of_originals: npt.NDArray[np.float32]
    of_paraphrases: npt.NDArray[np.float32]


def sentence_columns(kind: str, text: str, span: tuple[int, int]) -> dict[str, Any]:
    """A sentence, its word and where it is, in the columns of its kind."""
    start, end = span
    return {kind: text, f"{kind}_word": text[start:end], f"{kind}_start": start, f"{kind}_end": end}
