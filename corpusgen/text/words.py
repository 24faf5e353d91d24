"""Words and marks of many texts at once: kinds of characters from a table, spans by comparing arrays."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LETTER, DIGIT, UNDERSCORE, JOINING, SPACE = 1, 2, 4, 8, 16
_IN_WORD = LETTER | DIGIT | UNDERSCORE
_JOINING = "-'’."  # between two letters they are part of the word: well-known, don't, U.S
_TEXTS_AT_ONCE = 256  # whose arrays stay in the processor's cache


class TokenSpans(NamedTuple):
    """The tokens of many texts, flat: how many each text has, and where they start and end in their text."""

    counts: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]


def tokenize(texts: Sequence[str]) -> TokenSpans:
    """A word may hold inner hyphens, apostrophes and full stops; any other mark stands alone; spaces are no tokens."""
    some = [_tokenize(texts[first : first + _TEXTS_AT_ONCE]) for first in range(0, len(texts), _TEXTS_AT_ONCE)]
    return TokenSpans(*(np.concatenate(arrays) for arrays in zip(*(some or [_tokenize([])]), strict=True)))


def _tokenize(texts: Sequence[str]) -> TokenSpans:
    kinds = np.pad(character_kinds(texts, between="\n"), 1, constant_values=SPACE)
    word = (kinds & _IN_WORD) != 0
    word[1:-1] |= (kinds[1:-1] == JOINING) & word[:-2] & word[2:]
    mark = ~word & (kinds != SPACE)
    starts = np.flatnonzero((word[1:] & ~word[:-1]) | mark[1:])
    ends = np.flatnonzero((word[:-1] & ~word[1:]) | mark[:-1])
    text_starts = starts_of(texts, between=1)
    counts = np.diff(np.append(np.searchsorted(starts, text_starts), len(starts)))
    origins = np.repeat(text_starts, counts)
    return TokenSpans(counts, (starts - origins).astype(np.int32), (ends - origins).astype(np.int32))


def character_kinds(texts: Sequence[str], between: str = "") -> npt.NDArray[np.uint8]:
    """The kind of each character of all texts, one after the other."""
    codes = np.frombuffer(between.join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    return _kinds()[codes]


def starts_of(texts: Sequence[str], between: int = 0) -> npt.NDArray[np.int64]:
    """Where each text starts among the characters of all of them."""
    lengths = (len(text) + between for text in texts)
    return np.fromiter(itertools.accumulate(lengths, initial=0), np.int64, len(texts) + 1)[:-1]


@functools.cache
def _kinds() -> npt.NDArray[np.uint8]:
    """Of every character there is; made once in a process, in some tenths of a second."""
    kinds = [
        DIGIT if character.isdigit() else LETTER if character.isalnum() else SPACE if character.isspace() else 0
        for character in map(chr, range(sys.maxunicode + 1))
    ]
    for mark in _JOINING:
        kinds[ord(mark)] = JOINING
    kinds[ord("_")] = UNDERSCORE
    return np.array(kinds, np.uint8)
