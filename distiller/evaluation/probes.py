"""What can be read from vectors by a simple rule that is learned from some of them and judged by others.

A rule is a function of vectors with their targets and of other vectors, and gives the targets that it predicts of
those. It sees all features with mean 0 and variance 1, so that vectors of any scale have the same chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import cross_entropy

from distiller.evaluation.metrics import Statistic, Values, accuracy, bootstrap
from distiller.evaluation.results import Score

Vectors = npt.NDArray[np.floating[Any]]
Rule = Callable[[Vectors, Values, Vectors], Values]

_LEAST_HELD_OUT = 10
_RIDGES = np.logspace(3, -3, 13)  # for each item
_DECAYS = (10.0, 1.0, 0.1, 0.01)  # strong ones first: of equally good ones the strongest is taken
_EVERY = 5  # one in so many known items chooses the decay
_STEPS = 200


class Method(NamedTuple):
    """How a property is looked for, and how what is found is judged."""

    metric: str
    rule: Rule
    guess: Callable[[Values], float]
    """What one says of all items without their vectors."""
    statistic: Statistic


@dataclass(frozen=True)
class Probe:
    """What a rule reads from each kind of vectors."""

    name: str
    metric: str
    learned_from: int
    judged_by: int
    guess: float
    """The score without any vectors: of the mean, or of the most frequent class."""
    scores: dict[str, Score]
    """By kind of vectors."""


def probe(
    name: str, method: Method, vectors: Mapping[str, Vectors], targets: Values, held_out: npt.NDArray[np.bool_]
) -> Probe | None:
    """Learn from the items that are not held out and judge by those that are; None if they are too few to tell."""
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
    """Linear regression; its ridge is the one with the least squared error when each item in turn is left out."""
    mean = targets.mean()
    left, sizes, right = np.linalg.svd(known, full_matrices=False)
    along = left.T @ (targets - mean)

    def error(ridge: float) -> float:
        kept = sizes**2 / (sizes**2 + ridge)
        leverage = left**2 @ kept + 1 / len(known)
        return float(np.square((targets - mean - left @ (kept * along)) / (1 - leverage)).mean())

    best = min(len(known) * _RIDGES, key=error)
    predicted: Values = asked @ (right.T @ (sizes / (sizes**2 + best) * along)) + mean
    return predicted


def nearest_mean(known: Vectors, targets: Values, asked: Vectors) -> Values:
    """The class whose mean is nearest."""
    classes = np.unique(targets)
    means = np.stack([known[targets == label].mean(0) for label in classes])
    distances = np.square(means).sum(1) - 2 * asked @ means.T  # less what is the same for all classes
    nearest: Values = classes[distances.argmin(1)]
    return nearest


def softmax(known: Vectors, targets: Values, asked: Vectors) -> Values:
    """Logistic regression; its weight decay is the one that is best for some of the known items, learned from the rest.

    Items are taken to be in no order.
    """
    classes, labels = np.unique(targets, return_inverse=True)
    choosing = np.arange(len(known)) % _EVERY == _EVERY - 1

    def right(decay: float) -> float:
        predicted = _logistic(known[~choosing], labels[~choosing], known[choosing], len(classes), decay)
        return float(accuracy(predicted, labels[choosing]))

    predicted: Values = classes[_logistic(known, labels, asked, len(classes), max(_DECAYS, key=right))]
    return predicted


def _logistic(
    known: Vectors, labels: npt.NDArray[np.int64], asked: Vectors, classes: int, decay: float
) -> npt.NDArray[np.int64]:
    features, gold = torch.from_numpy(known), torch.from_numpy(labels)
    weights = torch.zeros(known.shape[1], classes, dtype=features.dtype, requires_grad=True)
    bias = torch.zeros(classes, dtype=features.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = cross_entropy(features @ weights + bias, gold) + decay / 2 * weights.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        predicted: npt.NDArray[np.int64] = (torch.from_numpy(asked) @ weights + bias).argmax(1).numpy()
    return predicted


# --------------------------------------------------------------------- judging


def r_squared(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> Values:
    """The share of the variance that is predicted: 0 for the mean, less for what is worse; NaN of equal values."""
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
