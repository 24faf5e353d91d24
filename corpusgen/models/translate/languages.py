"""Find the vocabulary tokens that tell a multilingual model its source and target language."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from corpusgen.config.translator import TranslatorSettings
from corpusgen.errors import StageError, closest

# The forms of a language token: NLLB's, M2M100's, and OPUS-MT's.
_BOTH_SIDES = {"{}": re.compile(r"[a-z]{3}_[A-Z][a-z]{3}"), "__{}__": re.compile(r"__[a-z]{2,3}__")}
_SOURCE_SIDE = ">>{}<<", re.compile(r">>.+<<")


class LanguageTokens(NamedTuple):
    """The tokens before the source, and those that the target must begin with."""

    source: list[str]
    target: list[str]


def language_tokens(vocabulary: Collection[str], settings: TranslatorSettings) -> LanguageTokens:
    """Return the tokens for the languages in the settings; none for a bilingual model."""
    for form, pattern in _BOTH_SIDES.items():
        if known := _matching(pattern, vocabulary):
            source = _token("source", settings.source, form, known, settings.model)
            return LanguageTokens([source], [_token("target", settings.target, form, known, settings.model)])
    form, pattern = _SOURCE_SIDE
    if known := _matching(pattern, vocabulary):
        return LanguageTokens([_token("target", settings.target, form, known, settings.model)], [])
    return LanguageTokens([], [])


def _matching(pattern: re.Pattern[str], vocabulary: Collection[str]) -> list[str]:
    """Return the matching tokens if there are at least two: one alone might be a word of the training text."""
    found = sorted(token for token in vocabulary if pattern.fullmatch(token))
    return found if len(found) > 1 else []


def _token(field: str, code: str | None, form: str, known: Collection[str], model: str | None) -> str:
    for token in (form.format(code), code):
        if token in known:
            return str(token)
    before, after = form.split("{}")
    codes = [token.removeprefix(before).removesuffix(after) for token in known]
    some = ", ".join(closest(code or "", codes, most=5, likeness=0.4) or codes[:8])
    problem = f"the model does not know the language {code!r}" if code else f"the model has {len(codes)} languages"
    raise StageError(f"{model}: {problem}; set {field} to one of {some}…")
