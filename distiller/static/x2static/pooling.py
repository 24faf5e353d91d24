"""Sentences as the frozen model reads them: its input, and the weight of each piece in the vector of a sentence.

A sentence is a span of a text, which is the sentence alone or its paragraph. Its pieces are those that share a
character with the span. So sentences are those of the corpus, whatever marks the tokenizer makes of "U.S." or "3.5".

Shapes: S sentences, P pieces of all texts, T words of all sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpusgen.models.spans import special_ends, window

NO_PIECE = "sentence has no word piece"
TOO_LONG = "sentence has more pieces than max_pieces"

Integers = NDArray[np.int64]


class Spans(NamedTuple):
    """Some spans of characters: the number of the text of each, its start and its end."""

    text: Integers
    start: Integers
    end: Integers


class Reading(NamedTuple):
    """What the model reads for a sentence, and the weights of all pieces, which add up to 1."""

    ids: tuple[int, ...]
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class Pooling:
    """Which pieces of a sentence count, and how much."""

    longest: int
    """The most pieces that the model gets, special tokens included."""
    by_word: bool = False
    """Whether each word has the same weight, or each piece."""
    special_tokens: bool = False
    """Whether special tokens count too; only for texts that are single sentences."""

    def read(
        self, texts: Sequence[str], encodings: Sequence[Any], sentences: Spans, words: Spans | None = None
    ) -> list[Reading | str]:
        """Return how to read each sentence, or the reason why it cannot be read.

        Args:
            texts: The texts.
            encodings: What a tokenizer makes of each, without cutting it.
            sentences: Where the sentences are, (S,).
            words: Where their words are, (T,); `text` is here the number of the sentence. Needed to weigh by words.
        """
        pieces = _Pieces(texts, encodings)
        first, stop = pieces.of(sentences)
        raw = np.ones(int((stop - first).sum()), np.float32)
        bounds = np.concatenate([[0], np.cumsum(stop - first)])
        if self.by_word:
            assert words is not None
            where = Spans(sentences.text[words.text], words.start, words.end)
            raw = _word_weights(*pieces.of(where), bounds[words.text] - first[words.text], len(raw))
        of_text = pieces.base[sentences.text]
        columns = (sentences.text, first - of_text, stop - of_text, bounds[:-1], bounds[1:])
        return [
            self._reading(encodings[text], begin, end, raw[a:b])
            for text, begin, end, a, b in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def _reading(self, encoding: Any, first: int, stop: int, raw: NDArray[np.float32]) -> Reading | str:
        if first >= stop or not raw.any():
            return NO_PIECE
        ends = special_ends(encoding)
        cut = _shared_window(tuple(encoding.ids), first, stop, ends, self.longest)
        if cut is None:
            return TOO_LONG
        ids, moved = cut
        weights = np.zeros(len(ids), np.float32)
        weights[first - moved : stop - moved] = raw
        if self.special_tokens:
            weights[: ends[0]] = weights[len(ids) - ends[1] :] = 1
        return Reading(ids, weights / weights.sum())


class _Pieces:
    """The pieces of all texts, laid out one after the other with a gap after each text."""

    def __init__(self, texts: Sequence[str], encodings: Sequence[Any]) -> None:
        counts = np.array([len(encoding.ids) for encoding in encodings])
        lengths = np.array([len(text) for text in texts])
        self.base = np.cumsum(counts) - counts
        """The number of the first piece of each text."""
        self._characters = np.cumsum(lengths + 1) - lengths - 1
        offsets = chain.from_iterable(chain.from_iterable(encoding.offsets for encoding in encodings))
        start, end = np.fromiter(offsets, np.int64, 2 * int(counts.sum())).reshape(-1, 2).T
        # Pieces without characters, such as special tokens, must not be found: they begin last and end first.
        is_empty = start >= end
        start = np.where(is_empty, np.repeat(lengths, counts), start) + np.repeat(self._characters, counts)
        end = np.where(is_empty, 0, end) + np.repeat(self._characters, counts)
        self._ends_so_far = np.maximum.accumulate(end)
        self._starts_from_here = np.minimum.accumulate(start[::-1])[::-1]

    def of(self, spans: Spans) -> tuple[Integers, Integers]:
        """Return the first piece of each span and the one after its last; both are the same if it has none."""
        moved = self._characters[spans.text]
        first = np.searchsorted(self._ends_so_far, spans.start + moved, side="right")
        stop = np.searchsorted(self._starts_from_here, spans.end + moved, side="left")
        return first, np.maximum(first, stop)


def _word_weights(first: Integers, stop: Integers, moved: Integers, size: int) -> NDArray[np.float32]:
    """Return the weights of pieces, if each word shares a weight of 1 among its own."""
    counts = stop - first
    before = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(first + moved - before, counts)
    return np.bincount(places, np.repeat(1 / np.maximum(1, counts), counts), size).astype(np.float32)


def _shared_window(
    ids: tuple[int, ...], first: int, stop: int, ends: tuple[int, int], longest: int
) -> tuple[tuple[int, ...], int] | None:
    """Cut a text to what the model may get around pieces `first` to `stop`; also return by how much these move.

    Windows begin at multiples of half their size, and a sentence takes the first one that it fits into, so that many
    sentences share one. A sentence that fits into none of them has one of its own. Return None if it is too long.
    """
    head, tail = ends
    room = longest - head - tail
    step = max(1, room // 2)
    begin = step * max(0, -(-(stop - head - room) // step))
    if len(ids) <= longest or begin > first - head:
        return window(ids, first, stop - 1, ends, longest)
    body = ids[head + begin : min(head + begin + room, len(ids) - tail)]
    return ids[:head] + body + ids[len(ids) - tail :], begin
