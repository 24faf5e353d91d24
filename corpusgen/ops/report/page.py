"""The page of a report: its header, its sections, the browsers of rows; one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from corpusgen.ops.funnel import Funnel
from corpusgen.ops.paragraph_funnel import ParagraphFunnel
from corpusgen.ops.report.about import facts_of
from corpusgen.ops.report.collect import BuildFacts, ProductFacts
from corpusgen.ops.report.pass_sections import rejects_section, speed_section, stages_section
from corpusgen.ops.report.product_sections import (
    funnel_section,
    numbers_section,
    rows_data,
    rows_section,
    words_section,
)
from corpusgen.pages.html import Header, last_step, render_page

_FOLDER = "corpusgen/ops/report"


@dataclass(frozen=True)
class PageSection:
    """A section of the page: its id, the macro that shows it, its title, and what it shows."""

    id: str
    macro: str
    title: str
    found: Any


def to_html(facts: BuildFacts, reload_seconds: int | None = None) -> str:
    """Render the whole page. With `reload_seconds` it reloads itself, for watching a build."""
    sections = list(_sections(facts))
    return render_page(
        f"{_FOLDER}/page.html.j2",
        f"{last_step(facts.url)}: report",
        styles=[f"{_FOLDER}/style.css"],
        scripts=[f"{_FOLDER}/browser.js"],
        reload_seconds=reload_seconds,
        header=_header(facts),
        passes=list(_progress(facts)),
        absent=list(_absent(facts)),
        links={section.id: section.title for section in sections},
        sections=sections,
        sample=[rows_data(found) for found in facts.products.values() if found.sample],
    )


def _absent(facts: BuildFacts) -> Iterator[str]:
    """Yield why there is nothing to see of a product."""
    for product in facts.makes:
        found = facts.products.get(product.table)
        if found and _has_any(found):
            continue
        if product.pass_name in facts.planned:
            yield f"No {product.table} yet: the pass {product.pass_name} has not committed any unit."
        else:
            yield f"No {product.table}: this build ends with targets."


def _has_any(found: ProductFacts) -> bool:
    """Return whether a unit is done, which may have rejects only."""
    return bool(found.rows or (isinstance(found.funnel, Funnel) and found.funnel.targets))


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
    counts: dict[str, int] = {}
    wanted = ("sentences", "targets", *(product.table for product in facts.makes))
    for found in facts.passes:
        for table, count in found.totals.rows.items():
            if table in wanted:
                counts.setdefault(table, count)  # a later pass may have a table of the same name
    for table, product in facts.products.items():
        if isinstance(product.funnel, Funnel):
            counts["distinct targets"] = product.funnel.distinct_targets
        elif isinstance(product.funnel, ParagraphFunnel):
            counts |= {f"sentences in {table}": product.funnel.sentences, f"tokens in {table}": product.funnel.tokens}
        elif product.rows:
            counts[f"words in {table}"] = len(product.made)
    return {name: f"{count:,}" for name, count in counts.items()}


def _sections(facts: BuildFacts) -> Iterator[PageSection]:
    """Yield the sections that have something to show."""
    products = [found for found in facts.products.values() if _has_any(found)]
    several = len(facts.makes) > 1
    for found in products:
        name = _named(found, facts, several)
        if found.funnel:
            yield PageSection(f"funnel{name.suffix}", "funnel", f"Funnel{name.of}", funnel_section(found.funnel))
        title = found.product.table.capitalize()
        yield PageSection(found.product.table, "rows", title, rows_section(found, facts.corpus, name.prefix))
    yield PageSection("stages", "stages", "Stages", stages_section(facts))
    if rejects := rejects_section(facts):
        yield PageSection("rejects", "rejects", "Rejects", rejects)
    for found in products:
        name = _named(found, facts, several)
        if found.rows:
            numbers = numbers_section(found, facts.corpus)
            yield PageSection(f"numbers{name.suffix}", "numbers", f"Numbers{name.of}", numbers)
        if not found.product.members:
            continue
        words = "Targets" if found.tried is not None else "Words"
        yield PageSection(f"{words.lower()}{name.suffix}", "words", f"{words}{name.of}", words_section(found))
    if any(found.stretches for found in facts.passes):
        yield PageSection("speed", "speed", "Throughput", speed_section(facts.passes))


class _Names(NamedTuple):
    """What tells the sections of one product from those of another: in ids, in titles, in fields of forms."""

    suffix: str = ""
    of: str = ""
    prefix: str = ""


def _named(found: ProductFacts, facts: BuildFacts, several: bool) -> _Names:
    table = found.product.table
    if not several:
        return _Names()
    is_first = found.product == facts.makes[0]
    return _Names("" if is_first else f"-{table}", f" of {table}", "" if is_first else f"{table}-")
