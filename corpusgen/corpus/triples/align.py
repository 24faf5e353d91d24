"""Alignment of targets with words of a paraphrase: Algorithm 4.1 of Arase & Kajiwara 2021, over many pairs.

Shapes: P pairs, O words of an original, W words of a paraphrase, A words of all sentences in a row, D dimensions.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Reasons = npt.NDArray[np.uint8]

_PAIRS_AT_ONCE = 32
# Vectors are rounded to this many binary digits after the point: then sums of their products fit into a float64
# exactly, and the same two words have the same cosine to the bit, wherever they are and in whatever order a machine
# adds up. So ties are ties, and the first of them wins.
_BINARY_DIGITS = 25
_DECIMALS = 5  # of values that are compared with a threshold


class Passed(enum.IntEnum):
    """Reasons to pass over a word of the paraphrase. The aligned word is the one without such a reason."""

    NOT = 0
    TOO_FAR = enum.auto()
    OTHER_KIND = enum.auto()
    TAKEN = enum.auto()
    LESS_SIMILAR = enum.auto()
    ANOTHER_LOOKS_ALIKE = enum.auto()
    STANDS_FARTHER = enum.auto()


class Sentences(NamedTuple):
    """The words of many sentences: their vectors (A, D), of unit length, and the number of words in each (P,)."""

    vectors: Floats
    counts: Ints


class Alignment(NamedTuple):
    """For each pair, the index of the aligned word in the paraphrase, or -1 if there is none, and its cosine."""

    word: Ints
    cosine: Floats


class JudgedPairs(NamedTuple):
    """Some pairs, and the judgement of each word of their paraphrases: (P, W).

    Shorter sentences are padded: with -inf in `cosines`, and with words that are too far.
    """

    targets: Ints
    """Index of each target among the words of its original."""
    cosines: Scores
    """Cosines of all words: (P, O, W)."""
    takers: Ints
    """The other word of the original whose mutual best match a word is; -1 if there is none."""
    scores: Scores | None
    """The standard scores, if the rule uses them."""
    reasons: Reasons
    """Why each word was passed over, as values of `Passed`."""


def judge_by_cosine(
    originals: Sentences, targets: Ints, paraphrases: Sentences, threshold: float, allowed: Mask | None = None
) -> Iterator[JudgedPairs]:
    """Judge each word of the paraphrases by Algorithm 4.1, for the word `targets[i]` of each original.

    The aligned word is the one most similar to the target, by at least `threshold`, that is not taken: not the mutual
    best match of another word of the original. `allowed` marks the words of the paraphrases to consider at all.
    """

    def rule(cosines: Scores, targets: Ints, takers: Ints, in_question: Mask) -> _Ranked:
        of_target = _of_target(cosines, targets)
        reasons = _first_reason(
            (~(of_target.round(_DECIMALS) >= threshold), Passed.TOO_FAR),
            (~in_question, Passed.OTHER_KIND),
            (takers >= 0, Passed.TAKEN),
        )
        return _Ranked(reasons, of_target, Passed.LESS_SIMILAR)

    if allowed is None:
        allowed = np.ones(len(paraphrases.vectors), bool)
    return _judge(originals, targets, paraphrases, allowed, rule)


def judge_by_score(
    originals: Sentences, targets: Ints, paraphrases: Sentences, threshold: float = -1.0, alike: Mask | None = None
) -> Iterator[JudgedPairs]:
    """Judge by the rule of the paper's published code: letters first, then distances relative to other words.

    `alike` marks the words of the paraphrases that look like the target; the one nearest to the target's position is
    chosen. If there is none, a word is a candidate if the target is unusually near to it: its distance to the
    target, as a standard score among its distances to all words of the original, is at most `threshold`. Of the
    candidates that are not taken, the one with the lowest score is chosen.
    """

    def rule(cosines: Scores, targets: Ints, takers: Ints, alike: Mask) -> _Ranked:
        scores = standard_score(cosines, targets)
        displacement = np.abs(np.arange(cosines.shape[2]) - targets[:, None])
        by_letters = alike.any(1, keepdims=True)
        reasons = _first_reason(
            (by_letters & ~alike, Passed.ANOTHER_LOOKS_ALIKE),
            (~by_letters & ~(scores <= threshold), Passed.TOO_FAR),
            (~by_letters & (takers >= 0), Passed.TAKEN),
        )
        lower_ranked = np.where(by_letters, Passed.STANDS_FARTHER, Passed.LESS_SIMILAR)
        return _Ranked(reasons, -np.where(by_letters, displacement, scores), lower_ranked, scores)

    if alike is None:
        alike = np.zeros(len(paraphrases.vectors), bool)
    return _judge(originals, targets, paraphrases, alike, rule)


def chosen_words(judged: Iterable[JudgedPairs]) -> Alignment:
    """Return the word of each pair that has no reason against it."""
    words, cosines = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for some in judged:
        chosen = some.reasons == Passed.NOT
        found, word = chosen.any(1), chosen.argmax(1)
        cosine = some.cosines[np.arange(len(word)), some.targets, word].round(_DECIMALS)
        words.append(np.where(found, word, -1))
        cosines.append(np.where(found, cosine, np.nan).astype(np.float32))
    return Alignment(np.concatenate(words), np.concatenate(cosines))


def taken_by(cosines: Scores, targets: Ints) -> Ints:
    """Return, for each word of the paraphrase, the other word of the original whose mutual best match it is, or -1.

    `cosines` are (P, O, W), with -inf where a sentence is shorter.
    """
    best_of_original, best_of_paraphrase = cosines.argmax(2), cosines.argmax(1)
    mutual: Mask = np.take_along_axis(best_of_original, best_of_paraphrase, 1) == np.arange(cosines.shape[2])
    mutual &= best_of_paraphrase != targets[:, None]
    return np.where(mutual, best_of_paraphrase, -1)


def _of_target(values: Scores, targets: Ints) -> Scores:
    return values[np.arange(len(targets)), targets]


def standard_score(cosines: Scores, targets: Ints) -> Scores:
    """Return how near each word of the paraphrase is to the target; inf if all words of the original are as near."""
    present = np.isfinite(cosines)
    count = np.maximum(present.sum(1), 1)
    mean = cosines.sum(1, where=present) / count
    differences = mean[:, None] - cosines  # from the mean distance, where a distance is 1 - cosine
    deviation = np.sqrt(np.square(differences).sum(1, where=present) / count)
    score = np.full(deviation.shape, np.inf)
    np.divide(_of_target(differences, targets), deviation, out=score, where=deviation.round(_DECIMALS) > 0)
    return score.round(_DECIMALS)


class _Ranked(NamedTuple):
    """What a rule says about the words of some paraphrases."""

    reasons: Reasons
    """The reason against a word, whatever the others are."""
    ranking: Scores
    """Rank of each word; higher is better."""
    lower_ranked: Passed | Ints
    """The reason for words that are passed over only because another ranks higher."""
    scores: Scores | None = None


_Rule = Callable[[Scores, Ints, Ints, Mask], _Ranked]
"""A function of cosines, targets, takers, and marks on the words of the paraphrases."""


def _first_reason(*conditions: tuple[Mask, Passed]) -> Reasons:
    """Return, for each word, the first reason whose condition holds."""
    reasons = np.zeros(conditions[0][0].shape, np.uint8)
    for holds, reason in reversed(conditions):
        reasons[holds] = reason
    return reasons


def _judge(
    originals: Sentences, targets: Ints, paraphrases: Sentences, marks: Mask, rule: _Rule
) -> Iterator[JudgedPairs]:
    groups = zip(_groups(originals.counts), _groups(paraphrases.counts), strict=True)
    for (pairs, of_originals), (_, of_paraphrases) in groups:
        counts, of_pairs = paraphrases.counts[pairs], targets[pairs]
        cosines = all_cosines(
            Sentences(originals.vectors[of_originals], originals.counts[pairs]),
            Sentences(paraphrases.vectors[of_paraphrases], counts),
        )
        marked = np.zeros((len(counts), cosines.shape[2]), bool)
        marked[np.arange(cosines.shape[2]) < counts[:, None]] = marks[of_paraphrases]
        takers = taken_by(cosines, of_pairs)
        reasons, ranking, lower_ranked, scores = rule(cosines, of_pairs, takers, marked)
        possible = reasons == Passed.NOT
        best = np.where(possible, ranking, -np.inf).argmax(1)[:, None]
        others = possible & (np.arange(cosines.shape[2]) != best)
        yield JudgedPairs(of_pairs, cosines, takers, scores, np.where(others, lower_ranked, reasons))


def _groups(counts: Ints) -> Iterator[tuple[slice, slice]]:
    """Yield slices of some pairs at a time, and of their words."""
    bounds = np.append(0, np.cumsum(counts))
    for first in range(0, len(counts), _PAIRS_AT_ONCE):
        stop = min(first + _PAIRS_AT_ONCE, len(counts))
        yield slice(first, stop), slice(bounds[first], bounds[stop])


def all_cosines(originals: Sentences, paraphrases: Sentences) -> Scores:
    """Return the cosines (P, O, W) of all words of each pair, with -inf where a sentence is shorter."""
    sizes = originals.counts.tolist(), paraphrases.counts.tolist()
    left, right = _rounded(originals.vectors), _rounded(paraphrases.vectors)
    result = np.full((len(sizes[0]), max(1, *sizes[0]), max(1, *sizes[1])), -np.inf)
    row = column = 0
    for matrix, rows, columns in zip(result, *sizes, strict=True):
        np.matmul(left[row : row + rows], right[column : column + columns].T, out=matrix[:rows, :columns])
        row, column = row + rows, column + columns
    return result


def _rounded(vectors: Floats) -> Scores:
    """Round vectors: added to a large number, they keep just these digits, and subtracting it again is exact."""
    large = 1.5 * 2.0 ** (52 - _BINARY_DIGITS)
    result = np.add(vectors, large, dtype=np.float64)
    result -= large
    return result
