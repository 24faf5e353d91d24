"""Running benchmarks: a model in, an evaluation out; and two evaluations beside each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusgen.vectors import WordVectors
from distiller.errors import EmptyTextError
from distiller.evaluation.metrics import Statistic, accuracy, paired_bootstrap, pearson, spearman
from distiller.evaluation.report import Comparison, Difference, Evaluation
from distiller.evaluation.results import TaskResult, Vectors
from distiller.evaluation.static import StaticVectors, find_static_tasks
from distiller.evaluation.tasks import find_tasks
from distiller.word_distiller import WordDistiller

_STATISTICS: dict[str, Statistic] = {"accuracy": accuracy, "Pearson": pearson, "Spearman": spearman}
_WORDS_AT_ONCE = 2048
_BASELINE, _MEANING = "baseline", "meaning"


class ModelEncoder:
    """A model as the tasks ask it: all its kinds of vectors from one run of the frozen model."""

    def __init__(self, model: WordDistiller) -> None:
        self._model = model

    def words(
        self, texts: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> tuple[dict[str, Vectors], list[str | None]]:
        """By kind, the vectors of the word at each text's span; and why a word has none."""
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
        """By kind, the vectors of whole texts; and why a text has none."""
        missing = [None if text.strip() else "the text is empty" for text in texts]
        filled = [text if reason is None else "." for text, reason in zip(texts, missing, strict=True)]
        while True:
            try:
                return self._model.sentence_vectors(filled), missing
            except EmptyTextError as error:  # characters that the model has no pieces for
                filled[error.index], missing[error.index] = ".", error.reason


class VectorFile:
    """A file of static vectors as the tasks ask it; words that it only has sub-words of count as known."""

    def __init__(self, vectors: WordVectors) -> None:
        self._vectors = vectors
        self.words: Sequence[str] = vectors.vocabulary

    @cached_property
    def matrix(self) -> Vectors:
        """The vector of each word of the vocabulary, (words, d)."""
        return self._vectors.lookup(self.words)

    def lookup(self, words: Sequence[str]) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """The vectors (n, d) of any words, and which of them have one."""
        found = self._vectors.lookup(words)
        return found, np.asarray(found.any(axis=1))


def evaluate(
    model: WordDistiller,
    name: str,
    data: str,
    tasks: Iterable[str] | None = None,
    on_result: Callable[[TaskResult], None] = lambda result: None,
) -> Evaluation:
    """Run the benchmarks of a folder, all or those named; the meaning vectors are compared with the frozen model's."""
    chosen = find_tasks(data, tasks)
    started = time.monotonic()
    results: list[TaskResult] = []
    for task in chosen:
        for result in task.run(ModelEncoder(model)):
            results.append(result)
            on_result(result)
    compared = None
    if _MEANING in model.outputs:
        compared = compare(results, results, "the frozen model itself", _MEANING, _BASELINE)
    return Evaluation(name, model.backbone.settings.model, results, time.monotonic() - started, compared)


def evaluate_static(vectors: StaticVectors, name: str, data: str, tasks: Iterable[str] | None = None) -> Evaluation:
    """Run the benchmarks of static vectors of a folder."""
    chosen = find_static_tasks(data, tasks)
    started = time.monotonic()
    results = [result for task in chosen for result in task.run_static(vectors)]
    return Evaluation(name, "", results, time.monotonic() - started)


def compare(
    ours: Sequence[TaskResult], theirs: Sequence[TaskResult], other: str, kind: str, other_kind: str | None = None
) -> Comparison:
    """A kind of our vectors against one of another model's, by default the same, on the tasks that both were run on."""
    other_kind = other_kind or kind
    by_task = {result.task: result for result in theirs}
    differences = []
    for result in ours:
        counterpart = by_task.get(result.task)
        if counterpart is None or counterpart.items != result.items or result.gold is None:
            continue  # items that only one of them could encode: no pairs
        sizes = [part.items for part in result.parts] or None
        decisions = result.metric == "accuracy"
        gold = result.gold == 1 if decisions else result.gold
        found = paired_bootstrap(
            _STATISTICS[result.metric], _predicted(result, kind), _predicted(counterpart, other_kind), gold, parts=sizes
        )
        differences.append(Difference(result.task, kind, found.value, found.low, found.high, found.p))
    return Comparison(other, differences)


def _predicted(result: TaskResult, kind: str) -> npt.NDArray[Any]:
    threshold = result.scores[kind].threshold
    similarities = result.similarities[kind]
    return similarities if threshold is None else similarities >= threshold
