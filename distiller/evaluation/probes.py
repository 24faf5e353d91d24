"""Probes, which measure what a simple rule, learned from some vectors and tested on others, can read from them.

A rule is a function of vectors with their targets and of other vectors, and returns the targets that it predicts for
the others. It sees all features with mean 0 and variance 1, so that vectors of any scale have the same chance.

Shapes: N known items, M others, D dimensions; a rule takes (N, D), (N,) and (M, D), and returns (M,).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusgen.errors import ConfigError
from distiller.evaluation.metrics import Statistic, Values, accuracy, bootstrap
from distiller.evaluation.results import Score

Vectors = npt.NDArray[np.floating[Any]]
Rule = Callable[[Vectors, Values, Vectors], Values]

_LEAST_HELD_OUT = 10
_RIDGES = np.logspace(3, -3, 13)  # for each item
_DECAYS = (10.0, 1.0, 0.1, 0.01)  # strong ones first: among equally good ones the strongest is taken
_EVERY = 5  # one in this many known items serves to choose the decay
_STEPS = 200
_TOLERANCE = 1e-6  # with 1e-4 another decay may be chosen, and a seventh of the predictions differ


class Method(NamedTuple):
    """The rule that looks for a property, and the measure that judges it."""

    metric: str
    rule: Rule
    guess: Callable[[Values], float]
    """The prediction for all items when vectors are not used."""
    statistic: Statistic


@dataclass(frozen=True)
class Probe:
    """The scores of a rule for each kind of vectors."""

    name: str
    metric: str
    learned_from: int
    judged_by: int
    guess: float
    """The score without vectors: that of the mean, or of the most frequent class."""
    scores: dict[str, Score]
    """Scores by kind of vectors."""


def probe(
    name: str, method: Method, vectors: Mapping[str, Vectors], targets: Values, held_out: npt.NDArray[np.bool_]
) -> Probe | None:
    """Learn from the items that are not held out and score those that are; return None if there are too few."""
    known, gold = targets[~held_out], targets[held_out]
    if len(gold) < _LEAST_HELD_OUT or len(set(known)) < 2 or len(set(gold)) < 2:
        return None
    guess = float(method.statistic(np.full(len(gold), method.guess(known)), gold))
    scores = {}
    for kind, of_kind in vectors.items():
        predicted = method.rule(*_standardised(of_kind[~held_out], known, of_kind[held_out]))
        low, high = bootstrap(method.statistic, predicted, gold)
        scores[kind] = Score(float(method.statistic(predicted, gold)), low, high)
    return Probe(name, method.metric, len(known), len(gold), guess, scores)


def _standardised(known: Vectors, targets: Values, asked: Vectors) -> tuple[Values, Values, Values]:
    mean, deviation = known.mean(0, dtype=np.float64), known.std(0, dtype=np.float64)
    deviation[deviation == 0] = 1
    return (known - mean) / deviation, targets, (asked - mean) / deviation


# ----------------------------------------------------------------------- rules


def ridge(known: Vectors, targets: Values, asked: Vectors) -> Values:
    """Fit a linear regression with the ridge of least squared error when each item in turn is left out."""
    model = _linear_model().RidgeCV(alphas=len(known) * _RIDGES)
    predicted: Values = model.fit(known, targets).predict(asked)
    return predicted


def nearest_mean(known: Vectors, targets: Values, asked: Vectors) -> Values:
    """Return the class whose mean is nearest.

    scikit-learn's NearestCentroid would not be shorter: it warns about features that do not vary within a class, as
    in static vectors of one word, and refuses vectors if none of them varies.
    """
    classes = np.unique(targets)
    means = np.stack([known[targets == label].mean(0) for label in classes])
    distances = np.square(means).sum(1) - 2 * asked @ means.T  # minus what is the same for all classes
    nearest: Values = classes[distances.argmin(1)]
    return nearest


def softmax(known: Vectors, targets: Values, asked: Vectors) -> Values:
    """Fit a logistic regression with the weight decay that, learned on four fifths of the known items, suits the rest.

    Items must be in no particular order.
    """
    choosing = np.arange(len(known)) % _EVERY == _EVERY - 1

    def right(decay: float) -> float:
        predicted = _logistic(known[~choosing], targets[~choosing], known[choosing], decay)
        return float(accuracy(predicted, targets[choosing]))

    return _logistic(known, targets, asked, max(_DECAYS, key=right))


def _logistic(known: Vectors, targets: Values, asked: Vectors, decay: float) -> Values:
    """Fit a logistic regression with the weight decay per item, and a weight vector for each class."""
    classes = np.unique(targets)
    if len(classes) == 1:  # scikit-learn refuses to learn from a single class
        return np.full(len(asked), classes[0])
    # For two classes scikit-learn has one weight vector, the difference of ours: the same decay acts half as strongly.
    strength = len(known) * decay / (2 if len(classes) == 2 else 1)
    model = _linear_model().LogisticRegression(C=1 / strength, max_iter=_STEPS, tol=_TOLERANCE)
    predicted: Values = model.fit(known, targets).predict(asked)
    return predicted


def _linear_model() -> Any:
    """Import the linear models of scikit-learn, which takes a second and may not be installed."""
    try:
        return import_module("sklearn.linear_model")
    except ImportError as error:
        raise ConfigError("probes need scikit-learn: pip install 'wicdistil[evaluate]'") from error


# --------------------------------------------------------------------- judging


def r_squared(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> Values:
    """Return the predicted share of the variance: 0 for the mean, negative if worse; NaN if all gold is equal."""
    predicted, gold = np.asarray(predicted, np.float64), np.asarray(gold, np.float64)
    variance = np.square(gold - gold.mean(-1, keepdims=True)).mean(-1)
    error = np.square(gold - predicted).mean(-1)
    shares: Values = 1 - error / np.where(variance == 0, np.nan, variance)
    return shares


def _mean(targets: Values) -> float:
    return float(targets.mean())


def _most_frequent(targets: Values) -> float:
    classes, counts = np.unique(targets, return_counts=True)
    return float(classes[counts.argmax()])


AMOUNT = Method("R²", ridge, _mean, r_squared)
KNOWN_CLASS = Method("accuracy", nearest_mean, _most_frequent, accuracy)
LINEAR_CLASS = Method("accuracy", softmax, _most_frequent, accuracy)
