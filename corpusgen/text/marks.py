"""What the parts of the wikitext reader share: marks of our own inside a text, signs, lists of names."""

from __future__ import annotations

HOLE = "\ufffc"
"""Where something was removed that the reader did see."""

# Code points that Unicode promises never to be characters: they can stand for our own marks inside the text.
GONE = "\ufdd0"  # here was something invisible: tidy the punctuation around it
SOUND = "\ufdd1"  # here was a pronunciation: invisible inside brackets, a hole in a sentence

DEEPEST = 25  # templates in templates, links in captions: real articles stay below ten
SUPERSCRIPTS = str.maketrans("0123456789-−–+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻⁻⁺")


def names(listed: str) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in listed.split(",") if name.strip()]
