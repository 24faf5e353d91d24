"""Which occurrences of a word are its contexts: those of lowest priority, a hash of seed, paragraph and place in it.

Each unit keeps the k lowest priorities of each word, and a merge finds the k-th lowest of all, the word's *threshold*.
An occurrence is a context if its priority is not above the threshold. So which ones are chosen depends neither on the
division into units nor on their order, and what has to be merged is numbers, not texts.

A unit also drops priorities above a limit that depends on the word's count in the whole corpus alone: without that, a
frequent word would have k of them in every unit. About k + 8√k + 40 of a word's priorities are below its limit. That
fewer than k are has a probability below 1e-15; then all below the limit are contexts, still a random choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusgen.io.hashing import mixed, seeded_hashes

Priorities = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

ALL = np.uint64(np.iinfo(np.uint64).max)
"""The threshold of a word whose occurrences are all contexts."""
_STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64; odd, so that no two places in a paragraph have the same key


@dataclass(frozen=True)
class Occurrences:
    """Where words of the vocabulary occur in some paragraphs: N occurrences, in the order of the text."""

    rows: Integers
    """The paragraph of each, (N,)."""
    places: Integers
    """Which token of its paragraph it is, (N,)."""
    words: Integers
    """The number of the word in the vocabulary, (N,)."""


def find_occurrences(paragraphs: pa.Table, numbers: Mapping[str, int]) -> Occurrences:
    """Find the words of a vocabulary in paragraphs; tokens are compared in lower case."""
    found: list[tuple[int, int, int]] = []
    columns = (paragraphs[name].to_pylist() for name in ("text", "token_starts", "token_ends"))
    for row, (text, starts, ends) in enumerate(zip(*columns, strict=True)):
        for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
            number = numbers.get(text[start:end].lower())
            if number is not None:
                found.append((row, place, number))
    rows, places, words = np.array(found, np.int64).reshape(-1, 3).T
    return Occurrences(rows, places, words)


def priorities(ids: Sequence[Any], occurrences: Occurrences, seed: int) -> Priorities:
    """Return the priority of each occurrence; `ids` are those of the paragraphs."""
    keys = seeded_hashes(ids, seed, b"paragraph")
    return mixed(keys[occurrences.rows] + (occurrences.places + 1).astype(np.uint64) * _STEP)


def kept_per_word(contexts: int) -> float:
    """Return how many priorities of a word all units together keep, on average."""
    return contexts + 8 * math.sqrt(contexts) + 40


def limits(counts: Integers, contexts: int) -> Priorities:
    """Return each word's highest priority worth keeping."""
    share = kept_per_word(contexts) / np.maximum(counts, 1)
    found: Priorities = np.full(len(share), ALL, np.uint64)
    found[share < 1] = (share[share < 1] * 2.0**64).astype(np.uint64)
    return found


def lowest(words: Integers, of: Priorities, contexts: int) -> Integers:
    """Return the indices of each word's lowest priorities, at most `contexts`, sorted by word, then by priority."""
    order = np.lexsort((of, words))
    starts = np.flatnonzero(np.diff(words[order], prepend=-1))
    ranks = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return order[ranks < contexts]


def thresholds(words: Integers, of: Priorities, limit: Priorities, contexts: int) -> Priorities:
    """Return each word's threshold: its `contexts`-th lowest priority or, if fewer are known, its limit.

    `words` are numbers below the length of `limit`.
    """
    low = lowest(words, of, contexts)
    words, of = words[low], of[low]
    counts = np.bincount(words, minlength=len(limit))
    found = limit.copy()
    full = np.flatnonzero(counts == contexts)
    found[full] = of[np.cumsum(counts)[full] - 1]
    return found
