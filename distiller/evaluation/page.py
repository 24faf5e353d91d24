"""An evaluation as a self-contained HTML page: tables, plots, skipped items, and how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from corpusgen.pages.html import Figure, render_page
from distiller.evaluation.plots import panel_caption, scores_chart, similarity_panels
from distiller.evaluation.report import (
    COMPARED,
    PAIRED,
    Evaluation,
    Row,
    compared_cells,
    heads,
    note,
    reasons,
    rows,
    skipped_of,
    verdict,
    with_skipped,
)
from distiller.evaluation.results import Skipped

_FOLDER = "distiller/evaluation"
SCORES_STYLE = f"{_FOLDER}/scores.css"
"""The style of the tables of scores.html.j2."""
_READING = {
    "baseline": "vectors of the frozen model itself",
    "meaning": "vectors distilled to hold the meaning of a word, independent of its context",
    "context": "vectors distilled to hold everything else: they should say little about the meaning of a word",
    "static": "one vector per word, the same in every text",
    "accuracy": "percentage of correct answers; pairs above a threshold, set on other pairs, count as the same meaning",
    "AUC": "how often a pair of one meaning is more similar than a pair of two, without any threshold: 100 is always, "
    "50 is chance",
    "Spearman": "whether similarities rank items as people rate them: 100 is the same order, 0 is no relation",
    "uncentred Pearson": "whether similarities change in the same direction and proportion as people's ratings: 100 is "
    "always the same proportion, 0 is no relation",
    "Pearson": "whether similarities are proportional to people's ratings: 100 is a straight line, 0 is no relation",
}


@dataclass(frozen=True)
class TaskPanels:
    """Pictures of the predictions for the items of a task."""

    task: str
    caption: str
    figures: Sequence[Figure]


@dataclass(frozen=True)
class TaskSkipped:
    """The items of a task that have no score."""

    task: str
    reasons: str
    items: Sequence[Skipped]


def to_html(evaluation: Evaluation) -> str:
    """Render one self-contained page: it loads no script, font or picture."""
    compared = evaluation.compared
    has_parts = any(result.parts for result in evaluation.results)
    terms = [*evaluation.kinds, *dict.fromkeys(result.metric for result in evaluation.results)]
    return render_page(
        f"{_FOLDER}/page.html.j2",
        evaluation.title,
        styles=[SCORES_STYLE, f"{_FOLDER}/charts.css"],
        duration=timedelta(seconds=round(evaluation.seconds)),
        heads=heads(evaluation),
        rows=list(rows(evaluation)),
        note=note(evaluation),
        rows_with_parts=list(rows(evaluation, verbose=True)) if has_parts else [],
        chart=scores_chart(evaluation.results) if evaluation.kinds else None,
        verdict=verdict(evaluation),
        compared_title=compared.title if compared else None,
        compared_heads=COMPARED,
        differences=[Row("task", cells) for cells in compared_cells(compared)] if compared else [],
        compared_note=PAIRED,
        panels=_panels(evaluation),
        skipped=[TaskSkipped(result.task, reasons(result), skipped_of(result)) for result in with_skipped(evaluation)],
        reading={term: _READING[term] for term in terms if term in _READING},
    )


def _panels(evaluation: Evaluation) -> list[TaskPanels]:
    """Draw the panels of all tasks that have panels."""
    drawn = [(result, similarity_panels(result)) for result in evaluation.results]
    return [TaskPanels(result.task, panel_caption(result), figures) for result, figures in drawn if figures]
