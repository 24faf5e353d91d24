"""The rule for positive words: a word that can stand for the target in the positive sentence."""

from __future__ import annotations

from collections.abc import Mapping

from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.contexts import SlotContext, unfit
from corpusgen.models.lexical import edit_distance, stem


def looks_like(word: str, target: str, rules: RuleSettings, language: str) -> bool:
    """Return whether two words have such similar letters that the pair teaches little."""
    word, target = word.lower(), target.lower()
    most = rules.similar_edit_distance
    if rules.substitution_cost == 2 and min(len(word), len(target)) <= 3:
        most = min(most, 2)  # in a short word, three letters are the whole word
    return edit_distance(word, target, rules.substitution_cost) <= most or (
        rules.same_stem and stem(word, language) == stem(target, language)
    )


def why_not_positive(
    word: str,
    context: SlotContext,
    cosine: float,
    probability: float,
    rules: RuleSettings,
    names: Mapping[str, bool],
    language: str,
) -> str | None:
    """Return why a predicted word, in lower case, cannot stand for the target; None if it can."""
    if context.name:
        return "the target is a name"
    if probability < rules.enrich_min_probability:
        return "improbable"
    if cosine < rules.enrich_min_cosine:
        return "too far"
    if looks_like(word, context.target, rules, language):
        return "looks like the target"
    return unfit(word, context, rules, names, language)


def match_case(word: str, like: str) -> str:
    """Write a word in the case of another: in capitals, capitalized, or in lower case."""
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word[:1].upper() + word[1:].lower() if like[:1].isupper() else word.lower()
