"""An evaluation as a page that stands alone: tables, plots, what was left out, how to read it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from corpusgen.pages.html import page
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
SCORES_STYLE = """
th:nth-child(n + 3), td:nth-child(n + 3) { padding-right: 0; padding-left: .9rem; text-align: right }
tbody tr.task > * { border-top: 1px solid var(--line) } tbody tr:first-child > * { border-top: 0 }
tr.paper > *, tr.part > * { padding-top: 0; font-size: .8125rem; font-weight: 400; color: var(--muted) }
tr.paper th, tr.part th { padding-left: 1rem }
@media (max-width: 40rem) { table { font-size: .8125rem } tbody th { min-width: 5.5rem; white-space: normal } }
"""
_CHARTS_STYLE = """
.chart svg { min-width: 42rem }
svg text { fill: currentColor !important; font-family: inherit !important }
svg [style*="stroke: #808080"] { stroke: var(--muted) !important }
"""


def to_html(evaluation: Evaluation) -> str:
    """One page that needs nothing else: no script, no font, no picture from anywhere."""
    title, duration = html.escape(evaluation.title), timedelta(seconds=round(evaluation.seconds))
    header = f"<header><h1>{title}</h1>\n<p>evaluated in {duration} h</p></header>\n<main>\n"
    return page(title, header + "\n".join(_sections(evaluation)) + "\n</main>", SCORES_STYLE + _CHARTS_STYLE)


def _sections(evaluation: Evaluation) -> Iterator[str]:
    columns = heads(evaluation)
    yield "<h2>Scores</h2>" + html_table("Scores", columns, rows(evaluation))
    yield f'<p class="note">{note(evaluation)}</p>'
    if any(result.parts for result in evaluation.results):
        whole = html_table("Scores with parts", columns, rows(evaluation, verbose=True))
        yield f"<details><summary>Scores of the parts</summary>{whole}</details>"
    if evaluation.kinds:
        chart = scores_chart(evaluation.results)
        yield f'<h2>Side by side</h2><figure class="scroll chart" tabindex="0">{chart}</figure>'
    if compared := evaluation.compared:
        cells = [Row("task", cells) for cells in compared_cells(compared)]
        yield f"<h2>Compared with {html.escape(compared.other)}</h2>" + html_table("Differences", COMPARED, cells)
        yield f'<p class="note">{PAIRED}</p>'
    drawn = [(result, panels) for result in evaluation.results if (panels := similarity_panels(result))]
    if drawn:
        yield '<h2>What is predicted</h2><p class="note">Beside what people say. Each picture has its own scale.</p>'
    for result, panels in drawn:
        figures = "".join(f"<figure>{panel}</figure>" for panel in panels)
        yield f'<h3>{html.escape(result.task)}</h3><p class="note">{panel_caption(result)}</p>'
        yield f'<div class="panels">{figures}</div>'
    if skipped := with_skipped(evaluation):
        yield "<h2>Skipped items</h2>"
    for result in skipped:
        items = "".join(f"<li>{html.escape(f'{left.item}: {left.reason}')}</li>" for left in skipped_of(result))
        summary = html.escape(f"{result.task}: {reasons(result)}")
        yield f"<details><summary>{summary}</summary><ul>{items}</ul></details>"
    terms = [*evaluation.kinds, *dict.fromkeys(result.metric for result in evaluation.results)]
    yield "<h2>How to read this</h2><dl>"
    yield from (f"<dt>{term}</dt><dd>{html.escape(_READING[term])}</dd>" for term in terms if term in _READING)
    yield "</dl>"


def html_table(name: str, heads: Sequence[str], rows: Iterable[Row]) -> str:
    """A table of scores, which scrolls in itself where it is too wide."""
    lines = [f'<div class="scroll" role="region" aria-label="{name}" tabindex="0"><table>\n<thead><tr>']
    lines += [f'<th scope="col">{html.escape(head)}</th>' for head in heads]
    lines += ["</tr></thead>\n<tbody>"]
    for row in rows:
        cells = [html.escape(cell) for cell in row.cells]
        cells = [f"<strong>{cell}</strong>" if place == row.best else cell for place, cell in enumerate(cells)]
        first, rest = cells[0], "".join(f"<td>{cell}</td>" for cell in cells[1:])
        lines.append(f'<tr class="{row.role}"><th scope="row">{first}</th>{rest}</tr>\n')
    return "".join(lines) + "</tbody></table></div>"
