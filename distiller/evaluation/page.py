"""An evaluation as a self-contained HTML page: tables, plots, skipped items, and how to read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from markupsafe import Markup

from corpusgen.pages.html import render_page
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
    with_skipped,
)
from distiller.evaluation.results import Skipped

_FOLDER = "distiller/evaluation"
SCORES_STYLE = f"{_FOLDER}/scores.css"
"""The style of the tables of scores.html.j2."""
_READING = {
    "baseline": "vectors of the frozen model as it is",
    "meaning": "vectors distilled to hold what a word means, whatever it stands beside",
    "context": "vectors distilled to hold the rest: they should say little of what a word means",
    "static": "one vector a word, the same in every text",
    "accuracy": "share of right answers; pairs count as of one meaning from a threshold on that other pairs gave",
    "Spearman": "whether similarities rise in the order of people's ratings: 100 is the same order, 0 none in common",
    "uncentred Pearson": "whether similarities change in the direction and in proportion to people's ratings: 100 is "
    "always the same proportion, 0 no relation",
    "Pearson": "whether similarities rise in proportion to people's ratings: 100 is a straight line, 0 no relation",
}


@dataclass(frozen=True)
class TaskPanels:
    """Pictures of the predictions for the items of a task."""

    task: str
    caption: str
    pictures: Sequence[Markup]


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
        chart=Markup(scores_chart(evaluation.results)) if evaluation.kinds else None,
        other=compared.other if compared else None,
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
    return [
        TaskPanels(result.task, panel_caption(result), list(map(Markup, panels))) for result, panels in drawn if panels
    ]
