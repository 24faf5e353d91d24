"""Slots: positions in sentences to predict words for, with the predicted words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusgen.corpus.triples.contexts import SlotContext, class_of_slot, is_name
from corpusgen.corpus.triples.positives import match_case

Floats = npt.NDArray[np.float64]


class Candidates(NamedTuple):
    """Words predicted for a slot, in lower case and most probable first, and their cosines to the target.

    `unusable` says why no rule considers each word, as returned by `choose.why_unusable`; 0 if the rules do.
    """

    words: Sequence[str]
    probabilities: Floats
    cosines: Floats
    unusable: npt.NDArray[np.uint8]

    def usable(self) -> Candidates:
        """Return the words that the rules consider."""
        kept = np.flatnonzero(self.unusable == 0)
        words = [self.words[index] for index in kept.tolist()]
        return Candidates(words, self.probabilities[kept], self.cosines[kept], self.unusable[kept])

    def each(self) -> Iterator[tuple[str, float, float]]:
        """Yield each word with its probability and its cosine to the target."""
        return zip(self.words, self.probabilities.tolist(), self.cosines.tolist(), strict=True)


_NOTHING = Candidates((), np.zeros(0), np.zeros(0), np.zeros(0, np.uint8))


class Slot(NamedTuple):
    """A position in a sentence, with its context and the words predicted for it."""

    row: int
    text: str
    span: tuple[int, int]
    context: SlotContext | None = None
    predicted: Candidates = _NOTHING
    """All words that were predicted."""
    candidates: Candidates = _NOTHING
    """The predicted words that the rules consider."""
    problem: str | None = None
    """Why nothing could be predicted."""

    @property
    def surface(self) -> str:
        """Return the text in the slot."""
        return self.text[slice(*self.span)]

    def replaced(self, kind: str, word: str) -> dict[str, Any]:
        """Replace the span, keeping its case; return the sentence and the span of the new word, as columns."""
        start, end = self.span
        word = match_case(word, self.surface)
        return sentence_columns(kind, self.text[:start] + word + self.text[end:], (start, start + len(word)))


def context_of(
    record: Mapping[str, Any], before: str, others: Collection[str], predicted: Candidates, language: str
) -> SlotContext:
    """Return the context of a slot for the target of a record, from the words around it and those predicted for it."""
    target, probabilities = record["target"], predicted.probabilities
    return SlotContext(
        target=target.lower(),
        name=is_name(target, record["target_start"]),
        abbreviation=target.isupper(),
        before=before,
        others=others,
        best=float(probabilities[0]) if len(probabilities) else 0.0,
        word_class=class_of_slot(target.lower(), predicted.words, probabilities, language),
    )


def sentence_columns(kind: str, text: str, span: tuple[int, int]) -> dict[str, Any]:
    """Return a sentence, its word and the span of the word, in the columns of its kind."""
    start, end = span
    return {kind: text, f"{kind}_word": text[start:end], f"{kind}_start": start, f"{kind}_end": end}
