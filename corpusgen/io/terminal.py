"""Text for people at a terminal: what they cannot see is shown as an escape.

Titles, sentences and names of files come from anywhere. One character of them may turn a line around, clear the
screen or hide a word; so whatever is printed goes through here. What is stored and exported stays as it is.
"""

from __future__ import annotations

import unicodedata

_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])  # controls, marks of direction and joining, half pairs, line ends


def visible(text: str) -> str:
    r"""One line, with escapes for what cannot be seen: visible("a\u202eb") is "a\\u202eb"."""
    if text.isprintable():
        return text
    return "".join(_escape(character) if _is_unseen(character) else character for character in text)


def visible_lines(text: str) -> str:
    """The same for text of several lines, which stay lines."""
    return "\n".join(map(visible, text.split("\n")))


def visible_json(text: str) -> str:
    """The same for JSON, which says the same as before."""
    if text.isprintable():
        return text
    return "".join(_json_escape(one) if one != "\n" and _is_unseen(one) else one for one in text)


def marked(text: str, start: int, end: int) -> str:
    """A text with the word in brackets.

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
