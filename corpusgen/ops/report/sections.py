"""The sections of a report, each an iterator of HTML: everything that comes out of a store is escaped here."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from corpusgen.ops.funnel import KINDS, PAPER, STEPS, Funnel
from corpusgen.ops.report.charts import funnel_shape, histogram
from corpusgen.ops.report.collect import BuildFacts, PassFacts, TripleFacts
from corpusgen.ops.report.histograms import Histogram
from corpusgen.ops.report.samples import Reject, Spanned
from corpusgen.pages.charts import duration, rate_text, steps
from corpusgen.pages.html import measure
from corpusgen.store import StageCount

_WORDS_SHOWN = 24


def funnel_section(found: Funnel) -> Iterator[str]:
    """Here and in the paper, side by side."""
    yield '<h2 id="funnel">Funnel</h2><p class="note">What became of the targets, here and in the paper (Arase &amp;'
    yield " Kajiwara 2021). Shares are of all targets. wt is the target, wp the word that stands for it in the positive"
    yield " sentence.</p>"
    yield '<div class="funnel" role="table" aria-label="Funnel"><div role="row" class="heads">'
    yield '<span role="columnheader"></span><span role="columnheader">here</span>'
    yield '<span role="columnheader">paper</span></div>'
    names = [name for _, name in STEPS]
    for (label, name), below in zip(STEPS, [*names[1:], names[-1]], strict=True):
        cells = "".join(_step(side, name, below) for side in (found, PAPER))
        yield f'<div role="row" class="step"><span role="rowheader">{escape(label)}</span>{cells}</div>'
    for label, name in KINDS:
        cells = "".join(_kind(side, name) for side in (found, PAPER))
        unbroken = escape(label).replace(" &gt; ", "&nbsp;&gt;&nbsp;")
        yield f'<div role="row" class="kind"><span role="rowheader">{unbroken}</span>{cells}</div>'
    yield "</div>"


def _step(side: Funnel, name: str, below: str) -> str:
    """A number over its piece of the funnel, which narrows towards the next one."""
    share, next_share = _share(side, name), _share(side, below)
    # The paper does not tell how many were aligned: there its funnel goes straight on to the next number.
    upper = 1.0 if share is None else share
    lower = upper if next_share is None else next_share
    return f'<span role="cell">{funnel_shape(upper, lower)}{_number(side, name)}</span>'


def _kind(side: Funnel, name: str) -> str:
    return f'<span role="cell">{_number(side, name)}{measure(_share(side, name) or 0.0)}</span>'


def _number(side: Funnel, name: str) -> str:
    value, share = getattr(side, name), _share(side, name)
    return "<b>–</b>" if value is None or share is None else f"<b>{value:,}</b> <small>{_percent(share)}</small>"


def _share(side: Funnel, name: str) -> float | None:
    value = getattr(side, name)
    return None if value is None or not side.targets else float(value / side.targets)


def stages_section(facts: BuildFacts) -> Iterator[str]:
    """What each stage took in and gave out."""
    yield '<h2 id="stages">Stages</h2><p class="note">A stage that reads or cuts up texts gives out more rows than it'
    yield " takes in. Speeds are of one worker.</p>"
    yield '<div class="scroll" role="region" aria-label="Stages" tabindex="0"><table class="stages"><thead><tr>'
    failed = any(found.totals.quarantined for found in facts.passes)
    heads = ("stage", "in", "out", "rejected", *(("quarantined",) if failed else ()), "rows/s")
    yield "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr></thead>"
    for found in facts.passes:
        totals = found.totals
        rows = ", ".join(f"{count:,} {escape(table)}" for table, count in totals.rows.items())
        units = f"{totals.committed:,} of {totals.units:,} units; {rows}"
        yield f'<tbody><tr class="pass"><th scope="rowgroup" colspan="{len(heads)}">{escape(found.name)}'
        yield f" <small>{units}</small></th></tr>"
        yield from (_stage_row(stage, failed) for stage in totals.stages.values())
        yield "</tbody>"
    yield "</table></div>"
    waiting = [name for name in facts.planned if name not in {found.name for found in facts.passes}]
    if waiting:
        yield f'<p class="note">Not begun yet: {escape(", ".join(waiting))}.</p>'


def _stage_row(stage: StageCount, with_quarantined: bool) -> str:
    ended = [sum(stage.rejected.values()), *((stage.quarantined,) if with_quarantined else ())]
    cells = (
        f"{stage.rows_in:,}",
        f"{stage.rows_out:,}",
        *(f"{count:,}" if count else "–" for count in ended),
        rate_text(stage.seen / stage.seconds) if stage.seconds > 0 else "–",
    )
    return f'<tr><th scope="row">{escape(stage.name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def rejects_section(facts: BuildFacts) -> Iterator[str]:
    """Why rows ended on purpose, with some of them, and records that could not be processed."""
    if not any(found.totals.rejected or found.totals.quarantined for found in facts.passes):
        return
    yield '<h2 id="rejects">Rejects</h2><p class="note">Rows that ended on purpose, by their reason; shares are of what'
    yield " the stage dealt with. Rejected targets are kept: open a reason to see some.</p>"
    samples = facts.triples.rejects if facts.triples else {}
    for found in facts.passes:
        for stage in found.totals.stages.values():
            yield from _reasons(found.name, stage, samples if found.name == "generate" else {})
        if found.quarantined:
            items = "".join(f"<li>{escape(failure)}</li>" for failure in found.quarantined)
            summary = f"{escape(found.name)}: {len(found.quarantined):,} of {found.totals.quarantined:,} quarantined"
            yield f'<details class="quarantine"><summary>{summary}</summary><ul>{items}</ul></details>'


def _reasons(pass_name: str, stage: StageCount, samples: Mapping[str, Sequence[Reject]]) -> Iterator[str]:
    if not stage.rejected:
        return
    yield f'<h3>{escape(stage.name)} <small>{escape(pass_name)}</small></h3><div class="reasons">'
    for reason, count in sorted(stage.rejected.items(), key=lambda pair: (-pair[1], pair[0])):
        share = count / stage.seen
        line = (
            f'<span class="reason">{escape(reason)}</span>{measure(share)}<b>{count:,}</b> '
            f"<small>{_percent(share)}</small>"
        )
        if shown := samples.get(reason):
            items = "".join(f"<li>{_reject(reject)}</li>" for reject in shown)
            yield f"<details><summary>{line}</summary><ol>{items}</ol></details>"
        else:
            yield f'<div class="plain">{line}</div>'
    yield "</div>"


def _reject(reject: Reject) -> str:
    lines = [_sentence("original", _marked(reject.original, "target"))]
    if reject.paraphrase is None and reject.pivot:
        lines.append(_sentence("pivot", escape(reject.pivot)))
    if reject.paraphrase:
        has_word = bool(reject.paraphrase.word)
        paraphrase = _marked(reject.paraphrase, "positive") if has_word else escape(reject.paraphrase.before)
        lines.append(_sentence("paraphrase", paraphrase))
    return "".join(lines)


def _sentence(role: str, marked: str) -> str:
    return f'<p><span class="role">{role}</span><span dir="auto">{marked}</span></p>'


def _marked(sentence: Spanned, kind: str) -> str:
    before, word, after = map(escape, sentence)
    return f'{before}<mark class="{kind}">{word}</mark>{after}'


def numbers_section(found: TripleFacts, corpus: Mapping[str, Any]) -> Iterator[str]:
    """Histograms of all triples."""
    yield '<h2 id="numbers">Cosines, probabilities, lengths</h2>'
    yield f'<p class="note">Of all {found.funnel.triples:,} triples. Broken lines are thresholds of the rules.</p>'
    yield '<div class="panels charts">'
    bounds = _bounds(corpus.get("settings", {}))
    for column, values in found.histograms.items():
        bound = bounds.get(column)
        picture = histogram(values, bound) if values.total else ""
        yield f"<figure><figcaption><b>{escape(values.title)}</b>{escape(values.note)}</figcaption>{picture}"
        yield f'<p class="note">{_in_words(values)}</p></figure>'
    yield "</div>"


def _bounds(settings: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """The thresholds that the rules set for what the histograms show."""
    rules = settings.get("rules") or {}
    found: dict[str, tuple[str, float]] = {}
    if rules.get("aligner") == "cosine" and (least := rules.get("align_min_cosine")) is not None:
        found["alignment"] = f"λ ≥ {least:g}", least
    if rules.get("negatives") == "threshold":
        if (most := rules.get("negative_max_cosine")) is not None:
            found["negative_cosine"] = f"< {most:g}", most
        if least := rules.get("negative_min_probability"):
            found["negative_probability"] = f"δ ≥ {least:g}", least
    return found


def _in_words(values: Histogram) -> str:
    said = []
    if values.total:
        middle = [values.quantile(share) for share in (0.05, 0.5, 0.95)]
        low, median, high = (f"{number:.0f}" if values.is_whole else f"{number:.2g}" for number in middle)
        said.append(f"median {median}, nine of ten between {low} and {high}")
    if values.ones:
        share = values.ones / (values.ones + values.total)
        said.append(f"{values.ones:,} more ({share:.0%}) have the very same word: cosine 1, not drawn")
    return "; ".join(said)


def coverage_section(found: TripleFacts) -> Iterator[str]:
    """Which targets have many triples, and which have none."""
    yield '<h2 id="targets">Targets</h2>'
    none = sum(not count for count in found.made.values())
    yield f'<p class="note">{len(found.made):,} words were tried as targets, {none:,} of them without a triple so far.'
    yield " Beside a word: its triples, of the sentences tried. Of words that are equal in this some are shown.</p>"

    def rank(word: str) -> tuple[int, int, int]:
        return found.made[word], -found.tried[word], zlib.crc32(word.encode())

    lists = {
        "most covered": heapq.nlargest(_WORDS_SHOWN, found.made, rank),
        "least covered": heapq.nsmallest(_WORDS_SHOWN, found.made, rank),
    }
    yield '<div class="covered">'
    for title, words in lists.items():
        yield f"<div><h3>{title}</h3><ul>"
        for word in words:
            yield f"<li><span>{escape(word)}</span> <small>{found.made[word]:,} of {found.tried[word]:,}</small></li>"
        yield "</ul></div>"
    yield "</div>"


def throughput_section(passes: Sequence[PassFacts]) -> Iterator[str]:
    """Speeds over time, of passes that have enough units."""
    drawn = [found for found in passes if found.stretches]
    if not drawn:
        return
    yield '<h2 id="speed">Throughput</h2><p class="note">Rows a second over the time of work. Where a broken line is,'
    yield " the build was stopped and resumed later.</p>"
    for found in drawn:
        edges = [stretch.edges for stretch in found.stretches]
        yield f"<h3>{escape(found.name)}</h3>"
        yield f'<p class="note">{duration(edges[-1][-1])} of work</p><div class="panels charts">'
        read = [stretch.read for stretch in found.stretches]
        yield "<figure><figcaption><b>whole pass</b>rows read, all workers together</figcaption>"
        yield f"{steps(f'{found.name}: rows read a second', edges, read)}</figure>"
        for stage in found.stretches[0].speeds:
            speeds = [stretch.speeds[stage] for stretch in found.stretches]
            yield f"<figure><figcaption><b>{escape(stage)}</b>one worker</figcaption>"
            yield f"{steps(f'{found.name}, {stage}: rows a second of one worker', edges, speeds)}</figure>"
        yield "</div>"
    others = [found.name for found in passes if not found.stretches]
    if others:
        yield f'<p class="note">Too few units to draw: {escape(", ".join(others))}.</p>'


def _percent(share: float) -> str:
    return "&lt; 0.1%" if 0 < share < 0.0005 else f"{share:.1%}"
