"""Checks of texts, shared by everything that encodes them."""

from __future__ import annotations

from typing import Any

from distiller.errors import EmptyTextError, ItemError


def check_text(index: int, text: Any) -> None:
    """Raise ItemError unless a tokenizer can read the text."""
    if not isinstance(text, str):
        raise ItemError(index, f"a text must be a string, not {type(text).__name__}")
    if not text.strip():
        raise EmptyTextError(index, "the text is empty")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ItemError(
            index, f"half a surrogate pair, which is not a character, at {error.start} of {quoted(text)}"
        ) from None


def quoted(text: str) -> str:
    """Return a text for a message, shortened if it is long."""
    return repr(text if len(text) <= 80 else text[:77] + "…")
