"""An evaluation as a terminal table, as JSON, and as Markdown for a model card; page.py renders it as a page."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from distiller.evaluation.plots import in_order
from distiller.evaluation.results import Score, Skipped, TaskResult

_INTERVALS = (
    "Scores are multiplied by 100. Brackets hold 95 % bootstrap intervals: how much a score would vary with other "
    "items of the same kind, not with another training run."
)
_PAPER = " The paper's scores are those reported for BERT-large"
_OTHER_ITEMS = ", some of them for other items, as the rows say"
_PUBLISHED = " Other rows are published scores of static vectors derived from BERT-base."
_SUBWORDS = " Items by sub-words have a word that is not in the vocabulary."
_BOLD = " Bold is the better of baseline and meaning where their intervals do not overlap."
_OF_ITEMS = {"similarities", "gold", "item_indices", "groups"}  # of results: what JSON leaves out
COMPARED = ["task", "metric", "items", "difference", "p"]
PAIRED = (
    "Differences are multiplied by 100, on the same items, with 95 % intervals: above zero, the vectors evaluated here "
    "are better. Unpaired items are those that only one of the two could score; they are not compared."
)


@dataclass(frozen=True)
class TaskDifference:
    """The lead of a model over another on the same items, with its 95 % interval."""

    task: str
    kind: str
    difference: float
    low: float
    high: float
    p: float
    """The probability of so large a difference if the two were equally good."""
    items: int = 0
    """The number of items that both scored, which the difference is about."""
    unpaired: int = 0
    """The number of items that only one scored."""
    metric: str = ""
    second: bool = False
    """Whether it is about a second figure of the same items: a set counts once."""


@dataclass(frozen=True)
class Comparison:
    """A comparison with another model: positive differences favour the evaluated model."""

    other: str
    differences: list[TaskDifference]

    @property
    def title(self) -> str:
        """Return what is compared."""
        kinds = in_order(each.kind for each in self.differences)
        return f"{' and '.join(kinds)} vectors compared with {self.other}".lstrip()


@dataclass
class Evaluation:
    """The results of one run of the benchmarks on one model."""

    model: str
    backbone: str
    results: list[TaskResult]
    seconds: float
    compared: Comparison | None = None

    @property
    def title(self) -> str:
        """Return the model and its backbone; static vectors have no backbone."""
        return f"{self.model} on {self.backbone}" if self.backbone else self.model

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of vectors that have scores."""
        return in_order(kind for result in self.results for kind in result.scores)


@dataclass(frozen=True)
class Row:
    """A row of the table of scores."""

    role: str
    """One of task, part and paper."""
    cells: list[str]
    best: int | None = None
    """The number of the cell to print bold."""


def verdict(evaluation: Evaluation) -> str:
    """Say in one sentence on how many sets the vectors are above, below or like those they are compared with.

    A difference counts if its interval of 95 % does not hold zero; the clearest has the end nearest to zero farthest
    from it. A set counts once, and only if its items could be compared. Empty if there is none.
    """
    compared = evaluation.compared
    known = [each for each in compared.differences if not each.second] if compared else []
    known = [each for each in known if math.isfinite(each.low) and math.isfinite(each.high)]
    if compared is None or not known:
        return ""
    gains, losses = [each for each in known if each.low > 0], [each for each in known if each.high < 0]
    who, whom, sets = f"{known[0].kind.capitalize()} vectors are", compared.other, len(known)
    if not gains and not losses:
        return f"{who} not distinguishable from {whom} on {_of_sets(0, sets)}."
    clear = [("above", "gain", gains, lambda each: each.low), ("below", "loss", losses, lambda each: -each.high)]
    clear = [kind for kind in clear if kind[2]]
    places = [f"{where} {whom} on {_of_sets(len(found), sets)}" for where, _, found, _ in clear]
    if rest := sets - len(gains) - len(losses):
        places.append(f"not distinguishable on {'the other' if rest == 1 else f'the other {rest}'}")
    named = []
    for _, name, found, clearness in clear:
        best = max(found, key=clearness)
        named.append(f"the clearest {name} is {best.task}, {_interval(best.difference, best.low, best.high, sign='+')}")
    return f"{who} {_listed(places)}; {_listed(named)}."


def _of_sets(count: int, sets: int) -> str:
    if sets == 1:
        return "the only set"
    return f"any of {sets} sets" if not count else f"all {sets} sets" if count == sets else f"{count} of {sets} sets"


def _listed(parts: Sequence[str]) -> str:
    *before, last = parts
    return f"{', '.join(before)} and {last}" if before else last


def terminal(evaluation: Evaluation, verbose: bool = False) -> Iterator[Table | Text]:
    """Yield what a terminal shows: the verdict, the differences, then the scores."""
    if said := verdict(evaluation):
        yield Text(f"{said}\n")
    if evaluation.compared:
        yield comparison_table(evaluation.compared)
    yield table(evaluation, verbose)


def table(evaluation: Evaluation, verbose: bool = False) -> Table:
    """Return a terminal table with a row for each task, and with `verbose` for each of its parts."""
    drawn = _terminal_table(evaluation.title, heads(evaluation))
    for row in rows(evaluation, verbose):
        cells = [Text(cell, "bold" if column == row.best else "") for column, cell in enumerate(row.cells)]
        cells[0].pad_left({"task": 0, "part": 2, "paper": 2}[row.role])
        drawn.add_row(*cells, style="dim" if row.role == "paper" else None)
    return drawn


def comparison_table(comparison: Comparison) -> Table:
    """Return a terminal table of the differences from the other model."""
    drawn = _terminal_table(comparison.title, COMPARED)
    for cells in compared_cells(comparison):
        drawn.add_row(*map(Text, cells))
    return drawn


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return everything but the predictions and ratings of single items as JSON values; unknown figures are None."""
    plain: dict[str, Any] = _plain(asdict(evaluation))
    return {**plain, "verdict": verdict(evaluation)}


def to_markdown(evaluation: Evaluation) -> str:
    """Render the evaluation as Markdown for a model card: the verdict and the differences, then the scores."""
    blocks = [_literal(said)] if (said := verdict(evaluation)) else []
    if evaluation.compared:
        differences = [[_literal(cell) for cell in cells] for cells in compared_cells(evaluation.compared)]
        title = _literal(evaluation.compared.title)
        blocks += [f"{title[:1].upper()}{title[1:]}:", _markdown_table(COMPARED, differences), PAIRED]
    lines = []
    for row in rows(evaluation):
        cells = [_literal(cell) for cell in row.cells]
        lines.append([f"**{cell}**" if column == row.best else cell for column, cell in enumerate(cells)])
    blocks += [_markdown_table(heads(evaluation), lines), note(evaluation)]
    skipped = [f"- {_literal(result.task)}: {_literal(reasons(result))}" for result in with_skipped(evaluation)]
    if skipped:
        blocks += ["Items without a score:", "\n".join(skipped)]
    return "\n\n".join(blocks) + "\n"


def from_markdown(text: str) -> Iterator[tuple[list[str], list[Row]] | str]:
    """Parse the output of `to_markdown`: yield tables as columns and rows, everything else as paragraphs."""
    for block in filter(None, text.split("\n\n")):
        if not block.startswith("| "):
            yield _unescaped(block.strip())
            continue
        columns, *lines = (line.removeprefix("| ").removesuffix(" |").split(" | ") for line in block.splitlines())
        yield [_unescaped(cell) for cell in columns], [_read_row(cells) for cells in lines[1:]]  # after the ruler


def _read_row(cells: Sequence[str]) -> Row:
    best = next((column for column, cell in enumerate(cells) if cell.startswith("**")), None)
    plain = [_unescaped(cell.removeprefix("**").removesuffix("**")) for cell in cells]
    return Row("paper" if plain[2:3] == [""] else "task", plain, best)  # rows of a paper have no number of items


# ------------------------------------------------------------------------ rows


def heads(evaluation: Evaluation) -> list[str]:
    """Return the heads of the columns."""
    return ["task", "metric", "items", *evaluation.kinds]


def note(evaluation: Evaluation) -> str:
    """Return a note that explains the figures."""
    kinds = {*evaluation.kinds}
    reported = any(kinds & result.paper.keys() for result in evaluation.results)
    elsewhere = any(kinds & result.paper.keys() and result.paper_items for result in evaluation.results)
    said = _INTERVALS + (_BOLD if kinds >= {"baseline", "meaning"} else "")
    if reported:
        said += _PAPER + (_OTHER_ITEMS if elsewhere else "") + "."
    said += _SUBWORDS if any(result.by_subwords for result in evaluation.results) else ""
    return said + (_PUBLISHED if any(result.published for result in evaluation.results) else "")


def rows(evaluation: Evaluation, verbose: bool = False) -> Iterator[Row]:
    """Yield a row for each task, rows for its published scores and, with `verbose`, rows for its parts."""
    kinds = evaluation.kinds
    for result in evaluation.results:
        yield _row("task", result, kinds)
        if result.paper.keys() & kinds:
            known = [_interval(result.paper.get(kind, math.nan)) for kind in kinds]
            whose = f"paper, {result.paper_items}" if result.paper_items else "paper"
            yield Row("paper", [whose, "", "", *known])
        for name, value in result.published.items():
            yield Row("paper", [name, "", "", *(_interval(value if kind == "static" else math.nan) for kind in kinds)])
        if verbose:
            yield from (_row("part", part, kinds) for part in result.parts)


def _row(role: str, result: TaskResult, kinds: Sequence[str]) -> Row:
    skipped = len(skipped_of(result))
    items = f"{result.items:,}" + (f" ({result.by_subwords:,} by sub-words)" if result.by_subwords else "")
    items += f" +{skipped:,} skipped" if skipped else ""
    scores = [result.scores.get(kind, Score(math.nan, math.nan, math.nan)) for kind in kinds]
    shown = [_interval(score.value, score.low, score.high) for score in scores]
    best = _clearly_better(result.scores)
    return Row(role, [result.task, result.metric, items, *shown], 3 + kinds.index(best) if best else None)


def _clearly_better(scores: Mapping[str, Score]) -> str | None:
    if not scores.keys() >= {"baseline", "meaning"}:
        return None
    baseline, meaning = scores["baseline"], scores["meaning"]
    return "meaning" if meaning.low > baseline.high else "baseline" if baseline.low > meaning.high else None


def compared_cells(comparison: Comparison) -> list[list[str]]:
    """Return the cells of a comparison, row by row."""
    return [
        [
            each.task,
            each.metric,
            f"{each.items:,}" + (f" +{each.unpaired:,} unpaired" if each.unpaired else ""),
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


def skipped_of(result: TaskResult) -> list[Skipped]:
    """Return the skipped items of a result, or of its parts if it lists none."""
    return result.skipped or [skipped for part in result.parts for skipped in skipped_of(part)]


def with_skipped(evaluation: Evaluation) -> list[TaskResult]:
    """Return the results with skipped items."""
    return [result for result in evaluation.results if skipped_of(result)]


def reasons(result: TaskResult) -> str:
    """Return the reasons why items were skipped, with counts."""
    counted = Counter(skipped.reason for skipped in skipped_of(result))
    return "; ".join(f"{count:,} × {reason}" for reason, count in counted.most_common())


def notes(evaluation: Evaluation) -> Iterator[str]:
    """Yield the notes below a table: what the figures mean, and which items each task skipped and why."""
    yield note(evaluation)
    for result in with_skipped(evaluation):
        yield f"{result.task}: skipped {reasons(result)}"


# --------------------------------------------------------------------- formats


def _terminal_table(title: str, heads: Sequence[str]) -> Table:
    """Make a table; in a narrow terminal only long names and numbers of items wrap."""
    drawn = Table(title=Text(title, "bold"), title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for column, head in enumerate(heads):
        drawn.add_column(
            head,
            justify="right" if column > 1 else "left",
            no_wrap=head not in {"task", "items"},
            min_width=len("skipped") if head == "items" else None,
        )
    return drawn


def _markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    ruler = ["---" if column < 2 else "--:" for column in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (map(_literal, heads), ruler, *rows))


def _literal(text: str) -> str:
    """Escape text, so that Markdown shows it literally."""
    return re.sub(r"([\\`*_|<])", r"\\\1", " ".join(text.split()))


def _unescaped(literal: str) -> str:
    return re.sub(r"\\([\\`*_|<])", r"\1", literal)


def _plain(value: Any) -> Any:
    """Convert a value to plain JSON values, without the data of single items and without NaN."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key not in _OF_ITEMS}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
