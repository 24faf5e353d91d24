"""Which words of a batch are targets, and which words are their negatives.

Both follow from hashes of the seed, the epoch and the place of a word in the text: any worker can compute them for any
batch, in any order, and gets the same.

Shapes: V words, T candidates of a batch, N targets, K negatives per target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distiller.static.settings import X2StaticSettings
from distiller.static.x2static.kernel import alias_table, kept_candidates, stream_key, with_negatives
from distiller.static.x2static.sentences import Batch


def keep_probability(counts: NDArray[np.int64], threshold: float) -> NDArray[np.float64]:
    """Return the probability (V,) with which an occurrence of each word is a target: min(1, √(t/f) + t/f)."""
    ratio = threshold * counts.sum() / counts
    probability: NDArray[np.float64] = np.minimum(1.0, np.sqrt(ratio) + ratio)
    return probability


class Drawn(NamedTuple):
    """The targets of a batch with their negatives."""

    candidates: NDArray[np.int64]
    """Which candidates of the batch are targets, (N,)."""
    words: NDArray[np.int32]
    """Targets in the first column, their negatives in the others, (N, 1 + K)."""


@dataclass(frozen=True)
class Sampling:
    """What it takes to draw targets and negatives: 20 bytes per word of the whole vocabulary."""

    settings: X2StaticSettings
    kept: NDArray[np.float64]
    """The probability of each word to be a target, (V,)."""
    share: NDArray[np.float64]
    other: NDArray[np.int32]
    """The alias table of negatives, (V,) each."""

    @classmethod
    def of(cls, settings: X2StaticSettings, counts: NDArray[np.int64]) -> Sampling:
        """Prepare to draw from words with these counts (V,)."""
        if not len(counts) or counts.min() < 1:
            raise ValueError("there must be at least one word, and every word must have a count of at least 1")
        share, other = alias_table(counts.astype(np.float64) ** settings.negative_exponent)
        return cls(settings, keep_probability(counts, settings.threshold), share, other)

    def draw(self, batch: Batch) -> Drawn:
        """Return the targets of a batch with their negatives."""
        tokens, seed = batch.tokens, self.settings.seed
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < len(self.kept):
            raise ValueError(f"batch {batch.step} has words outside of the vocabulary of {len(self.kept):,}")
        candidates = kept_candidates(tokens, batch.places, self.kept, stream_key(seed, b"x2 targets", batch.epoch))
        words = with_negatives(
            tokens[candidates],
            batch.places[candidates],
            self.share,
            self.other,
            self.settings.negatives,
            stream_key(seed, b"x2 negatives", batch.epoch),
        )
        return Drawn(candidates, words)
