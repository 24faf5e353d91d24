"""Where a predicted word would stand, and whether it fits there, whatever it means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusgen.config.rules import RuleSettings
from corpusgen.models.lexical import article_fits, classes, is_function_word, stem


@dataclass(frozen=True)
class Place:
    """The place of the target, or of the word that stands for it, in a sentence; all words in lower case."""

    target: str
    name: bool
    """Whether the target is probably (part of) a name."""
    abbreviation: bool
    """Whether the target is written in capitals: NATO, VIII, S."""
    before: str
    """The word before the place, if there is one."""
    others: Collection[str]
    """All other words of the sentence."""
    best: float
    """The probability of the most probable word there."""
    word_class: str | None
    """The part of speech, number and tense wanted there; None if nothing is known."""
    elsewhere: Mapping[str, float] | None = None
    """The probabilities of words in the place that stands for this one in the paraphrase; None if there is none."""
    positives: Collection[str] = ()
    """The words, case-folded, that stand for the target in the positive sentence and in the paraphrase."""


def is_name(target: str, start: int) -> bool:
    """Whether a target is probably a name, which nothing can stand for: a capital that no sentence begins with."""
    return start > 0 and target[:1].isupper()


def class_of_place(
    target: str, words: Sequence[str], probabilities: npt.NDArray[np.float64], language: str
) -> str | None:
    """What the target is in this sentence, of the classes it may be: that of most of the words predicted there.

    Each word predicted in its place votes with its probability, divided among the classes that it may be.
    """
    possible = classes(target, language)
    if len(possible) <= 1:
        return next(iter(possible), None)
    votes = defaultdict(float, dict.fromkeys(possible, 0.0))
    for word, probability in zip(words, probabilities.tolist(), strict=True):
        of_word = classes(word.lower(), language)
        for word_class in of_word & possible:
            votes[word_class] += probability / len(of_word)
    return max(sorted(votes), key=votes.__getitem__)


def unfit(word: str, place: Place, rules: RuleSettings, names: Mapping[str, bool], language: str) -> str | None:
    """Why a word, in lower case, does not fit; None if it does.

    `names` says of each word of the corpus' vocabulary whether it is mostly written with a capital.
    """
    if rules.same_kind and is_function_word(place.target, language):
        return "the target is a function word"
    if rules.in_vocabulary:
        if place.abbreviation:
            return "the target is an abbreviation"
        if word not in names:
            return "not in the vocabulary"
        if names[word] != place.name:
            return "no name" if place.name else "a name"
    if rules.same_kind and is_function_word(word, language):
        return "a function word"
    if rules.same_class:
        if place.word_class and not place.name and place.word_class not in classes(word, language):
            return "another part of speech, number or tense"
        if not article_fits(place.before, word, language):
            return "another article"
    if rules.unrepeated and stem(word, language) in {stem(other, language) for other in place.others}:
        return "repeats a word"
    return None
