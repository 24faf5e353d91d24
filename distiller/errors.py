"""What can be wrong with a text and a word in it. Each error says which item it is about."""

from __future__ import annotations

from corpusgen.errors import CorpusgenError


class ItemError(CorpusgenError, ValueError):
    """An item that cannot be encoded; `index` is its number among those of the call, from 0 on."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"item {index}: {reason}")
        self.index = index
        self.reason = reason

    def __reduce__(self) -> tuple[type[ItemError], tuple[int, str]]:
        return type(self), (self.index, self.reason)


class EmptyTextError(ItemError):
    """A text without a character that is not a space."""


class SpanError(ItemError):
    """A span that is empty, outside its text, or on nothing that the model reads."""


class WordTooLongError(ItemError):
    """A word that is longer than what the model takes at a time."""


class WordNotFoundError(ItemError):
    """A word that is not in its text."""


class AmbiguousWordError(ItemError):
    """A word that is in its text more than once: a span must say which is meant."""
