"""The page of a report: its header, its sections, the browser of triples; one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from corpusgen.ops.report.about import facts_of
from corpusgen.ops.report.collect import BuildFacts
from corpusgen.ops.report.sections import (
    funnel_section,
    numbers_section,
    rejects_section,
    speed_section,
    stages_section,
    targets_section,
    triples_section,
)
from corpusgen.pages.html import Header, last_step, render_page

_FOLDER = "corpusgen/ops/report"
_LINKS = {
    "funnel": "Funnel",
    "triples": "Triples",
    "stages": "Stages",
    "rejects": "Rejects",
    "numbers": "Numbers",
    "targets": "Targets",
    "speed": "Throughput",
}


def to_html(facts: BuildFacts, reload_seconds: int | None = None) -> str:
    """Render the whole page. With `reload_seconds` it reloads itself, for watching a build."""
    sections = dict(_sections(facts))
    return render_page(
        f"{_FOLDER}/page.html.j2",
        f"{last_step(facts.url)}: report",
        styles=[f"{_FOLDER}/style.css"],
        scripts=[f"{_FOLDER}/browser.js"],
        reload_seconds=reload_seconds,
        header=_header(facts),
        passes=list(_progress(facts)),
        makes_triples="generate" in facts.planned,
        links={name: link for name, link in _LINKS.items() if name in sections},
        sections=sections,
        sample=[list(vars(triple).values()) for triple in facts.triples.sample] if facts.triples else [],
    )


def _header(facts: BuildFacts) -> Header:
    ended = "finished" if facts.complete else "last unit"
    return Header(
        kind="corpus",
        url=facts.url,
        state="complete" if facts.complete else "not complete",
        is_complete=facts.complete,
        dates={"begun": facts.begun, ended: facts.latest, "this page": facts.made_at},
        figures=_figures(facts),
        facts=list(facts_of(facts.corpus)),
        settings=facts.corpus.get("settings", {}),
    )


@dataclass(frozen=True)
class PassProgress:
    """The progress of a pass."""

    name: str
    share: float
    committed: int
    units: int | None
    """None if the pass has not begun."""


def _progress(facts: BuildFacts) -> Iterator[PassProgress]:
    found = {one.name: one.totals for one in facts.passes}
    for name in facts.planned:
        if totals := found.get(name):
            share = totals.committed / totals.units if totals.units else 1.0
            yield PassProgress(name, share, totals.committed, totals.units)
        else:
            yield PassProgress(name, 0.0, 0, None)


def _figures(facts: BuildFacts) -> dict[str, str]:
    rows = {table: count for found in facts.passes for table, count in found.totals.rows.items()}
    counts: dict[str, int] = {table: rows[table] for table in ("sentences", "targets", "triples") if table in rows}
    if facts.triples:
        counts["distinct targets"] = facts.triples.funnel.distinct_targets
    return {name: f"{count:,}" for name, count in counts.items()}


def _sections(facts: BuildFacts) -> Iterator[tuple[str, Any]]:
    """Yield the sections that have something to show, by their ids."""
    triples = facts.triples
    if triples and triples.funnel.targets:
        yield "funnel", funnel_section(triples.funnel)
        yield "triples", triples_section(triples, facts.corpus)
    yield "stages", stages_section(facts)
    if rejects := rejects_section(facts):
        yield "rejects", rejects
    if triples and triples.funnel.triples:
        yield "numbers", numbers_section(triples, facts.corpus)
    if triples and triples.made:
        yield "targets", targets_section(triples)
    if any(found.stretches for found in facts.passes):
        yield "speed", speed_section(facts.passes)
