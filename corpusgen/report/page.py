"""The page of a report: its header, its sections, the browser of triples; one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

import yaml

from corpusgen.report.about import about
from corpusgen.report.collect import BuildFacts
from corpusgen.report.samples import Triple
from corpusgen.report.sections import (
    coverage_section,
    funnel_section,
    numbers_section,
    rejects_section,
    stages_section,
    throughput_section,
)
from corpusgen.webpage import page

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
    links = "".join(f'<a href="#{id_}">{name}</a>' for id_, name in _LINKS.items() if f'id="{id_}"' in sections)
    header = "\n".join(_header(facts, reload_seconds))
    script = _resource("browser.js")
    body = (
        f"{header}\n<nav aria-label='Sections'>{links}</nav>\n<main>\n{sections}\n</main>\n"
        f'<script type="application/json" id="sample">{_sample(facts)}</script>\n<script>{script}</script>'
    )
    return page(escape(f"{facts.name}: report"), body, _resource("style.css"), _head(script, reload_seconds))


def _resource(name: str) -> str:
    return files("corpusgen.report").joinpath(name).read_text(encoding="utf-8")


def _head(script: str, reload_seconds: int | None) -> str:
    """Nothing may be fetched, and no script runs but ours, whatever the texts of a corpus hold."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    lines = [f'<meta http-equiv="Content-Security-Policy" content="{policy}">', '<link rel="icon" href="data:,">']
    if reload_seconds:  # a script does it better: it lets people finish typing
        lines.append(f'<noscript><meta http-equiv="refresh" content="{reload_seconds}"></noscript>')
    return "\n".join(lines) + "\n"


def _header(facts: BuildFacts, reload_seconds: int | None) -> Iterator[str]:
    state = "complete" if facts.complete else "not complete"
    yield f'<header><p class="kind-of-page">corpus</p><h1>{escape(facts.name)}</h1>'
    yield f'<p class="root">{escape(facts.url)}</p>'
    dates = [f'<span class="state {state.replace(" ", "-")}">{state}</span>']
    if facts.begun:
        dates.append(f"begun {_moment(facts.begun)}")
    if facts.latest:
        dates.append(f"{'finished' if facts.complete else 'last unit'} {_moment(facts.latest)}")
    dates.append(f"this page {_moment(facts.made_at)}")
    yield f'<p class="dates">{"".join(f"<span>{date}</span>" for date in dates)}</p>'
    if reload_seconds:
        yield (
            f'<p class="watch"><label><input type="checkbox" id="reload" data-seconds="{reload_seconds}" checked> '
            f"The build goes on: this page loads itself again every {reload_seconds} s</label></p>"
        )
    yield f'<ol class="passes">{"".join(_progress(facts))}</ol>'
    if figures := list(_figures(facts)):
        yield f'<dl class="figures">{"".join(figures)}</dl>'
    yield '<dl class="about">'
    for fact in about(facts.corpus):
        fine = f"<small>{escape(fact.fine_print)}</small>" if fact.fine_print else ""
        yield f"<div><dt>{escape(fact.label)}</dt><dd>{escape(fact.value)}{fine}</dd></div>"
    yield "</dl>"
    if settings := facts.corpus.get("settings"):
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        yield f"<details><summary>All settings</summary><pre>{escape(text)}</pre></details>"
    yield "</header>"


def _progress(facts: BuildFacts) -> Iterator[str]:
    found = {one.name: one.totals for one in facts.passes}
    for name in facts.planned:
        totals = found.get(name)
        done = totals.committed / totals.units if totals and totals.units else float(bool(totals))
        units = f"{totals.committed:,} of {totals.units:,} units" if totals else "not begun"
        yield (
            f'<li><b>{escape(name)}</b><span class="measure"><span style="width:{done:.1%}"></span></span>'
            f"<small>{units}</small></li>"
        )


def _figures(facts: BuildFacts) -> Iterator[str]:
    """The few numbers to remember."""
    rows = {table: count for found in facts.passes for table, count in found.totals.rows.items()}
    for table in ("sentences", "targets", "triples"):
        if table in rows:
            yield f"<div><dt>{table}</dt><dd>{rows[table]:,}</dd></div>"
    if facts.triples:
        yield f"<div><dt>distinct targets</dt><dd>{facts.triples.funnel.distinct_targets:,}</dd></div>"


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


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%-d %b %Y %H:%M UTC")
