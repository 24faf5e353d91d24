"""Which words of a batch are contexts and negatives of which centres.

Negatives follow from hashes of the seed, the epoch and the place of a centre in the text.

Shapes: T tokens of a batch, N centres, C places of a window, K negatives, P pairs of a centre and a context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distiller.static.settings import SkipgramSettings
from distiller.static.x2static.kernel import alias_table, stream_key, with_negatives

Integers = NDArray[np.int64]


class Batch(NamedTuple):
    """The sentences of a step that one worker trains on."""

    epoch: int
    tokens: NDArray[np.int32]
    """The words of all sentences as numbers in the vocabulary, −1 for those that are not in it, (T,)."""
    bounds: Integers
    """Sentence s of the batch has the tokens bounds[s] … bounds[s + 1], (S + 1,)."""
    centres: Integers
    """Which tokens have a vector, (N,)."""
    places: Integers
    """The place of each of these in the whole text, (N,)."""
    states: NDArray[np.float32]
    """The frozen model's vector of each of these, (N, D)."""


class Windows(NamedTuple):
    """The centres of a batch that have a context, with their contexts and negatives."""

    centres: Integers
    """Which of the batch's centres they are, (N,)."""
    contexts: Integers
    """The words in the window, 0 where there is none, (N, C)."""
    present: NDArray[np.bool_]
    """Where there is one, (N, C)."""
    negatives: Integers
    """The negatives of each centre, (N, K), or of each pair in the order of `present`, (P, K)."""


def neighbours(place: Integers, length: Integers, settings: SkipgramSettings) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the places in its sentence of a token's window, and which of them count, both (N, C).

    Args:
        place: The place of each token in its sentence, (N,).
        length: The length of its sentence, (N,).
        settings: The window.
    """
    size = settings.window
    if settings.centre != "published":
        offsets = [offset for offset in range(-size, size + 1) if offset or settings.centre == "include"]
        found = place[:, None] + np.array(offsets)
        return found, (found >= 0) & (found < length[:, None])
    # It begins `size` tokens before the centre or with the sentence, and ends before the centre + `size`. What is left
    # out is not the centre, but the token whose place in the window is that of the centre in the sentence.
    begin = np.maximum(place - size, 0)
    index = np.arange(2 * size)
    found = begin[:, None] + index
    return found, (found < np.minimum(place + size, length)[:, None]) & (index != place[:, None])


@dataclass(frozen=True)
class Sampling:
    """What it takes to find windows: 12 bytes per word."""

    settings: SkipgramSettings
    share: NDArray[np.float64]
    other: NDArray[np.int32]
    """The alias table of negatives, (V,) each."""

    @classmethod
    def of(cls, settings: SkipgramSettings, counts: NDArray[np.int64]) -> Sampling:
        """Prepare to draw from words with these counts (V,)."""
        return cls(settings, *alias_table(counts.astype(np.float64) ** settings.negative_exponent))

    def windows(self, batch: Batch) -> Windows:
        """Return the contexts and negatives of a batch."""
        settings = self.settings
        sentence = np.searchsorted(batch.bounds, batch.centres, side="right") - 1
        begin, end = batch.bounds[sentence], batch.bounds[sentence + 1]
        found, present = neighbours(batch.centres - begin, end - begin, settings)
        contexts = batch.tokens[np.where(present, begin[:, None] + found, 0)].astype(np.int64)
        present &= contexts >= 0
        contexts[~present] = 0
        kept = np.flatnonzero(present.any(axis=1))
        present, contexts, places = present[kept], contexts[kept], batch.places[kept]
        if settings.negatives_per == "pair":
            owner, slot = np.nonzero(present)
            places = places[owner] * present.shape[1] + slot
        key = stream_key(settings.seed, b"dsg negatives", batch.epoch)
        drawn = with_negatives(np.zeros(len(places), np.int32), places, self.share, self.other, settings.negatives, key)
        return Windows(kept, contexts, present, drawn[:, 1:].astype(np.int64))
