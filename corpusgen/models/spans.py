"""Find the word pieces of a character span, and cut texts that are too long for a model.

Everything here works on what a tokenizer returns; no model is needed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

Span = tuple[int, int]
Ids = TypeVar("Ids", list[int], tuple[int, ...])


class Reasons(NamedTuple):
    """The reasons why the word at a span cannot be read."""

    outside: str
    blank: str
    """The reason for a span of only white space."""
    no_piece: str
    too_long: str


def reasons_for(word: str, *, blank_is_outside: bool) -> Reasons:
    """Return the reasons in the caller's terms: `word` is its name for what is at a span, for example "target"."""
    outside, no_piece = "span is empty or outside the text", f"{word} has no word piece"
    blank = outside if blank_is_outside else no_piece
    return Reasons(outside, blank, no_piece, f"{word} is longer than the model's input")


class FoundWord(NamedTuple):
    """Where a word is: its first and last piece, and its characters without white space around them."""

    first: int
    last: int
    start: int
    end: int


class ReadText:
    """A text as its tokenizer reads it, prepared for finding the pieces of many words."""

    def __init__(self, text: str, encoding: Any) -> None:
        self.ids: tuple[int, ...] = tuple(encoding.ids)
        self.special_ends = special_ends(encoding)
        self._text = text
        self._offsets: list[Span] = encoding.offsets
        # Pieces without characters, such as special tokens at (0, 0), must not be found: they begin last, end first.
        spans = [(start, end) if start < end else (len(text), 0) for start, end in self._offsets]
        self._ends_so_far = list(accumulate((end for _, end in spans), max))
        self._starts_from_here = list(accumulate((start for start, _ in reversed(spans)), min))[::-1]

    def find(self, span: Span, reasons: Reasons) -> FoundWord | str:
        """Find the first and the last piece that share a character with a span, or return the reason why none does.

        White space at the ends of a span does not count: the offsets of many tokenizers give a space to the word that
        follows it.
        """
        start, end = span
        if not 0 <= start < end <= len(self._text):
            return reasons.outside
        surface = self._text[start:end].strip()
        if not surface:
            return reasons.blank
        start = self._text.index(surface, start)
        end = start + len(surface)
        first = bisect_right(self._ends_so_far, start)
        last = bisect_left(self._starts_from_here, end) - 1
        return FoundWord(first, last, start, end) if first <= last else reasons.no_piece

    def shares_piece(self, word: FoundWord) -> bool:
        """Return whether the word's pieces also hold characters of its neighbours, white space aside."""
        before = self._text[self._offsets[word.first][0] : word.start]
        after = self._text[word.end : self._offsets[word.last][1]]
        return bool(before.strip() or after.strip())


def special_ends(encoding: Any) -> tuple[int, int]:
    """Count the special tokens that the tokenizer puts before and after a text."""
    special = encoding.special_tokens_mask
    if all(special):
        return len(special), 0
    return special.index(0), special[::-1].index(0)


def window(ids: Ids, first: int, last: int, ends: tuple[int, int], longest: int) -> tuple[Ids, int] | None:
    """Cut an input to what the model takes, pieces `first` to `last` in the middle, between its special tokens.

    Also return by how much these pieces move forward. Return None if they alone are too many.
    """
    if len(ids) <= longest:
        return ids, 0
    head, tail = ends
    room = longest - head - tail
    if last + 1 - first > room:
        return None
    middle = (first + last + 1) // 2 - head
    begin = min(max(middle - room // 2, 0), len(ids) - head - tail - room)
    return ids[:head] + ids[head + begin : head + begin + room] + ids[len(ids) - tail :], begin


def stretches(ids: Ids, ends: tuple[int, int], longest: int) -> Iterator[tuple[Ids, range]]:
    """Split a text into inputs that the model takes; yield each with the positions of the text's pieces in it."""
    head, tail = ends
    room = longest - head - tail
    for begin in range(head, len(ids) - tail, room):
        body = ids[begin : min(begin + room, len(ids) - tail)]
        yield ids[:head] + body + ids[len(ids) - tail :], range(head, head + len(body))
