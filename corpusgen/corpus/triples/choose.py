"""Rules for choosing words: from tables of words, cosines and probabilities to verdicts with reasons.

This module loads no model, and reads and writes nothing. The stages ask the models and take the word without a
reason against it; `corpusgen explain` shows the same verdicts. So every rule is stated once.

Shapes: P pairs, A words of all sentences in a row, C candidates for a slot, D dimensions.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.align import JudgedPairs, Sentences, judge_by_cosine, judge_by_score
from corpusgen.corpus.triples.contexts import is_name
from corpusgen.corpus.triples.negatives import largest_cosine, why_not_negative
from corpusgen.corpus.triples.positives import looks_like, match_case, why_not_positive
from corpusgen.corpus.triples.slots import Slot
from corpusgen.models.lexical import same_kind
from corpusgen.text.words import Tokens

LESS_PROBABLE = "would do, but is less probable"
NOT_TRIED = "not tried: enough others would do"
OTHER_MEANING = "the sentence says something else with it"
UNUSABLE = ("", "improbable", "has no vector of its own, or is not written as it would be here")
"""Why no rule considers a predicted word, indexed by the numbers from `why_unusable`."""

_IMPROBABLE, _NO_VECTOR = 1, 2
_MOST_TRIED = 3  # predicted words that the masked LM compares in context


@dataclass(frozen=True)
class Criteria:
    """The criteria for choosing words: the rules, the language, and which words of the corpus are names."""

    rules: RuleSettings
    language: str
    names: Mapping[str, bool] = field(default_factory=dict)
    """For each word of the corpus's vocabulary, in lower case, whether it is mostly capitalized."""


class Verdict(NamedTuple):
    """A predicted word and why it is passed over; None if nothing speaks against it."""

    word: str
    probability: float
    cosine: float
    reason: str | None
    likeness: float | None = None
    """How alike the masked LM finds the sentence with this word in it, if it was asked."""


def first_choice(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the most probable word that nothing speaks against."""
    return next((verdict for verdict in verdicts if verdict.reason is None), None)


def only_first_choice(verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield the verdicts, with a reason for each word after the first choice that would do as well."""
    chosen = False
    for verdict in verdicts:
        yield verdict._replace(reason=LESS_PROBABLE) if chosen and verdict.reason is None else verdict
        chosen = chosen or verdict.reason is None


# ------------------------------------------------------------------------------- alignment


class WordTable(NamedTuple):
    """Many sentences: where their words are, without punctuation, the words in lower case, and their vectors (A, D)."""

    texts: Sequence[str]
    tokens: Tokens
    words: Sequence[str]
    vectors: npt.NDArray[np.float32]

    def written(self) -> list[str]:
        """Return the words as the sentences have them."""
        words: list[str] = self.tokens.surfaces(pa.array(self.texts, pa.string())).to_pylist()
        return words


class Pairs(NamedTuple):
    """Originals and paraphrases to align, and the index of each target among the words of its original (P,)."""

    originals: WordTable
    paraphrases: WordTable
    targets: npt.NDArray[np.int64]


def judge_alignment(pairs: Pairs, criteria: Criteria) -> Iterator[JudgedPairs]:
    """Judge each word of the paraphrases, some pairs at a time, with the aligner that the rules name."""
    rules = criteria.rules
    originals, paraphrases = (Sentences(side.vectors, side.tokens.counts) for side in pairs[:2])
    if rules.aligner == "cosine":
        allowed = _of_the_same_kind(pairs, criteria) if rules.same_kind else None
        return judge_by_cosine(originals, pairs.targets, paraphrases, rules.align_min_cosine, allowed)
    alike = _looking_like_targets(pairs, criteria)
    return judge_by_score(originals, pairs.targets, paraphrases, rules.align_max_score, alike)


def _targets_of_words(pairs: Pairs) -> list[str]:
    """Return, for each word of the paraphrases, the target of its pair."""
    words, tokens = pairs.originals.words, pairs.originals.tokens
    targets = [words[index] for index in (tokens.firsts + pairs.targets).tolist()]
    return [targets[row] for row in pairs.paraphrases.tokens.rows.tolist()]


def _of_the_same_kind(pairs: Pairs, criteria: Criteria) -> npt.NDArray[np.bool_]:
    words, targets = pairs.paraphrases.words, _targets_of_words(pairs)
    return np.fromiter(map(same_kind, words, targets, itertools.repeat(criteria.language)), bool, len(words))


def _looking_like_targets(pairs: Pairs, criteria: Criteria) -> npt.NDArray[np.bool_]:
    words, targets = pairs.paraphrases.words, _targets_of_words(pairs)
    rules, language = itertools.repeat(criteria.rules), itertools.repeat(criteria.language)
    return np.fromiter(map(looks_like, words, targets, rules, language), bool, len(words))


# ------------------------------------------------------------------------------- predicted words


def why_keep_aligned(record: Mapping[str, Any], criteria: Criteria) -> str | None:
    """Return why the aligned word is the positive one; None if it looks like the target: another would teach more."""
    if not criteria.rules.enrich:
        return "the aligned word stays: rules.enrich is off"
    if is_name(record["target"], record["target_start"]):
        return "the aligned word stays: the target is probably a name"
    if not _aligned_looks_like_target(record, criteria):
        return "the aligned word stays: it does not look like the target"
    return None


def is_another_word(record: Mapping[str, Any], criteria: Criteria) -> bool:
    """Return whether the aligned word is another word than the target, which no word is for a name."""
    return (
        record["aligned_start"] is not None
        and not is_name(record["target"], record["target_start"])
        and not _aligned_looks_like_target(record, criteria)
    )


def _aligned_looks_like_target(record: Mapping[str, Any], criteria: Criteria) -> bool:
    word = record["paraphrase"][record["aligned_start"] : record["aligned_end"]]
    return looks_like(word, record["target"], criteria.rules, criteria.language)


def aligned_slots(records: Sequence[Mapping[str, Any]], criteria: Criteria) -> list[Slot]:
    """Return the slots of aligned words that the masked LM is asked about: for another word, or for agreement."""
    return [
        Slot(row, record["paraphrase"], (record["aligned_start"], record["aligned_end"]))
        for row, record in enumerate(records)
        if criteria.rules.negative_min_agreement or why_keep_aligned(record, criteria) is None
    ]


def slots_of_positives(
    originals: Sequence[Slot], aligned: Mapping[int, Slot], records: Sequence[Mapping[str, Any]], criteria: Criteria
) -> Sequence[Slot]:
    """Return the slots to find a positive word for; of paraphrases, only those whose aligned word is replaced."""
    return [
        aligned[slot.row] if "paraphrase" in record else slot
        for slot, record in zip(originals, records, strict=True)
        if "paraphrase" not in record or why_keep_aligned(record, criteria) is None
    ]


def written_as_there(slot: Slot, words: Iterable[str]) -> Iterator[bool]:
    """Yield, for each word of a cased model, whether it is written as it would be in the slot."""
    surface = slot.surface
    return (word == match_case(word, surface) for word in words)


def why_unusable(
    probabilities: npt.NDArray[np.float64], has_vector: npt.NDArray[np.bool_], rules: RuleSettings
) -> npt.NDArray[np.uint8]:
    """Return why no rule considers each predicted word (C,), as an index into `UNUSABLE`; 0 if the rules do.

    The rules consider words that have a vector of their own, down to the lowest probability that any rule accepts. A
    word of a cased model must also be written as it would be in that slot: otherwise its probability is not its own.
    """
    unknown = np.where(has_vector, 0, _NO_VECTOR)
    return np.where(probabilities >= rules.least_probability, unknown, _IMPROBABLE).astype(np.uint8)


def with_unusable(slot: Slot, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Add the predicted words that no rule considers, in their order, to the verdicts on all candidates of a slot."""
    judged = iter(verdicts)
    for (word, probability, cosine), why in zip(slot.predicted.each(), slot.predicted.unusable.tolist(), strict=True):
        yield Verdict(word, probability, cosine, UNUSABLE[why]) if why else next(judged)


def judge_positives(slot: Slot, criteria: Criteria) -> Iterator[Verdict]:
    """Judge whether each candidate can stand for the target, as far as words alone can tell."""
    assert slot.context
    rules, names, language = criteria.rules, criteria.names, criteria.language
    for word, probability, cosine in slot.candidates.each():
        reason = why_not_positive(word, slot.context, cosine, probability, rules, names, language)
        yield Verdict(word, probability, cosine, reason)


def positives_to_try(slot: Slot, criteria: Criteria) -> list[Verdict]:
    """Return the first few candidates that nothing speaks against, whose sentences the masked LM will compare."""
    possible = (verdict for verdict in judge_positives(slot, criteria) if verdict.reason is None)
    return list(itertools.islice(possible, _MOST_TRIED))


def judge_in_context(
    verdicts: Iterable[Verdict], likeness: Iterable[float | None], rules: RuleSettings
) -> Iterator[Verdict]:
    """Judge the words that nothing spoke against by how alike the sentences with either word are.

    `likeness` has a value for each word that was tried; None means that any sentence is alike enough.
    """
    answers, least = iter(likeness), rules.context_min_cosine
    for verdict in verdicts:
        if verdict.reason is not None:
            yield verdict
            continue
        for answer in answers:
            too_unlike = answer is not None and least is not None and not answer >= least
            yield verdict._replace(likeness=answer, reason=OTHER_MEANING if too_unlike else None)
            break
        else:
            yield verdict._replace(reason=NOT_TRIED)


def stands_for_target(record: Mapping[str, Any], positive: str | None) -> frozenset[str]:
    """Return the aligned word and the positive word, if one was found: neither can be the negative word."""
    words = [positive] if positive else []
    if "paraphrase" in record:
        words.append(record["paraphrase"][record["aligned_start"] : record["aligned_end"]])
    return frozenset(word.casefold() for word in words)


def judge_negatives(
    slot: Slot, aligned: Slot | None, positives: Collection[str], criteria: Criteria
) -> Iterator[Verdict]:
    """Judge whether each candidate can be the negative word.

    `aligned` is the slot in the paraphrase, if the masked LM was asked about it; `positives` are the words from
    `stands_for_target`.
    """
    assert slot.context
    rules, names, language = criteria.rules, criteria.names, criteria.language
    agreed = {word: probability for word, probability, _ in aligned.candidates.each()} if aligned else None
    context = replace(slot.context, in_paraphrase=agreed, positives=positives)
    words, probabilities, cosines, _ = slot.candidates
    largest = largest_cosine(words, cosines, probabilities, context.target, rules)
    for word, probability, cosine in slot.candidates.each():
        reason = why_not_negative(word, context, cosine, probability, largest, rules, names, language)
        yield Verdict(word, probability, cosine, reason)
