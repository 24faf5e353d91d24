"""Find the words and marks of many texts at once: kinds of characters from a table, spans by comparing arrays."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

LETTER, DIGIT, UNDERSCORE, JOINING, SPACE, COMBINING, COMMA = 1, 2, 4, 8, 16, 32, 64
_IN_WORD = LETTER | DIGIT | UNDERSCORE
_JOINING = "-'’."  # between two letters they are part of the word: well-known, don't, U.S
_INVISIBLE = "\u00ad\u200c\u200d"  # a soft hyphen and two joiners, which stand inside words
# The end of an abbreviation: full stops after one or two letters each, as in U.S., e.g., Ph.D.
_LAST_STOP = re.compile(r"\.(?<=[^\W\d_]\.)(?<![^\W\d_]{3}\.)[^\W\d_]{1,2}\.(?!\w)")
_LAST_SCRIPT = 0x20000  # beyond it no script has accents or vowel signs
_TEXTS_AT_ONCE = 256  # their arrays stay in the processor's cache


class Tokens(NamedTuple):
    """The tokens of many texts, flat: how many each text has, and where they start and end in their text.

    The texts themselves are not kept: methods that need them take them as an argument.
    """

    counts: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]

    @classmethod
    def of_columns(cls, starts: pa.ListArray | pa.ChunkedArray, ends: pa.ListArray | pa.ChunkedArray) -> Tokens:
        """Return the tokens of a table that has a list of starts and one of ends in each row.

        Raise ValueError for a row without lists (empty ones are fine) or with lists of different lengths.
        """
        starts, ends = (_list_array(column) for column in (starts, ends))
        if starts.null_count or ends.null_count:
            raise ValueError("a sentence has no tokens")
        counts = starts.value_lengths()
        if not counts.equals(ends.value_lengths()):
            raise ValueError("a sentence has more token starts than ends, or fewer")
        return cls(counts.to_numpy().astype(np.int64), starts.flatten().to_numpy(), ends.flatten().to_numpy())

    @classmethod
    def joined(cls, parts: Sequence[Tokens]) -> Tokens:
        """Concatenate the tokens of several lists of texts."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def columns(self) -> tuple[pa.ListArray, pa.ListArray]:
        """Return the starts and the ends as columns of a table, a list for each text."""
        offsets = pa.array(np.concatenate(([0], np.cumsum(self.counts))), pa.int32())
        starts, ends = (pa.array(values, pa.int32()) for values in (self.starts, self.ends))
        return pa.ListArray.from_arrays(offsets, starts), pa.ListArray.from_arrays(offsets, ends)

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Return the index of each token's text."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @property
    def firsts(self) -> npt.NDArray[np.int64]:
        """Return the index of each text's first token."""
        return np.cumsum(self.counts) - self.counts

    def only_words(self, texts: Sequence[str]) -> Tokens:
        """Leave out marks: keep the tokens that begin with a letter or digit."""
        rows = self.rows
        kept = (character_kinds(texts)[starts_of(texts)[rows] + self.starts] & (LETTER | DIGIT)) != 0
        return Tokens(np.bincount(rows[kept], minlength=len(texts)), self.starts[kept], self.ends[kept])

    def lower(self, texts: Sequence[str]) -> list[str]:
        """Return the tokens themselves, in lower case."""
        spans = zip(self.rows.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True)
        return [texts[row][start:end].lower() for row, start, end in spans]

    def surfaces(self, texts: pa.StringArray) -> pa.StringArray:
        """Return the tokens themselves, as they are written; raise ValueError if one is not inside its text."""
        rows = self.rows
        characters = pc.utf8_length(texts).to_numpy()
        if (self.starts < 0).any() or (self.ends < self.starts).any() or (self.ends > characters[rows]).any():
            raise ValueError("a token is not inside the text of its sentence")
        # Arrow keeps UTF-8, so character offsets must be turned into byte offsets first.
        data = _utf8(texts)
        # A byte begins a character unless it is 10xxxxxx. One more entry: where the last character ends.
        byte_of_character = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
        first_character = (np.cumsum(characters) - characters)[rows]
        first_byte = byte_of_character[first_character + self.starts]
        length = byte_of_character[first_character + self.ends] - first_byte
        offsets = np.concatenate(([0], np.cumsum(length)))
        gathered = data[np.repeat(first_byte - offsets[:-1], length) + np.arange(offsets[-1])]
        return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(gathered))

    def starting_at(self, starts: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Return the index of the token that starts at each text's `starts`, for texts that have one."""
        return np.flatnonzero(self.starts == starts[self.rows])


def _list_array(column: pa.ListArray | pa.ChunkedArray) -> pa.ListArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _utf8(texts: pa.StringArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of all texts, one after the other."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return np.empty(0, np.uint8)
    bounds: Any = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def tokenize(texts: Sequence[str], whole: bool = False) -> Tokens:
    """Split texts into words and marks.

    A word may hold inner hyphens, apostrophes and full stops; any other mark stands alone; spaces are not tokens.
    With `whole`, a number also holds inner commas (1,000), an abbreviation its last full stop (U.S.), and a word
    accents, vowel signs and joiners that are characters of their own.
    """
    starts = range(0, len(texts), _TEXTS_AT_ONCE)
    some = [_tokenize(texts[first : first + _TEXTS_AT_ONCE], whole) for first in starts]
    return Tokens.joined(some or [_tokenize([], whole)])


def _tokenize(texts: Sequence[str], whole: bool) -> Tokens:
    kinds = np.pad(character_kinds(texts, between="\n"), 1, constant_values=SPACE)
    word = (kinds & (_IN_WORD | COMBINING if whole else _IN_WORD)) != 0
    joining = kinds[1:-1] == JOINING
    if whole:
        digit = kinds == DIGIT
        word[1:-1] |= (kinds[1:-1] == COMMA) & digit[:-2] & digit[2:]
        word[[found.end() for found in _LAST_STOP.finditer("\n".join(texts))]] = True  # of `kinds`, which is padded
    word[1:-1] |= joining & word[:-2] & word[2:]
    mark = ~word & (kinds != SPACE)
    starts = np.flatnonzero((word[1:] & ~word[:-1]) | mark[1:])
    ends = np.flatnonzero((word[:-1] & ~word[1:]) | mark[:-1])
    text_starts = starts_of(texts, between=1)
    counts = np.diff(np.append(np.searchsorted(starts, text_starts), len(starts)))
    origins = np.repeat(text_starts, counts)
    return Tokens(counts, (starts - origins).astype(np.int32), (ends - origins).astype(np.int32))


def character_kinds(texts: Sequence[str], between: str = "") -> npt.NDArray[np.uint8]:
    """Return the kind of each character of all texts, one after the other."""
    codes = np.frombuffer(between.join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    return _kinds()[codes]


def starts_of(texts: Sequence[str], between: int = 0) -> npt.NDArray[np.int64]:
    """Return where each text starts among the characters of all of them."""
    lengths = (len(text) + between for text in texts)
    return np.fromiter(itertools.accumulate(lengths, initial=0), np.int64, len(texts) + 1)[:-1]


@functools.cache
def _kinds() -> npt.NDArray[np.uint8]:
    """Return the kind of every Unicode character; computed once per process, in a few tenths of a second."""
    kinds = [
        DIGIT if character.isdigit() else LETTER if character.isalnum() else SPACE if character.isspace() else 0
        for character in map(chr, range(sys.maxunicode + 1))
    ]
    for code in range(_LAST_SCRIPT):
        if not kinds[code] and unicodedata.category(chr(code))[0] == "M":
            kinds[code] = COMBINING
    for mark in _INVISIBLE:
        kinds[ord(mark)] = COMBINING
    for mark in _JOINING:
        kinds[ord(mark)] = JOINING
    kinds[ord("_")], kinds[ord(",")] = UNDERSCORE, COMMA
    return np.array(kinds, np.uint8)
