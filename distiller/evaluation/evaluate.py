"""Functions that run the benchmarks on a model or on static vectors, and compare two evaluations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusgen.models.vectors import WordVectors
from distiller.evaluation.metrics import STATISTICS, paired_bootstrap
from distiller.evaluation.report import Comparison, Evaluation, TaskDifference
from distiller.evaluation.results import TaskResult, Vectors
from distiller.evaluation.static import WordTable, find_static_tasks
from distiller.evaluation.tasks import find_tasks
from distiller.inference.vectors import NOTHING_READ
from distiller.inference.word_distiller import WordDistiller

_WORDS_AT_ONCE = 2048
_BASELINE, _MEANING = "baseline", "meaning"


class ModelEncoder:
    """A model as an `Encoder` for the tasks: all its kinds of vectors from one run of the frozen model."""

    def __init__(self, model: WordDistiller) -> None:
        self._model = model

    def words(
        self, texts: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> tuple[dict[str, Vectors], list[str | None]]:
        """Return by kind the vectors of the word at each text's span, and the reason if a word has none."""
        kinds = self._model.outputs
        made: list[tuple[Vectors, ...]] = []
        reasons: list[str | None] = []
        for start in range(0, len(texts), _WORDS_AT_ONCE):
            some = slice(start, start + _WORDS_AT_ONCE)
            states, problems = self._model.backbone.states(texts[some], spans[some])
            reasons += problems
            made.append(self._model.distil(states, kinds))
        return dict(zip(kinds, map(np.concatenate, zip(*made, strict=True)), strict=True)), reasons

    def sentences(self, texts: Sequence[str]) -> tuple[dict[str, Vectors], list[str | None]]:
        """Return by kind the vectors of whole texts, and the reason if a text has none."""
        missing = [None if text.strip() else "the text is empty" for text in texts]
        filled = [text if reason is None else "." for text, reason in zip(texts, missing, strict=True)]
        vectors, unread = self._model.sentence_vectors(filled)
        for index in unread:
            missing[index] = NOTHING_READ
        return vectors, missing


class VectorFile:
    """A file of static vectors for the tasks."""

    def __init__(self, vectors: WordVectors) -> None:
        self._vectors = vectors
        self.words: Sequence[str] = vectors.vocabulary

    @cached_property
    def matrix(self) -> Vectors:
        """Return the vector of each word of the vocabulary, (words, d)."""
        return self._vectors.lookup(self.words)

    def lookup(self, words: Sequence[str]) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """Return the vectors (n, d) of any words, and which of the words have one."""
        found = self._vectors.lookup(words)
        return found, np.asarray(found.any(axis=1))

    def knows(self, words: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which words are in the vocabulary; others may have vectors from their sub-words."""
        return self._vectors.knows(words)


def evaluate(
    model: WordDistiller,
    name: str,
    data: str,
    tasks: Iterable[str] | None = None,
    on_result: Callable[[TaskResult], None] = lambda result: None,
) -> Evaluation:
    """Run all or the named benchmarks of a folder, and compare the meaning vectors with the frozen model's."""
    chosen = find_tasks(data, tasks)
    started = time.monotonic()
    results: list[TaskResult] = []
    for task in chosen:
        for result in task.run(ModelEncoder(model)):
            results.append(result)
            on_result(result)
    compared = None
    if _MEANING in model.outputs:
        compared = compare(results, results, "the frozen model", _MEANING, _BASELINE)
    return Evaluation(name, model.backbone.settings.model, results, time.monotonic() - started, compared)


def evaluate_static(vectors: WordTable, name: str, data: str, tasks: Iterable[str] | None = None) -> Evaluation:
    """Run all or the named benchmarks of static vectors of a folder."""
    chosen = find_static_tasks(data, tasks)
    started = time.monotonic()
    results = [result for task in chosen for result in task.run_static(vectors)]
    return Evaluation(name, "", results, time.monotonic() - started)


def compare(
    ours: Sequence[TaskResult], theirs: Sequence[TaskResult], other: str, kind: str, other_kind: str | None = None
) -> Comparison:
    """Compare a kind of our vectors with a kind of another model's, by default the same, on the items both could score.

    Both must have been run on the same data. A task that only one of them ran has no difference.
    """
    other_kind = other_kind or kind
    of_theirs = {result.label: result for result in theirs}
    differences = [_difference(result, of_theirs.pop(result.label, None), kind, other_kind) for result in ours]
    differences += [_no_difference(result, kind) for result in of_theirs.values()]
    return Comparison(other, differences)


def _difference(ours: TaskResult, theirs: TaskResult | None, kind: str, other_kind: str) -> TaskDifference:
    if theirs is None or ours.gold is None or ours.item_indices is None or theirs.item_indices is None:
        return _no_difference(ours, kind)
    rows_of_theirs = {tuple(item): row for row, item in enumerate(theirs.item_indices.tolist())}
    rows = enumerate(map(tuple, ours.item_indices.tolist()))
    pairs = [(row, rows_of_theirs[item]) for row, item in rows if item in rows_of_theirs]
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    figures: tuple[float, float, float, float] = (np.nan, np.nan, np.nan, np.nan)
    if pairs and np.isfinite([ours.scores[kind].value, theirs.scores[other_kind].value]).all():
        _, sizes = np.unique(ours.item_indices[first, 0], return_counts=True)
        figures = paired_bootstrap(
            STATISTICS[ours.metric],
            _predicted(ours, kind)[first],
            _predicted(theirs, other_kind)[second],
            (ours.gold == 1 if ours.metric == "accuracy" else ours.gold)[first],
            parts=sizes.tolist(),
            groups=None if ours.groups is None else ours.groups[first],
        )
    unpaired = ours.items + theirs.items - 2 * len(pairs)
    return TaskDifference(ours.task, kind, *figures, len(pairs), unpaired, ours.metric, ours.second)


def _no_difference(result: TaskResult, kind: str) -> TaskDifference:
    unknown = (np.nan, np.nan, np.nan, np.nan)
    return TaskDifference(result.task, kind, *unknown, 0, result.items, result.metric, result.second)


def _predicted(result: TaskResult, kind: str) -> npt.NDArray[Any]:
    threshold = result.scores[kind].threshold
    similarities = result.similarities[kind]
    return similarities if threshold is None else similarities >= threshold
