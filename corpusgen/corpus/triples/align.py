"""Which word of a paraphrase stands for the target: Algorithm 4.1 of Arase & Kajiwara 2021, over many pairs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_PAIRS_AT_ONCE = 32
# Vectors are rounded to so many binary places: then sums of their products fit into a float64 exactly, and the same
# two words have the same cosine to the bit, wherever they stand and in whatever order a machine adds up. So ties are
# ties, and the first of them wins.
_BINARY_PLACES = 25
_DECIMALS = 5  # of what is compared with a threshold


class Sentences(NamedTuple):
    """The words of many sentences: their vectors, of unit length, and how many words each sentence has."""

    vectors: Floats
    counts: Ints


class Alignment(NamedTuple):
    """For each pair the index of the aligned word in the paraphrase, -1 if there is none, and its cosine."""

    word: Ints
    cosine: Floats


def align(
    originals: Sentences, targets: Ints, paraphrases: Sentences, threshold: float, allowed: Mask | None = None
) -> Alignment:
    """Align the word `targets[i]` of each original.

    It is the word of the paraphrase most similar to the target, by at least `threshold`, that is not taken: that is
    not the mutual best match of another word of the original. `allowed` says of each word of the paraphrases whether
    it comes into question at all.
    """

    def rule(cosines: Scores, targets: Ints, in_question: Mask) -> tuple[Scores, Mask]:
        of_target = _of_target(cosines, targets)
        return of_target, (of_target.round(_DECIMALS) >= threshold) & in_question & ~taken(cosines, targets)

    if allowed is None:
        allowed = np.ones(len(paraphrases.vectors), bool)
    return _align(originals, targets, paraphrases, allowed, rule)


def align_zscore(
    originals: Sentences, targets: Ints, paraphrases: Sentences, threshold: float = -1.0, alike: Mask | None = None
) -> Alignment:
    """The rule of the paper's published code: letters first, then distances judged against those of other words.

    `alike` says of each word of the paraphrases whether it looks like the target; of those the nearest by its place
    in the sentence is chosen. If there are none, a word is a candidate if the target is unusually near to it: its
    distance to the target, as a standard score among its distances to all words of the original, is at most
    `threshold`. Of the candidates that are not taken the one of the lowest score is chosen.
    """

    def rule(cosines: Scores, targets: Ints, alike: Mask) -> tuple[Scores, Mask]:
        score = standard_score(cosines, targets)
        displacement = np.abs(np.arange(cosines.shape[2]) - targets[:, None])
        by_letters = alike.any(1, keepdims=True)
        candidates = np.where(by_letters, alike, (score <= threshold) & ~taken(cosines, targets))
        return -np.where(by_letters, displacement, score), candidates

    if alike is None:
        alike = np.zeros(len(paraphrases.vectors), bool)
    return _align(originals, targets, paraphrases, alike, rule)


def taken(cosines: Scores, targets: Ints) -> Mask:
    """Which words of each paraphrase are the mutual best match of another word than the target."""
    result: Mask = taken_by(cosines, targets) >= 0
    return result


def taken_by(cosines: Scores, targets: Ints) -> Ints:
    """And of which: the index of that other word of the original, -1 where there is none.

    `cosines` are (pairs, words of the original, words of the paraphrase), -inf where a sentence is shorter.
    """
    best_of_original, best_of_paraphrase = cosines.argmax(2), cosines.argmax(1)
    mutual: Mask = np.take_along_axis(best_of_original, best_of_paraphrase, 1) == np.arange(cosines.shape[2])
    mutual &= best_of_paraphrase != targets[:, None]
    return np.where(mutual, best_of_paraphrase, -1)


def _of_target(values: Scores, targets: Ints) -> Scores:
    return values[np.arange(len(targets)), targets]


def standard_score(cosines: Scores, targets: Ints) -> Scores:
    """How near each word of the paraphrase is to the target; inf if all words of the original are equally near."""
    present = np.isfinite(cosines)
    count = np.maximum(present.sum(1), 1)
    mean = cosines.sum(1, where=present) / count
    differences = mean[:, None] - cosines  # of the distances, 1 - cosine, from their mean
    deviation = np.sqrt(np.square(differences).sum(1, where=present) / count)
    score = np.full(deviation.shape, np.inf)
    np.divide(_of_target(differences, targets), deviation, out=score, where=deviation.round(_DECIMALS) > 0)
    return score.round(_DECIMALS)


Rule = Callable[[Scores, Ints, Mask], tuple[Scores, Mask]]
"""From cosines, targets, and marks on the words of the paraphrases, to a score of each of these words, the higher the
better, and whether it is a candidate."""


def _align(originals: Sentences, targets: Ints, paraphrases: Sentences, marks: Mask, rule: Rule) -> Alignment:
    words = np.full(len(targets), -1, np.int64)
    cosine = np.full(len(targets), np.nan, np.float32)
    groups = zip(_groups(originals.counts), _groups(paraphrases.counts), strict=True)
    for (pairs, of_originals), (_, of_paraphrases) in groups:
        counts = paraphrases.counts[pairs]
        cosines = all_cosines(
            Sentences(originals.vectors[of_originals], originals.counts[pairs]),
            Sentences(paraphrases.vectors[of_paraphrases], counts),
        )
        marked = np.zeros((len(counts), cosines.shape[2]), bool)
        marked[np.arange(cosines.shape[2]) < counts[:, None]] = marks[of_paraphrases]
        scores, candidates = rule(cosines, targets[pairs], marked)
        best = np.where(candidates, scores, -np.inf).argmax(1)
        row = np.arange(len(best))
        found = candidates[row, best]
        words[pairs] = np.where(found, best, -1)
        cosine[pairs] = np.where(found, cosines[row, targets[pairs], best].round(_DECIMALS), np.nan)
    return Alignment(words, cosine)


def _groups(counts: Ints) -> Iterator[tuple[slice, slice]]:
    """Some pairs at a time, and where their words are."""
    bounds = np.append(0, np.cumsum(counts))
    for first in range(0, len(counts), _PAIRS_AT_ONCE):
        stop = min(first + _PAIRS_AT_ONCE, len(counts))
        yield slice(first, stop), slice(bounds[first], bounds[stop])


def all_cosines(originals: Sentences, paraphrases: Sentences) -> Scores:
    """Of all words of each pair, -inf where a sentence is shorter."""
    sizes = originals.counts.tolist(), paraphrases.counts.tolist()
    left, right = _rounded(originals.vectors), _rounded(paraphrases.vectors)
    result = np.full((len(sizes[0]), max(1, *sizes[0]), max(1, *sizes[1])), -np.inf)
    row = column = 0
    for matrix, rows, columns in zip(result, *sizes, strict=True):
        np.matmul(left[row : row + rows], right[column : column + columns].T, out=matrix[:rows, :columns])
        row, column = row + rows, column + columns
    return result


def _rounded(vectors: Floats) -> Scores:
    """Next to a large number there is room for just so many places; what is left when it is taken away is exact."""
    large = 1.5 * 2.0 ** (52 - _BINARY_PLACES)
    result = np.add(vectors, large, dtype=np.float64)
    result -= large
    return result
