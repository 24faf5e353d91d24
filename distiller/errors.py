"""Errors about a text and a word in it, each of which names its item, and about a word without a vector."""

from __future__ import annotations

from corpusgen.errors import CorpusgenError


class ItemError(CorpusgenError, ValueError):
    """An item that cannot be encoded; `index` is its number in the call, counted from 0."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"item {index}: {reason}")
        self.index = index
        self.reason = reason

    def __reduce__(self) -> tuple[type[ItemError], tuple[int, str]]:
        return type(self), (self.index, self.reason)


class EmptyTextError(ItemError):
    """A text that is empty, or that has nothing for the model to read."""


class SpanError(ItemError):
    """A span that is empty, outside its text, or on characters that the model does not read."""


class WordTooLongError(ItemError):
    """A word that is longer than the model's input."""


class WordNotFoundError(ItemError):
    """A word that is not in its text."""


class AmbiguousWordError(ItemError):
    """A word that occurs in its text more than once, so that only a span can say which one is meant."""


class UnknownWordError(CorpusgenError, KeyError):
    """A word that static vectors have no vector for."""

    __str__ = Exception.__str__  # that of KeyError would show the message in quotes
