"""The sections of a report: each consists of facts alone, which sections.html.j2 puts on the page."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from corpusgen.ops.funnel import KINDS, PAPER, STEPS, Funnel
from corpusgen.ops.report.charts import funnel_shape, histogram
from corpusgen.ops.report.collect import BuildFacts, PassFacts, TripleFacts
from corpusgen.ops.report.histograms import Histogram
from corpusgen.ops.report.samples import Reject
from corpusgen.pages.charts import steps
from corpusgen.pages.html import Figure
from corpusgen.store import StageCount

_WORDS_SHOWN = 24


# ---------------------------------------------------------------------- funnel


@dataclass(frozen=True)
class FunnelCell:
    """A number in a funnel; None if unknown."""

    value: int | None
    share: float | None
    """Its share of all targets."""
    shape: Markup | None = None
    """The piece of the funnel behind it."""


@dataclass(frozen=True)
class FunnelRow:
    """A number here and in the paper, side by side."""

    label: str
    cells: Sequence[FunnelCell]


@dataclass(frozen=True)
class FunnelSection:
    """What became of the targets, and what kinds of triples there are."""

    steps: Sequence[FunnelRow]
    kinds: Sequence[FunnelRow]


def funnel_section(found: Funnel) -> FunnelSection:
    """Return a funnel beside that of the paper."""
    sides, names = (found, PAPER), [name for _, name in STEPS]
    steps_and_next = zip(STEPS, [*names[1:], names[-1]], strict=True)
    return FunnelSection(
        [FunnelRow(label, [_step(side, name, below) for side in sides]) for (label, name), below in steps_and_next],
        [FunnelRow(_unbroken(label), [_cell(side, name) for side in sides]) for label, name in KINDS],
    )


def _unbroken(label: str) -> str:
    """Return a label that does not break next to its sign."""
    return label.replace(" > ", "\N{NO-BREAK SPACE}>\N{NO-BREAK SPACE}")


def _step(side: Funnel, name: str, below: str) -> FunnelCell:
    """Return a number with its piece of the funnel, which narrows towards the next one."""
    share, next_share = _share(side, name), _share(side, below)
    # The paper does not say how many were aligned: there its funnel goes straight to the next number.
    upper = 1.0 if share is None else share
    lower = upper if next_share is None else next_share
    return _cell(side, name, funnel_shape(upper, lower))


def _cell(side: Funnel, name: str, shape: Markup | None = None) -> FunnelCell:
    return FunnelCell(getattr(side, name), _share(side, name), shape)


def _share(side: Funnel, name: str) -> float | None:
    value = getattr(side, name)
    return None if value is None or not side.targets else float(value / side.targets)


# --------------------------------------------------------------------- triples


@dataclass(frozen=True)
class TriplesSection:
    """The browser of triples, whose rows are in the page as data."""

    shown: int
    total: int
    language: str
    rules: Sequence[str]
    """The rules that positives were made by, to filter by."""


def triples_section(found: TripleFacts, corpus: Mapping[str, Any]) -> TriplesSection:
    """Return the data for the browser of triples."""
    language = str(corpus.get("settings", {}).get("language", {}).get("code", ""))
    rules = sorted({triple.rule for triple in found.sample})
    return TriplesSection(len(found.sample), found.funnel.triples, language, rules)


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
    samples = facts.triples.rejects if facts.triples else {}
    found = []
    for one in facts.passes:
        kept = samples if one.name == "generate" else {}
        reasons = {stage.name: _reasons(stage, kept) for stage in one.totals.stages.values() if stage.rejected}
        if reasons or one.quarantined or one.totals.quarantined:
            found.append(PassRejects(one.name, reasons, one.quarantined, one.totals.quarantined))
    return found


def _reasons(stage: StageCount, samples: Mapping[str, Sequence[Reject]]) -> list[Reason]:
    """Return the reasons of a stage, the most frequent first."""
    counts = sorted(stage.rejected.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Reason(reason, count, count / stage.seen, samples.get(reason, ())) for reason, count in counts]


# --------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class NumbersSection:
    """Histograms of all triples."""

    triples: int
    figures: Sequence[Figure]


def numbers_section(found: TripleFacts, corpus: Mapping[str, Any]) -> NumbersSection:
    """Draw the histograms with the thresholds of the rules."""
    bounds = _bounds(corpus.get("settings", {}))
    figures = []
    for column, values in found.histograms.items():
        picture = histogram(values, bounds.get(column)) if values.total else Markup("")
        figures.append(Figure(values.title, values.note, picture, _in_words(values)))
    return NumbersSection(found.funnel.triples, figures)


def _bounds(settings: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """Return the thresholds that the rules set for what the histograms show."""
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


# --------------------------------------------------------------------- targets


@dataclass(frozen=True)
class Word:
    """A target with its number of triples, and of sentences that were tried."""

    text: str
    made: int
    tried: int


@dataclass(frozen=True)
class TargetsSection:
    """Which targets have many triples, and which have none."""

    tried: int
    without_triple: int
    words: Mapping[str, Sequence[Word]]
    """Words by the name of their list."""


def targets_section(found: TripleFacts) -> TargetsSection:
    """Return the most and the least covered targets."""

    def rank(word: str) -> tuple[int, int, int]:
        return found.made[word], -found.tried[word], zlib.crc32(word.encode())

    lists = {
        "most covered": heapq.nlargest(_WORDS_SHOWN, found.made, rank),
        "least covered": heapq.nsmallest(_WORDS_SHOWN, found.made, rank),
    }
    return TargetsSection(
        len(found.made),
        sum(not count for count in found.made.values()),
        {title: [Word(word, found.made[word], found.tried[word]) for word in words] for title, words in lists.items()},
    )


# ------------------------------------------------------------------ throughput


@dataclass(frozen=True)
class PassSpeed:
    """The speed of a pass and its stages."""

    name: str
    seconds: float
    figures: Sequence[Figure]


@dataclass(frozen=True)
class SpeedSection:
    """Speeds over time, for passes that have enough units."""

    passes: Sequence[PassSpeed]
    too_short: Sequence[str]


def speed_section(passes: Sequence[PassFacts]) -> SpeedSection:
    """Draw the speeds of passes and their stages."""
    drawn = [
        PassSpeed(found.name, found.stretches[-1].edges[-1], _speeds(found)) for found in passes if found.stretches
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
