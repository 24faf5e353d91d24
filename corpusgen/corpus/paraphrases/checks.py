"""Checks for faults in a translation that show without knowing the languages."""

from __future__ import annotations

import unicodedata

_SHORTEST, _LONGEST = 0.4, 2.5  # width of a translation relative to its text; good ones have 0.7 to 1.5
_SLACK = 20  # difference in characters that is always allowed, for short texts

_MARKS = frozenset(".!?…。．！？؟۔।॥։።။។;\u037e")  # sentence ends in many scripts; Greek questions end with a semicolon
_CLOSING = " \u00a0\u202f\"'”’»›“‘)]」』）"  # may follow the marks
_WITHOUT_MARKS = {"th", "lo"}  # languages whose sentences end without a mark

_TIMES, _LOOP, _SEED = 3, 24, 8  # a loop: the same piece three times in a row, over at least 24 characters


def fault(text: str, translation: str, language: str) -> str | None:
    """Return why the translation of a text into a language cannot be right; None if nothing is wrong with it."""
    if not translation.strip():
        return "empty translation"
    if _plain(text) == _plain(translation):
        return "untranslated"
    before, after = _width(text), _width(translation)
    if after > _LONGEST * before + _SLACK or (has_loop(translation) and not has_loop(text)):
        return "runaway translation"
    # A search that hit its limit or stopped early has not reached the mark at the end.
    lost_its_end = language not in _WITHOUT_MARKS and _ends_as_sentence(text) and not _ends_as_sentence(translation)
    return "truncated translation" if lost_its_end or after < _SHORTEST * before - _SLACK else None


def has_loop(text: str) -> bool:
    """Return whether a piece of the text, of any length, repeats over and over with nothing in between."""
    last_seen: dict[str, int] = {}
    for here in range(len(text) - _SEED + 1):
        seed = text[here : here + _SEED]
        before = last_seen.get(seed)
        last_seen[seed] = here
        if before is None:
            continue
        # The piece is the text between both positions. Does the text repeat from here until there are enough pieces?
        piece = here - before
        rest = max(_TIMES * piece, _LOOP) - piece
        if here + rest <= len(text) and text.startswith(text[before : before + rest], here):
            return True
    return False


def _ends_as_sentence(text: str) -> bool:
    return text.rstrip(_CLOSING)[-1:] in _MARKS


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _width(text: str) -> int:
    """Count characters, East Asian wide ones twice: they are wider, and they say more."""
    if text.isascii():
        return len(text)
    return len(text) + sum(unicodedata.east_asian_width(character) in "WF" for character in text)
