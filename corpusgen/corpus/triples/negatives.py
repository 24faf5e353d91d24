"""The rule for negative words: a word that fits in the place of the target, and means something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.contexts import SlotContext, unfit
from corpusgen.models.lexical import stem

Floats = npt.NDArray[np.float64]

TOO_FEW = -np.inf
"""A largest cosine that no cosine is below, for when the published code has too few candidates for a mean."""


def largest_cosine(
    words: Sequence[str], cosines: Floats, probabilities: Floats, target: str, rules: RuleSettings
) -> float:
    """Return the cosine below which a candidate is far enough from the target.

    The published code uses the mean of the candidates themselves, if there are enough of them.
    """
    if rules.negatives == "threshold":
        return rules.negative_max_cosine
    counted = probabilities > rules.mean_distance_min_probability
    counted &= np.array([word != target for word in words], bool)
    if counted.sum() < rules.mean_distance_min_candidates:
        return TOO_FEW
    return float(cosines[counted].mean(dtype=np.float64))  # in float32 the mean of equal values could be above them


def why_not_negative(
    word: str,
    context: SlotContext,
    cosine: float,
    probability: float,
    largest: float,
    rules: RuleSettings,
    names: Mapping[str, bool],
    language: str,
) -> str | None:
    """Return why a predicted word, in lower case, cannot be the negative one; None if it can.

    `largest` is the result of `largest_cosine`.
    """
    if word.casefold() == context.target.casefold():
        return "the target"
    if word.casefold() in context.positives:
        return "the positive word"
    if not _probable(probability, context, rules):
        return "improbable"
    if context.in_paraphrase is not None and context.in_paraphrase.get(word, 0.0) < rules.negative_min_agreement:
        return "does not fit the paraphrase"
    if not cosine < largest:
        return "too few candidates" if largest == TOO_FEW else "too near"
    if rules.same_stem and stem(word, language) == stem(context.target, language):
        return "looks like the target"
    return unfit(word, context, rules, names, language)


def _probable(probability: float, context: SlotContext, rules: RuleSettings) -> bool:
    if rules.negatives == "mean_distance":
        return probability > rules.mean_distance_min_probability  # strictly more, as in the published code
    return probability >= max(rules.negative_min_probability, rules.negative_min_share * context.best)
