"""Scores of vectors before and after a change, item by item."""

from __future__ import annotations

from dataclasses import replace

from corpusgen.models.vectors import WordVectors
from distiller.evaluation.evaluate import VectorFile, compare, evaluate_static
from distiller.evaluation.report import Evaluation, to_markdown
from distiller.evaluation.results import TaskResult
from distiller.evaluation.static import KIND
from distiller.static.vectors import StaticVectors

_BEFORE, _AFTER = "original", "processed"


def scored(vectors: StaticVectors, name: str, data: str) -> str:
    """Return an evaluation of vectors on the benchmarks of a folder, in Markdown."""
    return to_markdown(evaluate_static(VectorFile(WordVectors(name, vectors.source)), name, data))


def before_and_after(before: StaticVectors, after: StaticVectors, name: str, data: str) -> Evaluation:
    """Evaluate vectors of the same words before and after a change, and compare them on the same items."""
    was, now = (evaluate_static(VectorFile(WordVectors(name, one.source)), name, data) for one in (before, after))
    results = [_joined(*both) for both in zip(was.results, now.results, strict=True)]
    compared = compare(results, results, "the original ones", _AFTER, _BEFORE)
    return Evaluation(name, "", results, was.seconds + now.seconds, compared)


def _joined(was: TaskResult, now: TaskResult) -> TaskResult:
    """Return one result for both, which are about the same items, because the words are the same."""
    both = {_BEFORE: was, _AFTER: now}
    return replace(
        now,
        scores={kind: one.scores[KIND] for kind, one in both.items()},
        similarities={kind: one.similarities[KIND] for kind, one in both.items() if one.similarities},
        published={},
        parts=[_joined(*parts) for parts in zip(was.parts, now.parts, strict=True)],
    )


def harm(evaluation: Evaluation) -> str:
    """Say in one sentence on which sets the change hurts, beyond what chance explains; empty if on none."""
    differences = evaluation.compared.differences if evaluation.compared else []
    hurt = [f"{each.task} ({100 * each.difference:+.1f})" for each in differences if each.high < 0]
    return f"This hurts on {', '.join(hurt)}: for such uses, keep the vectors as they were." if hurt else ""
