"""The context of a slot, and whether a predicted word fits there, whatever it means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusgen.config.rules import RuleSettings
from corpusgen.models.lexical import article_fits, classes, is_function_word, stem
from corpusgen.text.words import Tokens


@dataclass(frozen=True)
class SlotContext:
    """The context of a slot, the position of the target or of the word that stands for it; all in lower case."""

    target: str
    name: bool
    """Whether the target is probably (part of) a name."""
    abbreviation: bool
    """Whether the target is written in capitals: NATO, VIII, S."""
    before: str
    """The word before the slot, if there is one."""
    others: Collection[str]
    """All other words of the sentence."""
    best: float
    """The probability of the most probable word in the slot."""
    word_class: str | None
    """The part of speech, number and tense that fit the slot; None if unknown."""
    in_paraphrase: Mapping[str, float] | None = None
    """The probabilities of words in the slot of the aligned word; None if the masked LM was not asked about it."""
    positives: Collection[str] = ()
    """The words, case-folded, that stand for the target in the positive sentence and in the paraphrase."""


def words_around(
    tokens: Tokens, words: Sequence[str], slot_starts: npt.NDArray[np.int64]
) -> Iterator[tuple[str, set[str]]]:
    """Yield, for each text, the word before its slot, or "" if there is none, and all words except that of the slot.

    `tokens` are the words alone, without punctuation, and `words` their surfaces.
    """
    rows, firsts = tokens.rows, tokens.firsts
    before = np.bincount(rows[tokens.starts < slot_starts[rows]], minlength=len(firsts))
    not_after = np.bincount(rows[tokens.starts <= slot_starts[rows]], minlength=len(firsts))
    bounds = (firsts, firsts + before, firsts + not_after, firsts + tokens.counts)
    for first, own, after, stop in zip(*(bound.tolist() for bound in bounds), strict=True):
        yield (words[own - 1] if own > first else ""), {*words[first:own], *words[after:stop]}


def is_name(target: str, start: int) -> bool:
    """Return whether a target is probably a name, which no word can stand for: it has a capital inside a sentence."""
    return start > 0 and target[:1].isupper()


def class_of_slot(
    target: str, words: Sequence[str], probabilities: npt.NDArray[np.float64], language: str
) -> str | None:
    """Return which of its possible classes the target has in this sentence: that of most words predicted there.

    Each word predicted in the slot votes with its probability, divided among its possible classes.
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


def unfit(word: str, context: SlotContext, rules: RuleSettings, names: Mapping[str, bool], language: str) -> str | None:
    """Return why a word, in lower case, does not fit; None if it does.

    `names` says for each word of the corpus's vocabulary whether it is mostly capitalized.
    """
    if rules.same_kind and is_function_word(context.target, language):
        return "the target is a function word"
    if rules.in_vocabulary:
        if context.abbreviation:
            return "the target is an abbreviation"
        if word not in names:
            return "not in the vocabulary"
        if names[word] != context.name:
            return "no name" if context.name else "a name"
    if rules.same_kind and is_function_word(word, language):
        return "a function word"
    if rules.same_class:
        if context.word_class and not context.name and context.word_class not in classes(word, language):
            return "another part of speech, number or tense"
        if not article_fits(context.before, word, language):
            return "another article"
    if rules.unrepeated and stem(word, language) in {stem(other, language) for other in context.others}:
        return "repeats a word"
    return None
