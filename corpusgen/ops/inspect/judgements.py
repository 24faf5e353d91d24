"""Every word that came into question, and why it was chosen or passed over: said by the stages that choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.align import Scores, Sentences, all_cosines, standard_score, taken_by
from corpusgen.corpus.triples.contexts import is_name
from corpusgen.corpus.triples.slots import Judged, Slot
from corpusgen.corpus.triples.stages import AlignTargets, MakeTriples, stands_for_target
from corpusgen.io.terminal import marked

CHOSEN = "chosen"
LATER = "would do, but is less probable"
NOT_TRIED = "not tried: enough others would do"
OTHER_MEANING = "the sentence says something else with it"
NO_VECTOR = "has no vector of its own, or is not written as it would be here"
_DECIMALS = 5


@dataclass(frozen=True)
class AlignedWord:
    """A word of the paraphrase. `score` is that of the zscore aligner; `taken_by` another word of the original."""

    word: str
    start: int
    cosine: float
    score: float | None
    taken_by: str | None
    verdict: str


@dataclass(frozen=True)
class Candidate:
    """A predicted word. `likeness`: cosine of the masked LM's states of the target and of this word in its place."""

    word: str
    probability: float
    cosine: float
    likeness: float | None
    verdict: str


@dataclass(frozen=True)
class Choice:
    """A place, with its word in brackets, and what was predicted for it; `note` says why nothing was."""

    place: str
    note: str | None
    candidates: Sequence[Candidate]

    @property
    def chosen(self) -> Candidate | None:
        """The word that was taken, if any."""
        return next((candidate for candidate in self.candidates if candidate.verdict == CHOSEN), None)


def alignment_of(stage: AlignTargets, row: pa.Table, aligned_start: int | None) -> list[AlignedWord]:
    """Of one row: how near each word of the paraphrase is to the target; `aligned_start` is what the stage chose."""
    pairs = stage.pairs(row)
    rules = stage.rules
    text, paraphrase = row["text"][0].as_py(), row["paraphrase"][0].as_py()
    originals, words = pairs.originals, pairs.paraphrases
    count = len(words.words)
    cosines = all_cosines(
        Sentences(pairs.of_originals, originals.counts), Sentences(pairs.of_paraphrases, words.counts)
    )
    takers = taken_by(cosines, pairs.targets)[0, :count].tolist()
    of_target = cosines[0, pairs.targets[0], :count].round(_DECIMALS)
    scores: Scores = standard_score(cosines, pairs.targets)[0, :count]
    marks = np.ones(count, bool) if pairs.marks is None else pairs.marks
    judge = _judge_by_cosine if rules.aligner == "cosine" else _judge_by_score
    found = []
    for index in range(count):
        start, taker = int(words.starts[index]), takers[index]
        by = text[originals.starts[taker] : originals.ends[taker]] if taker >= 0 else None
        verdict = judge(float(of_target[index]), float(scores[index]), by, bool(marks[index]), bool(marks.any()), rules)
        found.append(
            AlignedWord(
                word=paraphrase[start : int(words.ends[index])],
                start=start,
                cosine=float(of_target[index]),
                score=float(scores[index]) if rules.aligner == "zscore" and np.isfinite(scores[index]) else None,
                taken_by=by,
                verdict=CHOSEN if start == aligned_start else verdict,
            )
        )
    return found


def _judge_by_cosine(
    cosine: float, score: float, taker: str | None, allowed: bool, any_allowed: bool, rules: RuleSettings
) -> str:
    """Which of the conditions of `align` a word fails; if none, another one was nearer."""
    if cosine < rules.align_min_cosine:
        return "too far"
    if not allowed:
        return "a function word for a content word, or the reverse"
    return f"taken by {taker!r}" if taker else "less similar than the one chosen"


def _judge_by_score(
    cosine: float, score: float, taker: str | None, alike: bool, any_alike: bool, rules: RuleSettings
) -> str:
    """The same of `align_zscore`."""
    if any_alike:
        return "looks like the target, but stands farther away" if alike else "another one looks like the target"
    if score > rules.align_max_score:
        return "too far"
    return f"taken by {taker!r}" if taker else "less similar than the one chosen"


def choices_of(stage: MakeTriples, row: pa.Table) -> tuple[Choice, Choice]:
    """Of one row: the candidates for its positive and for its negative word."""
    records = row.to_pylist()
    round_trip = "paraphrase" in row.column_names
    rules = stage.rules
    slots, aligned = stage.slots(records, round_trip)
    slot, record = slots[0], records[0]
    of_positives = stage.slots_of_positives(slots, aligned, records, round_trip)
    if of_positives:
        place = of_positives[0]
        tried = [likeness for _, _, likeness in stage.tried_positives(of_positives, records)]
        positives = list(_tried(stage, list(_judged(place, stage.judged_positives(place), rules)), tried))
        positive = Choice(marked(place.text, *place.span), place.problem, _first_chosen(positives))
    else:
        aligned_word = marked(record["paraphrase"], record["aligned_start"], record["aligned_end"])
        positive = Choice(aligned_word, _why_not_asked(record, rules), ())
    predicted = {"positive_word": positive.chosen.word} if positive.chosen else None
    stand = stands_for_target(record, predicted)
    negatives = list(_judged(slot, stage.judged_negatives(slot, aligned.get(0), stand), rules))
    return positive, Choice(marked(slot.text, *slot.span), slot.problem, _first_chosen(negatives))


def _why_not_asked(record: dict[str, Any], rules: RuleSettings) -> str:
    if not rules.enrich:
        return "the aligned word stays: rules.enrich is off"
    if is_name(record["target"], record["target_start"]):
        return "the aligned word stays: the target is probably a name"
    return "the aligned word stays: it does not look like the target"


def _judged(slot: Slot, judged: Iterator[Judged], rules: RuleSettings) -> Iterator[Candidate]:
    """All words that were predicted, with those that no rule was asked about in their places."""
    if slot.seen is None:
        return
    of_rules = dict(zip(slot.seen.kept.tolist(), judged, strict=True))
    for index, word in enumerate(slot.seen.words):
        probability, cosine = float(slot.seen.probabilities[index]), float(slot.seen.cosines[index])
        if index in of_rules:
            verdict = of_rules[index].problem or LATER
        else:
            verdict = "improbable" if probability < rules.least_probability else NO_VECTOR
        yield Candidate(word, probability, cosine, None, verdict)


def _tried(
    stage: MakeTriples, candidates: Sequence[Candidate], likeness: Sequence[float | None]
) -> Iterator[Candidate]:
    """With what came of those that the masked LM was asked about again."""
    answers = list(likeness)
    for candidate in candidates:
        if candidate.verdict != LATER:
            yield candidate
        elif not answers:
            yield replace(candidate, verdict=NOT_TRIED)
        else:
            answer = answers.pop(0)
            verdict = LATER if stage.says_the_same(answer) else OTHER_MEANING
            yield replace(candidate, likeness=answer, verdict=verdict)


def _first_chosen(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The first that would do is the one that is taken."""
    first = next((index for index, candidate in enumerate(candidates) if candidate.verdict == LATER), None)
    return [
        replace(candidate, verdict=CHOSEN) if index == first else candidate
        for index, candidate in enumerate(candidates)
    ]
