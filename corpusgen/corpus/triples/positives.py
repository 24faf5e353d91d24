"""The word that stands for the target in the positive sentence: aligned, or predicted if that one looks like it."""

from __future__ import annotations

from collections.abc import Mapping

from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.contexts import Place, unfit
from corpusgen.models.lexical import edit_distance, stem


def looks_like(word: str, target: str, rules: RuleSettings, language: str) -> bool:
    """Whether two words are so near by their letters that the pair teaches little."""
    word, target = word.lower(), target.lower()
    most = rules.similar_edit_distance
    if rules.substitution_cost == 2 and min(len(word), len(target)) <= 3:
        most = min(most, 2)  # of a short word three letters are the whole word
    return edit_distance(word, target, rules.substitution_cost) <= most or (
        rules.same_stem and stem(word, language) == stem(target, language)
    )


def why_not_positive(
    word: str,
    place: Place,
    cosine: float,
    probability: float,
    rules: RuleSettings,
    names: Mapping[str, bool],
    language: str,
) -> str | None:
    """Why a predicted word, in lower case, cannot stand for the target; None if it can."""
    if place.name:
        return "the target is a name"
    if probability < rules.enrich_min_probability:
        return "improbable"
    if cosine < rules.enrich_min_cosine:
        return "too far"
    if looks_like(word, place.target, rules, language):
        return "looks like the target"
    return unfit(word, place, rules, names, language)


def match_case(word: str, like: str) -> str:
    """The word written as the other one is: in capitals, with a capital, or in lower case."""
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word[:1].upper() + word[1:].lower() if like[:1].isupper() else word.lower()
