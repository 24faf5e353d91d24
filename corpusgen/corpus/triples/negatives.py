"""The word that takes the target's place in the negative sentence: it fits there, and means something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from corpusgen.config.rules import RuleSettings
from corpusgen.corpus.triples.contexts import Place, unfit
from corpusgen.models.lexical import stem

Floats = npt.NDArray[np.float64]

TOO_FEW = -np.inf
"""A largest cosine that none is below: of the published code, where it has too few candidates for a mean."""


def largest_cosine(
    words: Sequence[str], cosines: Floats, probabilities: Floats, target: str, rules: RuleSettings
) -> float:
    """Below which a candidate is far enough from the target.

    The published code takes the candidates' own mean for it, if there are enough of them.
    """
    if rules.negatives == "threshold":
        return rules.negative_max_cosine
    counted = probabilities > rules.mean_distance_min_probability
    counted &= np.array([word != target for word in words], bool)
    if counted.sum() < rules.mean_distance_min_candidates:
        return TOO_FEW
    return float(cosines[counted].mean(dtype=np.float64))  # in float32 the mean of equals could be above all of them


def why_not_negative(
    word: str,
    place: Place,
    cosine: float,
    probability: float,
    largest: float,
    rules: RuleSettings,
    names: Mapping[str, bool],
    language: str,
) -> str | None:
    """Why a predicted word, in lower case, cannot be the negative one; None if it can.

    `largest` is what `largest_cosine` says.
    """
    if word.casefold() == place.target.casefold():
        return "the target"
    if word.casefold() in place.positives:
        return "the positive word"
    if not _probable(probability, place, rules):
        return "improbable"
    if place.elsewhere is not None and place.elsewhere.get(word, 0.0) < rules.negative_min_agreement:
        return "does not fit the paraphrase"
    if not cosine < largest:
        return "too few candidates" if largest == TOO_FEW else "too near"
    if rules.same_stem and stem(word, language) == stem(place.target, language):
        return "looks like the target"
    return unfit(word, place, rules, names, language)


def _probable(probability: float, place: Place, rules: RuleSettings) -> bool:
    if rules.negatives == "mean_distance":
        return probability > rules.mean_distance_min_probability  # the published code asks for more than that
    return probability >= max(rules.negative_min_probability, rules.negative_min_share * place.best)
