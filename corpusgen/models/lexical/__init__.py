"""Compare two words by their letters: how alike they look, and whether one fits where the other stands."""

from __future__ import annotations

import functools
from typing import Any

import snowballstemmer
from rapidfuzz.distance import Levenshtein

from corpusgen.models.lexical import english

_SNOWBALL = {
    **{"ar": "arabic", "da": "danish", "de": "german", "en": "english", "es": "spanish", "fi": "finnish"},
    **{"fr": "french", "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese"},
    **{"ro": "romanian", "ru": "russian", "sv": "swedish", "tr": "turkish"},
}


def edit_distance(a: str, b: str, substitution: int = 1) -> int:
    """Return how many characters must be inserted, deleted or replaced; a replacement counts as `substitution`."""
    return Levenshtein.distance(a, b, weights=(1, 1, substitution))


def is_function_word(word: str, language: str) -> bool:
    """Return whether a word is a known function word."""
    return language == "en" and word in english.FUNCTION_WORDS


def particles(language: str) -> frozenset[str]:
    """Return the particles that make another word of the verb before them; empty for languages other than English."""
    return english.PARTICLES if language == "en" else frozenset()


def same_kind(a: str, b: str, language: str) -> bool:
    """Return whether both words are function words, or both content words."""
    return is_function_word(a, language) == is_function_word(b, language)


def classes(word: str, language: str) -> frozenset[str]:
    """Return the parts of speech, with number and tense, that a word may be; empty for languages other than English."""
    return english.classes(word) if language == "en" else frozenset()


def article_fits(before: str, word: str, language: str) -> bool:
    """Return whether a word can follow an article of this form."""
    return language != "en" or english.article_fits(before, word)


def stem(word: str, language: str) -> str:
    """Return the Snowball stem, or the word itself if the language has no stemmer."""
    return _stem(word, language) if language in _SNOWBALL else word


@functools.lru_cache(1 << 16)
def _stem(word: str, language: str) -> str:
    return str(_stemmer(language).stemWord(word))


@functools.cache
def _stemmer(language: str) -> Any:
    return snowballstemmer.stemmer(_SNOWBALL[language])
