"""The reasons why each word considered was chosen or passed over, from the same functions that choose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from corpusgen.corpus.triples.align import JudgedPairs, Passed
from corpusgen.corpus.triples.choose import (
    Pairs,
    Verdict,
    judge_in_context,
    judge_negatives,
    judge_positives,
    only_first_choice,
    stands_for_target,
    why_keep_aligned,
    with_unusable,
)
from corpusgen.corpus.triples.stages import MakeTriples
from corpusgen.io.terminal import marked

CHOSEN = "chosen"
_PASSED: Mapping[int, str] = {
    Passed.NOT: CHOSEN,
    Passed.TOO_FAR: "too far",
    Passed.OTHER_KIND: "a function word for a content word, or the reverse",
    Passed.TAKEN: "taken by {taker!r}",
    Passed.LESS_SIMILAR: "less similar than the one chosen",
    Passed.ANOTHER_LOOKS_ALIKE: "another one looks like the target",
    Passed.STANDS_FARTHER: "looks like the target, but stands farther away",
}
_DECIMALS = 5


@dataclass(frozen=True)
class AlignedWord:
    """A word of the paraphrase. `score` is from the zscore aligner; `taken_by` is another word of the original."""

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
    """A slot and the words predicted for it; `note` says why there are none."""

    place: str
    """The sentence, with the word of the slot in brackets. Readers of `explain --json` know it by this name."""
    note: str | None
    candidates: Sequence[Candidate]

    @property
    def chosen(self) -> Candidate | None:
        """Return the word that was chosen, if any."""
        return next((candidate for candidate in self.candidates if candidate.verdict == CHOSEN), None)


def alignment_of(pairs: Pairs, judged: JudgedPairs) -> list[AlignedWord]:
    """Return, for a single pair, how near each word of the paraphrase is to the target, and what became of it."""
    originals, words = pairs.originals.written(), pairs.paraphrases.written()
    cosines = judged.cosines[0, judged.targets[0]].round(_DECIMALS).tolist()
    scores = [None] * len(words) if judged.scores is None else judged.scores[0].tolist()
    found = []
    for index, (word, start) in enumerate(zip(words, pairs.paraphrases.tokens.starts.tolist(), strict=True)):
        taker = originals[judged.takers[0, index]] if judged.takers[0, index] >= 0 else None
        score = scores[index]
        found.append(
            AlignedWord(
                word=word,
                start=start,
                cosine=cosines[index],
                score=score if score is not None and math.isfinite(score) else None,
                taken_by=taker,
                verdict=_PASSED[judged.reasons[0, index]].format(taker=taker),
            )
        )
    return found


def choices_of(stage: MakeTriples, row: pa.Table) -> tuple[Choice, Choice]:
    """Return, for a single row, the candidates for its positive and for its negative word."""
    (record,) = records = row.to_pylist()
    (slot,), aligned, tried = stage.ask(row, records)
    criteria = stage.criteria
    if found := tried.get(0):
        judged = judge_in_context(judge_positives(found.slot, criteria), found.likeness, criteria.rules)
        shown = marked(found.slot.text, *found.slot.span)
        positive = Choice(shown, found.slot.problem, _candidates(with_unusable(found.slot, judged)))
    else:
        shown = marked(record["paraphrase"], record["aligned_start"], record["aligned_end"])
        positive = Choice(shown, why_keep_aligned(record, criteria), ())
    words = stands_for_target(record, positive.chosen.word if positive.chosen else None)
    judged = judge_negatives(slot, aligned.get(0), words, criteria)
    return positive, Choice(marked(slot.text, *slot.span), slot.problem, _candidates(with_unusable(slot, judged)))


def _candidates(verdicts: Iterable[Verdict]) -> list[Candidate]:
    return [
        Candidate(word, probability, cosine, likeness, reason or CHOSEN)
        for word, probability, cosine, reason, likeness in only_first_choice(verdicts)
    ]
