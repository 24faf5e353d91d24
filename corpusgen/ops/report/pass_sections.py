"""The sections of a report about its passes: each consists of facts alone, which sections.html.j2 puts on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corpusgen.ops.report.collect import BuildFacts, PassFacts
from corpusgen.ops.report.samples import Reject
from corpusgen.pages.charts import duration, steps
from corpusgen.pages.html import Figure, FigureGroup
from corpusgen.store import StageCount

# ------------------------------------------------------------- stages, rejects


@dataclass(frozen=True)
class StagesSection:
    """What each stage took in and gave out."""

    passes: Sequence[PassFacts]
    has_quarantined: bool
    waiting: Sequence[str]
    """Passes that have not begun."""


def stages_section(facts: BuildFacts) -> StagesSection:
    """Return the passes with their stages."""
    begun = {found.name for found in facts.passes}
    return StagesSection(
        facts.passes,
        any(found.totals.quarantined for found in facts.passes),
        [name for name in facts.planned if name not in begun],
    )


@dataclass(frozen=True)
class Reason:
    """A reason why rows were rejected, with some of them."""

    text: str
    count: int
    share: float
    """Share of the rows that the stage processed."""
    samples: Sequence[Reject]


@dataclass(frozen=True)
class PassRejects:
    """The rows that ended in a pass: rejected, by stage, or because they could not be processed."""

    name: str
    reasons: Mapping[str, Sequence[Reason]]
    """Reasons by stage; stages without any are left out."""
    quarantined: Sequence[str]
    all_quarantined: int


def rejects_section(facts: BuildFacts) -> list[PassRejects]:
    """Return the passes that lost rows."""
    samples = {product.product.pass_name: product.rejects for product in facts.products.values()}
    found = []
    for one in facts.passes:
        kept = samples.get(one.name, {})
        reasons = {stage.name: _reasons(stage, kept) for stage in one.totals.stages.values() if stage.rejected}
        if reasons or one.quarantined or one.totals.quarantined:
            found.append(PassRejects(one.name, reasons, one.quarantined, one.totals.quarantined))
    return found


def _reasons(stage: StageCount, samples: Mapping[str, Sequence[Reject]]) -> list[Reason]:
    """Return the reasons of a stage, the most frequent first."""
    counts = sorted(stage.rejected.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Reason(reason, count, count / stage.seen, samples.get(reason, ())) for reason, count in counts]


# ------------------------------------------------------------------ throughput


@dataclass(frozen=True)
class SpeedSection:
    """Speeds over time, for passes that have enough units."""

    passes: Sequence[FigureGroup]
    too_short: Sequence[str]


def speed_section(passes: Sequence[PassFacts]) -> SpeedSection:
    """Draw the speeds of passes and their stages."""
    drawn = [
        FigureGroup(found.name, _speeds(found), f"{duration(found.stretches[-1].edges[-1])} of work")
        for found in passes
        if found.stretches
    ]
    return SpeedSection(drawn, [found.name for found in passes if not found.stretches])


def _speeds(found: PassFacts) -> list[Figure]:
    edges = [stretch.edges for stretch in found.stretches]
    whole = steps(f"{found.name}: rows read a second", edges, [stretch.read for stretch in found.stretches])
    figures = [Figure("whole pass", "rows read, all workers together", whole)]
    for stage in found.stretches[0].speeds:
        speeds = [stretch.speeds[stage] for stretch in found.stretches]
        picture = steps(f"{found.name}, {stage}: rows a second of one worker", edges, speeds)
        figures.append(Figure(stage, "one worker", picture))
    return figures
