"""Scoring, for each kind of vectors: pairs → similarities → agreement with people, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from distiller.evaluation.files import ItemSet
from distiller.evaluation.metrics import (
    STATISTICS,
    Statistic,
    Values,
    accuracy,
    best_threshold,
    bootstrap,
    cosines,
    over_parts,
)
from distiller.evaluation.results import Encoder, Groups, ItemIndices, Score, Similarities, Skipped, TaskResult


@dataclass(frozen=True)
class Judged:
    """The predictions for the items of a set, with human ratings."""

    items: Sequence[str]
    gold: Values
    similarities: dict[str, Similarities]
    """Similarities by kind of vectors."""
    missing: Sequence[str | None]
    """The reason why an item has no similarity, or None."""
    unread: Sequence[Skipped] = ()
    """Lines that could not be read as items."""
    groups: Groups | None = None
    """The group of each item; see `ItemSet`."""

    @property
    def skipped(self) -> list[Skipped]:
        """Return all skipped lines and items, with reasons."""
        reasons = zip(self.items, self.missing, strict=True)
        return [*self.unread, *(Skipped(item, reason) for item, reason in reasons if reason is not None)]

    def scored(self) -> tuple[dict[str, Similarities], Values]:
        """Return the similarities and the gold of the items that have both."""
        kept = self.item_indices[:, 1]
        return {kind: values[kept] for kind, values in self.similarities.items()}, self.gold[kept]

    @property
    def item_indices(self) -> ItemIndices:
        """Return the indices of the items that have both; see `TaskResult`."""
        kept = np.flatnonzero([reason is None for reason in self.missing])
        return np.stack([np.zeros_like(kept), kept], 1)

    @property
    def scored_groups(self) -> Groups | None:
        """Return the groups of the items that have both."""
        return None if self.groups is None else self.groups[self.item_indices[:, 1]]

    def result(self, task: str, metric: str, scores: dict[str, Score]) -> TaskResult:
        """Make the result of a task from the scores of these items."""
        similarities, gold = self.scored()
        return TaskResult(
            task,
            metric,
            len(gold),
            scores,
            self.skipped,
            similarities=similarities,
            gold=gold,
            item_indices=self.item_indices,
            groups=self.scored_groups,
        )


def judge(encoder: Encoder, sets: Sequence[ItemSet]) -> list[Judged]:
    """Compare the pairs of all sets by cosines. The encoder is called once, with each text and span once."""
    pairs = [pair for items in sets for pair in items.pairs]
    occurrences = dict.fromkeys(occurrence for pair in pairs for occurrence in pair.occurrences)
    texts = [text for text, _ in occurrences]
    spans = [span for _, span in occurrences if span is not None]
    vectors, reasons = encoder.words(texts, spans) if spans else encoder.sentences(texts)
    row_of = {occurrence: row for row, occurrence in enumerate(occurrences)}
    rows = np.array([[row_of[occurrence] for occurrence in pair.occurrences] for pair in pairs])  # (pairs, 2)
    similarities = {kind: cosines(values[rows[:, 0]], values[rows[:, 1]]) for kind, values in vectors.items()}
    missing = [reasons[first] or reasons[second] for first, second in rows]
    for values in similarities.values():
        for index in np.flatnonzero(~np.isfinite(values)):
            missing[index] = missing[index] or "its vectors are not finite"

    judged, start = [], 0
    for items in sets:
        part = slice(start, start + len(items.pairs))
        start = part.stop
        gold = np.array([pair.gold for pair in items.pairs])
        of_set = {kind: values[part] for kind, values in similarities.items()}
        names = [pair.item for pair in items.pairs]
        groups = None if items.groups is None else np.array(items.groups, str)
        judged.append(Judged(names, gold, of_set, missing[part], items.skipped, groups))
    return judged


def joined(first: Judged, second: Judged) -> Judged:
    """Join the items of two sets."""
    return Judged(
        [*first.items, *second.items],
        np.concatenate([first.gold, second.gold]),
        {kind: np.concatenate([values, second.similarities[kind]]) for kind, values in first.similarities.items()},
        [*first.missing, *second.missing],
        [*first.unread, *second.unread],
        _all_groups([first.groups, second.groups]),
    )


def _all_groups(sets: Sequence[Groups | None]) -> Groups | None:
    """Return the groups of the items of several sets, which all have groups, or none has."""
    known = [groups for groups in sets if groups is not None]
    return np.concatenate(known) if known else None


def change(before: Judged, after: Judged) -> Judged:
    """Return the change in the similarity of each item from one set to another with the same items."""
    return Judged(
        [f"{first} → {second}" for first, second in zip(before.items, after.items, strict=True)],
        after.gold - before.gold,
        {kind: after.similarities[kind] - values for kind, values in before.similarities.items()},
        [first or second for first, second in zip(before.missing, after.missing, strict=True)],
        before.unread,
        before.groups,
    )


def correlated(task: str, metric: str, judged: Judged) -> TaskResult:
    """Score similarities by their agreement with gold: Pearson, centred or not, Spearman, or AUC."""
    similarities, gold = judged.scored()
    groups = judged.scored_groups
    scores = {kind: _score(STATISTICS[metric], values, gold, groups) for kind, values in similarities.items()}
    return judged.result(task, metric, scores)


def decided(task: str, tuning: Judged, judged: Judged) -> TaskResult:
    """Score decisions: "same" at or above the similarity threshold that is best for the items of `tuning` alone."""
    similarities, gold = judged.scored()
    known, answers = tuning.scored()
    groups = judged.scored_groups
    scores = {
        kind: _decision_score(known[kind], answers, values, gold, groups) for kind, values in similarities.items()
    }
    left_out = [replace(skip, reason=f"for the threshold: {skip.reason}") for skip in tuning.skipped]
    return replace(judged.result(task, "accuracy", scores), skipped=judged.skipped + left_out)


def _decision_score(
    known: Similarities, answers: Values, similarities: Similarities, gold: Values, groups: Groups | None
) -> Score:
    if not len(known):
        return Score(np.nan, np.nan, np.nan)
    threshold = best_threshold(known, answers)
    return replace(_score(accuracy, similarities >= threshold, gold == 1, groups), threshold=threshold)


def separated(task: str, judged: Judged) -> TaskResult:
    """Score how well similarities tell items that are the same from others, whatever the threshold: a second figure.

    Skipped items are in the result of the decisions.
    """
    return replace(correlated(task, "AUC", judged), second=True, skipped=[])


def answered(task: str, judged: Judged) -> TaskResult:
    """Score answers by accuracy: their similarity is 1 if they are right and 0 if wrong."""
    similarities, gold = judged.scored()
    groups = judged.scored_groups
    scores = {kind: _score(accuracy, each, gold, groups) for kind, each in similarities.items()}
    return judged.result(task, "accuracy", scores)


def averaged(task: str, metric: str, judged: Sequence[tuple[str, Judged]]) -> TaskResult:
    """Score sub-corpora, each with its name, by the unweighted mean of their correlations."""
    parts = [correlated(name, metric, of_part) for name, of_part in judged]
    sizes = [part.items for part in parts]
    scored = [of_part.scored() for _, of_part in judged]
    gold = np.concatenate([gold for _, gold in scored])
    similarities = {kind: np.concatenate([values[kind] for values, _ in scored]) for kind in parts[0].scores}
    groups = _all_groups([part.groups for part in parts])
    return TaskResult(
        task,
        metric,
        len(gold),
        {kind: _score(STATISTICS[metric], values, gold, groups, sizes) for kind, values in similarities.items()},
        [skip for part in parts for skip in part.skipped],
        parts=parts,
        similarities=similarities,
        gold=gold,
        item_indices=np.concatenate(
            [of_part.item_indices + np.array([number, 0]) for number, (_, of_part) in enumerate(judged)]
        ),
        groups=groups,
    )


def _score(
    statistic: Statistic,
    predicted: npt.NDArray[Any],
    gold: Values,
    groups: Groups | None,
    parts: Sequence[int] | None = None,
) -> Score:
    low, high = bootstrap(statistic, predicted, gold, parts=parts, groups=groups)
    return Score(over_parts(statistic, predicted, gold, parts=parts), low, high)
