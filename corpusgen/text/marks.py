"""What the parts of the wikitext reader share: our own marks inside a text, signs, lists of names."""

from __future__ import annotations

HOLE = "\ufffc"
"""Marks where something was removed that readers of the page see."""

# Code points that Unicode guarantees never to be characters: they can serve as our own marks inside a text.
GONE = "\ufdd0"  # something invisible was here: tidy the punctuation around it
SOUND = "\ufdd1"  # a pronunciation was here: invisible inside brackets, a hole in a sentence

DEEPEST = 25  # templates in templates, links in captions: real articles stay below ten
SUPERSCRIPTS = str.maketrans("0123456789-−–+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻⁻⁺")


def names(listed: str) -> list[str]:
    """Split a comma-separated list of names."""
    return [name.strip() for name in listed.split(",") if name.strip()]
