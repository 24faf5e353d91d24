"""Functions that make text safe to print at a terminal by escaping invisible characters.

Titles, sentences and file names come from anywhere. A single character in them can reverse a line, clear the screen or
hide a word, so everything that is printed goes through here. What is stored or exported stays as it is.
"""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])  # controls, direction and joining marks, surrogates, line ends


def visible(text: str) -> str:
    r"""Return a line with invisible characters escaped: visible("a\u202eb") is "a\\u202eb"."""
    if text.isprintable():
        return text
    return "".join(_escape(character) if _is_unseen(character) else character for character in text)


def visible_lines(text: str) -> str:
    """Return text with invisible characters escaped, and its line breaks kept."""
    return "\n".join(map(visible, text.split("\n")))


def visible_json(text: str) -> str:
    """Return JSON of the same value with invisible characters escaped."""
    if text.isprintable():
        return text
    return "".join(_json_escape(one) if one != "\n" and _is_unseen(one) else one for one in text)


def marked(text: str, start: int, end: int) -> str:
    """Return a text with the characters from `start` to `end` in brackets.

    >>> marked("The bank raised its rates.", 4, 8)
    'The [bank] raised its rates.'
    """
    return f"{text[:start]}[{text[start:end]}]{text[end:]}"


def _is_unseen(character: str) -> bool:
    return character != "\t" and unicodedata.category(character) in _UNSEEN


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
