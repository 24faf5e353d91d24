"""The page of a report: its header, its sections, the browser of triples; one file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from corpusgen.ops.report.about import facts_of
from corpusgen.ops.report.collect import BuildFacts
from corpusgen.ops.report.samples import Triple
from corpusgen.ops.report.sections import (
    coverage_section,
    funnel_section,
    numbers_section,
    rejects_section,
    stages_section,
    throughput_section,
)
from corpusgen.pages.html import about, figures, heading, last_step, links, measure, page

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
    """The whole page. With `reload_seconds` it loads itself again and again, for whoever watches a build."""
    sections = "\n".join(_sections(facts))
    header = "\n".join(_header(facts, reload_seconds))
    body = (
        f"<header>{header}</header>\n{links(_LINKS, sections)}\n<main>\n{sections}\n</main>\n"
        f'<script type="application/json" id="sample">{_sample(facts)}</script>'
    )
    title = escape(f"{last_step(facts.url)}: report")
    return page(title, body, _resource("style.css"), _resource("browser.js"), reload_seconds)


def _resource(name: str) -> str:
    return files("corpusgen.ops.report").joinpath(name).read_text(encoding="utf-8")


def _header(facts: BuildFacts, reload_seconds: int | None) -> Iterator[str]:
    state = "complete" if facts.complete else "not complete"
    ended = "finished" if facts.complete else "last unit"
    dates = {"begun": facts.begun, ended: facts.latest, "this page": facts.made_at}
    yield from heading("corpus", facts.url, state, facts.complete, dates, reload_seconds)
    yield f'<ol class="passes">{"".join(_progress(facts))}</ol>'
    yield figures(_figures(facts))
    yield from about(facts_of(facts.corpus), facts.corpus.get("settings", {}))


def _progress(facts: BuildFacts) -> Iterator[str]:
    found = {one.name: one.totals for one in facts.passes}
    for name in facts.planned:
        totals = found.get(name)
        done = totals.committed / totals.units if totals and totals.units else float(bool(totals))
        units = f"{totals.committed:,} of {totals.units:,} units" if totals else "not begun"
        yield f"<li><b>{escape(name)}</b>{measure(done)}<small>{units}</small></li>"


def _figures(facts: BuildFacts) -> dict[str, str]:
    rows = {table: count for found in facts.passes for table, count in found.totals.rows.items()}
    counts: dict[str, int] = {table: rows[table] for table in ("sentences", "targets", "triples") if table in rows}
    if facts.triples:
        counts["distinct targets"] = facts.triples.funnel.distinct_targets
    return {name: f"{count:,}" for name, count in counts.items()}


def _sections(facts: BuildFacts) -> Iterator[str]:
    if facts.triples and facts.triples.funnel.targets:
        yield from funnel_section(facts.triples.funnel)
        yield from _browser(facts)
    elif "generate" in facts.planned:
        yield '<p class="absent">No triples yet: the pass generate has not committed any unit.</p>'
    else:
        yield '<p class="absent">No triples: this build ends with targets.</p>'
    yield from stages_section(facts)
    yield from rejects_section(facts)
    if facts.triples and facts.triples.funnel.triples:
        yield from numbers_section(facts.triples, facts.corpus)
    if facts.triples and facts.triples.made:
        yield from coverage_section(facts.triples)
    yield from throughput_section(facts.passes)


def _browser(facts: BuildFacts) -> Iterator[str]:
    assert facts.triples
    shown, total = len(facts.triples.sample), facts.triples.funnel.triples
    yield '<h2 id="triples">Triples</h2>'
    if not shown:
        yield '<p class="note">None so far.</p>'
        return
    which = "All of them are in this page."
    if shown < total:
        which = (
            f"{shown:,} of {total:,} are in this page: those with the lowest ids, which are hashes, so a fair sample."
        )
    yield f'<p class="note">{which} <mark class="target">wt</mark> is the word of the original sentence, '
    yield '<mark class="positive">wp</mark> says the same, <mark class="negative">wn</mark> fits as well and means '
    yield "something else.</p>"
    language = escape(str(facts.corpus.get("settings", {}).get("language", {}).get("code", "")))
    rules = dict.fromkeys(triple.rule for triple in facts.triples.sample)
    options = "".join(f"<option>{escape(rule)}</option>" for rule in sorted(rules))
    yield f"""<noscript><p>To look through the triples, allow this page its script.</p></noscript>
<form id="filters" role="search" autocomplete="off">
<label class="wide">search<input type="search" name="text" placeholder="a word or a piece of text"></label>
<label>target<input type="search" name="target" list="targets-of-sample" placeholder="any"></label>
<label>positive<select name="rule"><option value="">any</option>{options}</select></label>
<label>edit distance ≥<input type="number" name="distance" min="0" inputmode="numeric" placeholder="0"></label>
</form>
<datalist id="targets-of-sample"></datalist>
<p class="note" id="found" role="status"></p>
<ol id="list" lang="{language}"></ol>
<button type="button" id="more" hidden>Show more</button>"""


def _sample(facts: BuildFacts) -> str:
    """JSON that no text in it can end: it has no `<`."""
    sample: Sequence[Triple] = facts.triples.sample if facts.triples else ()
    rows: list[list[Any]] = [list(vars(triple).values()) for triple in sample]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
