"""The HTML page of static vectors: how they were made, the losses, some words with their neighbours, and scores."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from corpusgen.io.files import Files
from corpusgen.pages.charts import Curve, Scale, curves, legend
from corpusgen.pages.html import Fact, Figure, Header, last_step, render_page, to_bytes
from distiller.static.vectors import Neighbour, StaticVectors

REPORT = "report.html"
_LOSSES = "work/loss.csv"
_FOLDER = "distiller/static"
_SHOWN_WORDS, _NEIGHBOURS = 12, 5


class Shown(NamedTuple):
    """A word of a table with its nearest words."""

    word: str
    nearest: Sequence[Neighbour]


@dataclass(frozen=True)
class TableShown:
    """A table of vectors as the page shows it."""

    path: str
    words: Sequence[Shown]
    scores: str = ""
    """An evaluation in Markdown."""

    @classmethod
    def of(cls, path: str, vectors: StaticVectors, scores: str) -> TableShown:
        """Choose words to show: letters only, spread over the vocabulary from frequent to rare."""
        usual = [word for word in vectors.words if word.isalpha() and len(word) > 3]
        # Frequent words are few: equal steps in the logarithm of the rank. The very first mean little.
        first = 30 if len(usual) > 30 * _SHOWN_WORDS else 1
        ranks = np.unique(np.geomspace(first, max(first, len(usual)), _SHOWN_WORDS).astype(int)) - 1
        chosen = [usual[rank] for rank in ranks.tolist() if rank < len(usual)]
        return cls(path, [Shown(word, vectors.nearest(word, k=_NEIGHBOURS)) for word in chosen], scores)


def write_report(
    files: Files, title: str, facts: Mapping[str, Any], settings: Mapping[str, Any], tables: Sequence[TableShown]
) -> str:
    """Write the page into the folder of a result; return its address."""
    losses = _losses(files)
    remarkable = [name for name in ("words", "dimension", "steps", "loss") if name in facts]
    links = {"loss": "Loss"} if losses else {}
    links |= {"words": "Words", "evaluation": "Evaluation"}
    page = render_page(
        f"{_FOLDER}/report.html.j2",
        f"{last_step(files.url)}: {title}",
        styles=["distiller/evaluation/scores.css"],
        header=Header(
            kind=title,
            url=files.url,
            state="made",
            is_complete=True,
            dates={"this page": time.time()},
            figures={name: _text(facts[name]) for name in remarkable},
            facts=[Fact(name, _text(value)) for name, value in facts.items() if name not in remarkable],
            settings=settings,
        ),
        links=links,
        loss=losses,
        tables=[(table, list(_parts(table.scores))) for table in tables],
    )
    files.write(REPORT, to_bytes(page))
    return f"{files.url}/{REPORT}"


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _parts(scores: str) -> Iterator[Any]:
    """Yield the sentences and tables of an evaluation."""
    if scores:
        from distiller.evaluation.report import from_markdown

        yield from from_markdown(scores)


def _losses(files: Files) -> Figure | None:
    """Draw the losses of a training; None if there was none."""
    if not files.exists(_LOSSES):
        return None
    rows = list(csv.DictReader(io.StringIO(files.read(_LOSSES).decode())))
    if not rows:
        return None
    steps = np.array([float(row["step"]) for row in rows])
    names = {"loss": "training", "targets": "positive", "negatives": "negative"}
    drawn = [Curve(name, kind, steps, np.array([float(row[name]) for row in rows])) for name, kind in names.items()]
    ends = ", ".join(f"{curve.name} from {curve.y[0]:.3g} to {curve.y[-1]:.3g}" for curve in drawn)
    scale = Scale.log(np.concatenate([curve.y for curve in drawn]))
    picture = curves(f"Loss by step: {ends}", drawn, scale, 280, None, "{:.3g}".format)
    return Figure("", "", picture, legend=legend(drawn, "{:.3g}".format), kind="curves")
