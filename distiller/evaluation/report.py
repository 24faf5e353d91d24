"""An evaluation as a table in the terminal, as JSON, as Markdown for a model card, and as a page that stands alone."""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from distiller.evaluation.plots import STYLESHEET, in_order, panel_caption, scores_chart, similarity_panels
from distiller.evaluation.results import Score, Skipped, TaskResult

_INTERVALS = (
    "Scores are times 100. Brackets hold bootstrap intervals of 95 %: how much a score would vary with other items of "
    "the same kind, not with another training."
)
_PAPER = " The paper's scores are those it reports for BERT-large."
_BOLD = " Bold is the better of baseline and meaning where their intervals do not overlap."
_READING = {
    "baseline": "vectors of the frozen model as it is",
    "meaning": "vectors distilled to hold what a word means, whatever it stands beside",
    "context": "vectors distilled to hold the rest: they should say little of what a word means",
    "static": "one vector a word, the same in every text",
    "accuracy": "share of right answers; pairs count as of one meaning from a threshold on that other pairs gave",
    "Spearman": "whether similarities rise in the order of people's ratings: 100 is the same order, 0 none in common",
    "Pearson": "whether similarities rise in proportion to people's ratings: 100 is a straight line, 0 no relation",
}
_COMPARED = ["task", "vectors", "difference", "p"]
_PAIRED = "Both models on the same items: what is above zero speaks for the one that is evaluated here."


@dataclass(frozen=True)
class Difference:
    """How much better a model is than another on the same items, with its interval of 95 %."""

    task: str
    kind: str
    difference: float
    low: float
    high: float
    p: float
    """How likely so great a difference is, if the two were equally good."""


@dataclass(frozen=True)
class Comparison:
    """An evaluation beside that of another model: positive differences speak for the one that is evaluated."""

    other: str
    differences: list[Difference]


@dataclass
class Evaluation:
    """What one run of the benchmarks says of one model."""

    model: str
    backbone: str
    results: list[TaskResult]
    seconds: float
    compared: Comparison | None = None

    @property
    def title(self) -> str:
        """Model and backbone; static vectors have none."""
        return f"{self.model} on {self.backbone}" if self.backbone else self.model

    @property
    def kinds(self) -> list[str]:
        """The kinds of vectors it scores."""
        return in_order(kind for result in self.results for kind in result.scores)


@dataclass(frozen=True)
class _Row:
    role: str
    """task, part or paper."""
    cells: list[str]
    best: int | None = None
    """The cell to stress."""


def table(evaluation: Evaluation, verbose: bool = False) -> Table:
    """For the terminal: a row for each task, with `verbose` also for each of its parts."""
    drawn = _terminal_table(evaluation.title, _heads(evaluation))
    for row in _rows(evaluation, verbose):
        cells = [Text(cell, "bold" if place == row.best else "") for place, cell in enumerate(row.cells)]
        cells[0].pad_left({"task": 0, "part": 2, "paper": 2}[row.role])
        drawn.add_row(*cells, style="dim" if row.role == "paper" else None)
    return drawn


def comparison_table(comparison: Comparison) -> Table:
    """For the terminal: what is better or worse than the other model."""
    drawn = _terminal_table(f"compared with {comparison.other}", _COMPARED)
    for cells in _compared(comparison):
        drawn.add_row(*map(Text, cells))
    return drawn


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Everything but the predictions and ratings of single items; figures that are not known are None."""
    plain: dict[str, Any] = _plain(asdict(evaluation))
    return plain


def to_markdown(evaluation: Evaluation) -> str:
    """For a model card."""
    rows = []
    for row in _rows(evaluation):
        cells = [_literal(cell) for cell in row.cells]
        rows.append([f"**{cell}**" if place == row.best else cell for place, cell in enumerate(cells)])
    blocks = [_markdown_table(_heads(evaluation), rows), _note(evaluation)]
    if evaluation.compared:
        differences = [[_literal(cell) for cell in cells] for cells in _compared(evaluation.compared)]
        other = _literal(evaluation.compared.other)
        blocks += [f"Compared with {other}:", _markdown_table(_COMPARED, differences), _PAIRED]
    skipped = [f"- {_literal(result.task)}: {_literal(_reasons(result))}" for result in _with_skipped(evaluation)]
    if skipped:
        blocks += ["Items without a score:", "\n".join(skipped)]
    return "\n\n".join(blocks) + "\n"


def to_html(evaluation: Evaluation) -> str:
    """One page that needs nothing else: no script, no font, no picture from anywhere."""
    title, duration = html.escape(evaluation.title), timedelta(seconds=round(evaluation.seconds))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLESHEET}</style>\n</head>\n<body>\n"
        f"<header><h1>{title}</h1>\n<p>evaluated in {duration} h</p></header>\n<main>\n"
        + "\n".join(_sections(evaluation))
        + "\n</main>\n</body>\n</html>\n"
    )


def _sections(evaluation: Evaluation) -> Iterator[str]:
    heads = _heads(evaluation)
    yield "<h2>Scores</h2>" + _html_table("Scores", heads, _rows(evaluation))
    yield f'<p class="note">{_note(evaluation)}</p>'
    if any(result.parts for result in evaluation.results):
        whole = _html_table("Scores with parts", heads, _rows(evaluation, verbose=True))
        yield f"<details><summary>Scores of the parts</summary>{whole}</details>"
    if evaluation.kinds:
        chart = scores_chart(evaluation.results)
        yield f'<h2>Side by side</h2><figure class="scroll chart" tabindex="0">{chart}</figure>'
    if compared := evaluation.compared:
        rows = [_Row("task", cells) for cells in _compared(compared)]
        yield f"<h2>Compared with {html.escape(compared.other)}</h2>" + _html_table("Differences", _COMPARED, rows)
        yield f'<p class="note">{_PAIRED}</p>'
    drawn = [(result, panels) for result in evaluation.results if (panels := similarity_panels(result))]
    if drawn:
        yield '<h2>What is predicted</h2><p class="note">Beside what people say. Each picture has its own scale.</p>'
    for result, panels in drawn:
        figures = "".join(f"<figure>{panel}</figure>" for panel in panels)
        yield f'<h3>{html.escape(result.task)}</h3><p class="note">{panel_caption(result)}</p>'
        yield f'<div class="panels">{figures}</div>'
    if skipped := _with_skipped(evaluation):
        yield "<h2>Skipped items</h2>"
    for result in skipped:
        items = "".join(f"<li>{html.escape(f'{left.item}: {left.reason}')}</li>" for left in _skipped(result))
        summary = html.escape(f"{result.task}: {_reasons(result)}")
        yield f"<details><summary>{summary}</summary><ul>{items}</ul></details>"
    terms = [*evaluation.kinds, *dict.fromkeys(result.metric for result in evaluation.results)]
    yield "<h2>How to read this</h2><dl>"
    yield from (f"<dt>{term}</dt><dd>{html.escape(_READING[term])}</dd>" for term in terms if term in _READING)
    yield "</dl>"


# ------------------------------------------------------------------------ rows


def _heads(evaluation: Evaluation) -> list[str]:
    return ["task", "metric", "items", *evaluation.kinds]


def _note(evaluation: Evaluation) -> str:
    kinds = {*evaluation.kinds}
    reported = any(kinds & result.paper.keys() for result in evaluation.results)
    return _INTERVALS + (_BOLD if kinds >= {"baseline", "meaning"} else "") + (_PAPER if reported else "")


def _rows(evaluation: Evaluation, verbose: bool = False) -> Iterator[_Row]:
    kinds = evaluation.kinds
    for result in evaluation.results:
        yield _row("task", result, kinds)
        if result.paper.keys() & kinds:
            known = [_interval(result.paper.get(kind, math.nan)) for kind in kinds]
            yield _Row("paper", ["paper", "", "", *known])
        if verbose:
            yield from (_row("part", part, kinds) for part in result.parts)


def _row(role: str, result: TaskResult, kinds: Sequence[str]) -> _Row:
    skipped = len(_skipped(result))
    items = f"{result.items:,}" + (f" +{skipped:,} skipped" if skipped else "")
    scores = [result.scores.get(kind, Score(math.nan, math.nan, math.nan)) for kind in kinds]
    shown = [_interval(score.value, score.low, score.high) for score in scores]
    best = _clearly_better(result.scores)
    return _Row(role, [result.task, result.metric, items, *shown], 3 + kinds.index(best) if best else None)


def _clearly_better(scores: Mapping[str, Score]) -> str | None:
    if not scores.keys() >= {"baseline", "meaning"}:
        return None
    baseline, meaning = scores["baseline"], scores["meaning"]
    return "meaning" if meaning.low > baseline.high else "baseline" if baseline.low > meaning.high else None


def _compared(comparison: Comparison) -> list[list[str]]:
    return [
        [
            each.task,
            each.kind,
            _interval(each.difference, each.low, each.high, sign="+"),
            "–" if math.isnan(each.p) else "<0.001" if each.p < 0.001 else f"{each.p:.3f}",
        ]
        for each in comparison.differences
    ]


def _interval(value: float, low: float = math.nan, high: float = math.nan, sign: str = "") -> str:
    if not math.isfinite(value):
        return "–"
    shown, *ends = (f"{100 * each:{sign}.1f}" for each in (value, low, high))
    return f"{shown} [{', '.join(ends)}]" if math.isfinite(low) and math.isfinite(high) else shown


def _skipped(result: TaskResult) -> list[Skipped]:
    """Its own, or those of its parts."""
    return result.skipped or [skipped for part in result.parts for skipped in _skipped(part)]


def _with_skipped(evaluation: Evaluation) -> list[TaskResult]:
    return [result for result in evaluation.results if _skipped(result)]


def _reasons(result: TaskResult) -> str:
    counted = Counter(skipped.reason for skipped in _skipped(result))
    return "; ".join(f"{count:,} × {reason}" for reason, count in counted.most_common())


# --------------------------------------------------------------------- formats


def _terminal_table(title: str, heads: Sequence[str]) -> Table:
    """Of which, in a narrow terminal, only long names and numbers of items are folded."""
    drawn = Table(title=Text(title, "bold"), title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for place, head in enumerate(heads):
        drawn.add_column(
            head,
            justify="right" if place > 1 else "left",
            no_wrap=head not in {"task", "items"},
            min_width=len("skipped") if head == "items" else None,
        )
    return drawn


def _markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    ruler = ["---" if place < 2 else "--:" for place in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (map(_literal, heads), ruler, *rows))


def _literal(text: str) -> str:
    """Text that Markdown takes for nothing else."""
    return re.sub(r"([\\`*_|<])", r"\\\1", " ".join(text.split()))


def _html_table(name: str, heads: Sequence[str], rows: Iterable[_Row]) -> str:
    lines = [f'<div class="scroll" role="region" aria-label="{name}" tabindex="0"><table>\n<thead><tr>']
    lines += [f'<th scope="col">{html.escape(head)}</th>' for head in heads]
    lines += ["</tr></thead>\n<tbody>"]
    for row in rows:
        cells = [html.escape(cell) for cell in row.cells]
        cells = [f"<strong>{cell}</strong>" if place == row.best else cell for place, cell in enumerate(cells)]
        first, rest = cells[0], "".join(f"<td>{cell}</td>" for cell in cells[1:])
        lines.append(f'<tr class="{row.role}"><th scope="row">{first}</th>{rest}</tr>\n')
    return "".join(lines) + "</tbody></table></div>"


def _plain(value: Any) -> Any:
    """As JSON has it: without what belongs to single items, and without NaN."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in {"similarities", "gold"}}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
