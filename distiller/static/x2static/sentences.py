"""The text as arrays, and the batches of a training.

Shapes: S sentences, L lines, W words, D dimensions; in a batch B sentences and T words, which are candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusgen.errors import StoreError
from distiller.static.settings import X2StaticSettings
from distiller.static.x2static.kernel import permuted, stream_key


@dataclass(frozen=True)
class Sentences:
    """The sentences of a text. The arrays may be memory maps."""

    contexts: NDArray[np.float16]
    """The frozen model's vector of each sentence, (S, D)."""
    tokens: NDArray[np.int32]
    """The words of all sentences as numbers in the vocabulary, without those that are not in it, (W,)."""
    offsets: NDArray[np.int64]
    """Sentence s has the words offsets[s] … offsets[s + 1], (S + 1,)."""
    line_offsets: NDArray[np.int64]
    """Line l has the sentences line_offsets[l] … line_offsets[l + 1], (L + 1,)."""
    check: Callable[[NDArray[np.int64], NDArray[np.float16], NDArray[np.int32]], None] | None = None
    """Raises an error if what was read of some sentences, their vectors and words, is damaged."""

    def __post_init__(self) -> None:
        for offsets, size in ((self.offsets, len(self.tokens)), (self.line_offsets, len(self.contexts))):
            if not len(offsets) or offsets[0] != 0 or offsets[-1] != size:
                raise ValueError(f"offsets must lead from 0 to {size}")
        if len(self.offsets) != len(self.contexts) + 1:
            raise ValueError(f"{len(self.contexts)} contexts, but {len(self.offsets) - 1} sentences")

    @property
    def lines(self) -> int:
        """Return the number of lines."""
        return len(self.line_offsets) - 1


@dataclass(frozen=True)
class Batch:
    """The lines of one step. Every word in them may become a target."""

    step: int
    """The number of the step, counted from 0 across epochs."""
    epoch: int
    contexts: NDArray[np.float32]
    """Vectors of the sentences, (B, D)."""
    tokens: NDArray[np.int32]
    """The words of these sentences, (T,)."""
    places: NDArray[np.int64]
    """The place of each word in the text, (T,)."""
    sentence: NDArray[np.int32]
    """The sentence of each word among those of the batch, (T,)."""


def steps_per_epoch(sentences: Sentences, settings: X2StaticSettings) -> int:
    """Return the number of batches that hold every line once; the last one may be smaller."""
    return -(-sentences.lines // settings.batch_lines)


def batches(sentences: Sentences, settings: X2StaticSettings, first_step: int = 0) -> Iterator[Batch]:
    """Yield the batches of a training from a step on."""
    for step in range(first_step, settings.epochs * steps_per_epoch(sentences, settings)):
        yield batch_of(sentences, settings, step)


def batch_of(sentences: Sentences, settings: X2StaticSettings, step: int) -> Batch:
    """Return the batch of a step. Its lines follow from seed and step alone: a new order of all lines per epoch."""
    epoch, step_in_epoch = divmod(step, steps_per_epoch(sentences, settings))
    start = step_in_epoch * settings.batch_lines
    stop = min(start + settings.batch_lines, sentences.lines)
    lines = permuted(start, stop, sentences.lines, stream_key(settings.seed, b"x2 lines", epoch))
    numbers, _ = _members(sentences.line_offsets, lines)
    places, sentence = _members(sentences.offsets, numbers)
    halves, tokens = sentences.contexts[numbers], sentences.tokens[places]
    if sentences.check:
        sentences.check(numbers, halves, tokens)
    contexts = halves.astype(np.float32)
    _check_finite(contexts, numbers)
    return Batch(step, epoch, contexts, tokens, places, sentence)


def _members(offsets: NDArray[np.int64], groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the members of all groups one after the other, and for each the place of its group in `groups`."""
    starts = np.asarray(offsets[groups], np.int64)
    sizes = offsets[groups + 1] - starts
    before = np.cumsum(sizes) - sizes
    group = np.repeat(np.arange(len(groups), dtype=np.int32), sizes)
    return np.arange(sizes.sum()) + (starts - before)[group], group


def _check_finite(contexts: NDArray[np.float32], numbers: NDArray[np.int64]) -> None:
    """Raise StoreError if a context is not finite: it would spoil the vectors of all its words for good."""
    finite = np.isfinite(contexts).all(axis=1)
    if not finite.all():
        raise StoreError(
            f"the vector of sentence {numbers[~finite][0]:,} holds infinite values or NaN; make the sentence vectors "
            "again, with `dtype: float32` if the model overflows in float16"
        )
