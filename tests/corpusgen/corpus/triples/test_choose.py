"""Verdicts on words: the first that nothing speaks against is chosen, and every other one has its reason."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.choose import (
    LESS_PROBABLE,
    NOT_TRIED,
    OTHER_MEANING,
    UNUSABLE,
    Criteria,
    Verdict,
    aligned_slots,
    first_choice,
    judge_in_context,
    judge_negatives,
    judge_positives,
    only_first_choice,
    positives_to_try,
    stands_for_target,
    why_keep_aligned,
    why_unusable,
    with_unusable,
)
from corpusgen.corpus.triples.contexts import SlotContext, words_around
from corpusgen.corpus.triples.slots import Candidates, Slot
from corpusgen.text.words import Tokens, tokenize

PAPER = Criteria(RuleSettings(preset="paper"), "en")
RECORD = {
    "text": "The cats slept.",
    "target": "cats",
    "target_start": 4,
    "paraphrase": "Then the cat slept.",
    "aligned_start": 9,
    "aligned_end": 12,
}


def slot(words, probabilities, cosines, criteria=PAPER, has_vector=None, row=0):
    numbers = np.array(probabilities, float), np.array(cosines, float)
    known = np.ones(len(words), bool) if has_vector is None else np.array(has_vector, bool)
    predicted = Candidates(words, *numbers, why_unusable(numbers[0], known, criteria.rules))
    context = SlotContext("cats", False, False, "the", {"the", "slept"}, max(probabilities, default=0.0), None)
    return Slot(row, RECORD["text"], (4, 8), context, predicted, predicted.usable())


def reasons(verdicts):
    return [verdict.reason for verdict in verdicts]


def verdict(word, reason=None):
    return Verdict(word, 0.5, 0.5, reason)


def test_the_first_without_a_reason_is_chosen_and_later_ones_get_one():
    verdicts = [verdict("a", "too far"), verdict("b"), verdict("c", "a name"), verdict("d")]
    assert first_choice(verdicts).word == "b"
    assert reasons(only_first_choice(verdicts)) == ["too far", None, "a name", LESS_PROBABLE]
    assert first_choice(verdicts[:1]) is None


@given(st.lists(st.booleans()))
def test_at_most_one_word_is_left_without_a_reason(fits):
    verdicts = [verdict(str(number), None if fit else "too far") for number, fit in enumerate(fits)]
    left = [one for one in only_first_choice(verdicts) if one.reason is None]
    assert left == [one for one in [first_choice(verdicts)] if one]


def test_sentences_that_are_too_unlike_are_a_reason_and_untried_words_too():
    rules = RuleSettings(context_min_cosine=0.85)
    verdicts = [verdict("a"), verdict("b", "too far"), verdict("c"), verdict("d")]
    judged = list(judge_in_context(verdicts, [0.8499, 0.85], rules))
    assert reasons(judged) == [OTHER_MEANING, "too far", None, NOT_TRIED]
    assert [one.likeness for one in judged] == [0.8499, None, 0.85, None]
    assert reasons(judge_in_context(verdicts, [None, None, None], rules)) == [None, "too far", None, None]
    assert reasons(judge_in_context(verdicts, [0.1, 0.1, 0.1], PAPER.rules)) == [None, "too far", None, None]


def test_words_that_no_rule_looks_at_keep_their_order():
    found = slot(
        ["dog", "zorb", "lion", "tiger"], [0.5, 0.2, 0.1, 0.0001], [0.1, 0.0, 0.7, 0.9], has_vector=[1, 0, 1, 1]
    )
    assert found.candidates.words == ["dog", "lion"]
    _, improbable, no_vector = UNUSABLE
    said = list(with_unusable(found, judge_negatives(found, None, (), PAPER)))
    assert [one.word for one in said] == ["dog", "zorb", "lion", "tiger"]
    assert reasons(said) == [None, no_vector, "too near", improbable]
    assert reasons(with_unusable(found, judge_positives(found, PAPER))) == ["too far", no_vector, None, improbable]


def test_only_the_first_few_words_are_tried():
    words = ["dog", "lion", "tiger", "panther", "leopard"]
    found = slot(words, [0.2] * 5, [0.1, 0.7, 0.7, 0.7, 0.7])
    assert [one.word for one in positives_to_try(found, PAPER)] == ["lion", "tiger", "panther"]


def test_a_negative_word_agrees_with_the_paraphrase_and_is_not_the_positive_one():
    criteria = Criteria(RuleSettings(preset="paper", negative_min_agreement=0.01), "en")
    found = slot(["dog", "owl", "lion"], [0.3, 0.2, 0.1], [0.1, 0.1, 0.1], criteria)
    aligned = slot(["lion", "dog"], [0.5, 0.3], [0.1, 0.1], criteria)
    said = judge_negatives(found, aligned, stands_for_target(RECORD, "Dog"), criteria)
    assert reasons(said) == ["the positive word", "does not fit the paraphrase", None]
    assert stands_for_target(RECORD, None) == {"cat"}
    assert stands_for_target({"text": "The cats slept."}, "Dog") == {"dog"}


@pytest.mark.parametrize(
    ("changed", "rules", "why"),
    [
        ({}, {}, None),
        ({}, {"enrich": False}, "enrich is off"),
        ({"target": "Cats"}, {}, "probably a name"),
        ({"aligned_start": 13, "aligned_end": 18}, {}, "does not look like"),
    ],
)
def test_an_aligned_word_stays_unless_it_looks_like_the_target(changed, rules, why):
    criteria = Criteria(RuleSettings(preset="paper", **rules), "en")
    record = {**RECORD, **changed}
    said = why_keep_aligned(record, criteria)
    assert said is None if why is None else why in said
    assert [one.row for one in aligned_slots([RECORD, record], criteria)] == [
        row for row, one in enumerate([RECORD, record]) if why_keep_aligned(one, criteria) is None
    ]


texts = st.lists(st.sampled_from(["The", "cat", "cats", ",", "(", "2nd", "well-known", "é"]), max_size=9).map(" ".join)


@given(st.lists(st.tuples(texts, st.integers(0, 40)), max_size=6))
def test_words_around_a_slot(cases):
    sentences = [text for text, _ in cases]
    tokens = tokenize(sentences).only_words(sentences)
    words = tokens.lower(sentences)
    found = list(words_around(tokens, words, np.array([start for _, start in cases], np.int64)))
    wanted = []
    for text, start in cases:
        alone = Tokens(*tokenize([text])).only_words([text])
        by_start = dict(zip(alone.starts.tolist(), alone.lower([text]), strict=True))
        before = [word for at, word in by_start.items() if at < start]
        wanted.append((before[-1] if before else "", {word for at, word in by_start.items() if at != start}))
    assert found == wanted


def test_to_choose_needs_no_model_and_no_stage():
    imported = "import sys, corpusgen.corpus.triples.choose; print([name for name in sys.modules if name in {})"
    heavy = ("torch", "transformers", "corpusgen.engine", "corpusgen.models.masked_lm", "corpusgen.models.vectors")
    code = imported.replace("{}", repr(heavy) + "]")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
