"""The sections of a report about a product: each consists of facts alone, which sections.html.j2 puts on the page."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from corpusgen.ops.funnel import KINDS, PAPER, STEPS, Funnel
from corpusgen.ops.funnels import AnyFunnel
from corpusgen.ops.pair_funnel import PairFunnel
from corpusgen.ops.paragraph_funnel import ParagraphFunnel
from corpusgen.ops.report.charts import funnel_shape, histogram
from corpusgen.ops.report.collect import ProductFacts
from corpusgen.ops.report.histograms import Histogram
from corpusgen.pages.html import Figure
from corpusgen.store.products import Product

_WORDS_SHOWN = 24


# ---------------------------------------------------------------------- funnel


@dataclass(frozen=True)
class FunnelCell:
    """A number in a funnel; None if unknown."""

    value: int | None
    share: float | None
    """Its share of what went in."""
    shape: Markup | None = None
    """The piece of the funnel behind it."""


@dataclass(frozen=True)
class FunnelRow:
    """A number here and, if there is something to compare with, elsewhere, side by side."""

    label: str
    cells: Sequence[FunnelCell]


@dataclass(frozen=True)
class FunnelSection:
    """How much of what went in came out, and what kinds of rows there are."""

    note: str
    heads: Sequence[str]
    steps: Sequence[FunnelRow]
    kinds: Sequence[FunnelRow]


def funnel_section(found: AnyFunnel) -> FunnelSection:
    """Return a funnel; one of triples stands beside that of the paper."""
    if isinstance(found, Funnel):
        return _of_triples(found)
    return _of_pairs(found) if isinstance(found, PairFunnel) else _of_paragraphs(found)


def _of_triples(found: Funnel) -> FunnelSection:
    sides = [{name: getattr(side, name) for _, name in (*STEPS, *KINDS)} for side in (found, PAPER)]
    return FunnelSection(
        "What happened to the targets, here and in the paper (Arase & Kajiwara 2021). Percentages are of all targets. "
        "wt is the target, wp the word in its place in the positive sentence.",
        ["here", "paper"],
        _steps(STEPS, sides, [side["targets"] for side in sides]),
        [FunnelRow(_unbroken(label), [_cell(side[name], side["targets"]) for side in sides]) for label, name in KINDS],
    )


def _of_pairs(found: PairFunnel) -> FunnelSection:
    before = found.repeated
    numbers: dict[str, int | None] = {
        "repeats": before.repeats if before else None,
        "paired": before.paired if before else None,
        "pairs": found.pairs,
        "with_negative": found.with_negative,
    }
    labels = ("words that a document repeats", "with candidate pairs", "pairs", "with a negative")
    named = [pair for pair in zip(labels, numbers, strict=True) if numbers[pair[1]] is not None]
    note = ""
    if before:
        note = (
            "What happened to the words that a document has in two sentences: pairs or, below, reasons why not. "
            f"{before.chosen:,} of {before.candidates:,} candidate pairs were chosen, balanced across words. "
        )
    why = dict(before.rejected) if before else {}
    why |= {f"no negative: {reason}": count for reason, count in found.without_negative.items()}
    total = numbers[named[0][1]] or 0
    mean = f"A word has {found.mean_of_a_word:.1f} pairs on average, and {found.most_of_a_word:,} at most."
    return FunnelSection(
        note + mean,
        [],
        _steps(named, [numbers], [total]),
        [
            *(FunnelRow(reason, [_cell(count, total)]) for reason, count in why.items()),
            FunnelRow("distinct words", [FunnelCell(found.words, None)]),
            FunnelRow("documents", [FunnelCell(found.documents, None)]),
        ],
    )


def _of_paragraphs(found: ParagraphFunnel) -> FunnelSection:
    numbers: dict[str, int | None] = {"read": found.read, "paragraphs": found.paragraphs}
    why = {**found.rejected, **({"quarantined": found.quarantined} if found.quarantined else {})}
    others: dict[str, int | None] = {
        "sentences": found.sentences,
        "tokens": found.tokens,
        "tokens in the vocabulary": found.covered,
        "words in the vocabulary": found.words,
    }
    return FunnelSection(
        "What happened to the paragraphs of the source: they were kept or, below, rejected for a reason.",
        [],
        _steps([("paragraphs in the source", "read"), ("kept", "paragraphs")], [numbers], [found.read]),
        [
            *(FunnelRow(reason, [_cell(count, found.read)]) for reason, count in why.items()),
            *(FunnelRow(label, [FunnelCell(value, None)]) for label, value in others.items() if value is not None),
        ],
    )


def _unbroken(label: str) -> str:
    """Return a label that does not break next to its sign."""
    return label.replace(" > ", "\N{NO-BREAK SPACE}>\N{NO-BREAK SPACE}")


def _steps(
    steps: Sequence[tuple[str, str]], sides: Sequence[Mapping[str, int | None]], totals: Sequence[int]
) -> list[FunnelRow]:
    """Return the steps, each with its piece of the funnel, which narrows towards the next one."""
    names = [name for _, name in steps]
    rows = []
    for (label, name), below in zip(steps, [*names[1:], names[-1]], strict=True):
        cells = []
        for side, total in zip(sides, totals, strict=True):
            share, next_share = _share(side[name], total), _share(side[below], total)
            # The paper does not say how many were aligned: there its funnel goes straight to the next number.
            upper = 1.0 if share is None else min(share, 1.0)
            lower = upper if next_share is None else min(next_share, 1.0)
            cells.append(_cell(side[name], total, funnel_shape(upper, lower)))
        rows.append(FunnelRow(label, cells))
    return rows


def _cell(value: int | None, total: int | None, shape: Markup | None = None) -> FunnelCell:
    return FunnelCell(value, _share(value, total), shape)


def _share(value: int | None, total: int | None) -> float | None:
    return None if value is None or not total else value / total


# ------------------------------------------------------------------------ rows


@dataclass(frozen=True)
class RowsSection:
    """The browser of rows, which are in the page as data."""

    table: str
    prefix: str
    """Put before the names of the fields, so that those of two browsers differ."""
    shown: int
    total: int
    language: str
    about: Sequence[tuple[str, str, str]]
    """The name of each member, its class in the page, and how its word relates to the original's."""
    kinds: Sequence[str]
    """The kinds of rows, to filter by."""
    least: Sequence[tuple[str, str]]
    """Columns with whole numbers, to filter by, each with its label."""


MARKS = ("target", "positive", "negative", "other")
"""The classes of members in the page, which give them their colours."""


def rows_section(found: ProductFacts, corpus: Mapping[str, Any], prefix: str) -> RowsSection:
    """Return the data for the browser of rows."""
    product = found.product
    about = [
        (member.name, MARKS[number % len(MARKS)], product.relation(member))
        for number, member in enumerate(product.members)
    ]
    return RowsSection(
        product.table,
        prefix,
        len(found.sample),
        found.rows,
        str(corpus.get("settings", {}).get("language", {}).get("code", "")),
        about,
        sorted({row.kind for row in found.sample if row.kind is not None}),
        [(name, name.replace("_", " ")) for name in found.whole_numbers],
    )


def rows_data(found: ProductFacts) -> dict[str, Any]:
    """Return the rows of a browser, for its script."""
    return {
        "table": found.product.table,
        "members": _named(found.product),
        "numbers": [[name, label] for name, label in found.labels.items()],
        "rows": [[row.kind, row.members, row.numbers, row.notes, row.origin] for row in found.sample],
    }


def _named(product: Product) -> list[list[str]]:
    """Return the name of each member with its class in the page; a text that compares no words has neither."""
    if product.text:
        return [["", ""]]
    return [[member.name, MARKS[number % len(MARKS)]] for number, member in enumerate(product.members)]


# --------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class NumbersSection:
    """Histograms of all rows."""

    table: str
    rows: int
    has_bounds: bool
    figures: Sequence[Figure]


def numbers_section(found: ProductFacts, corpus: Mapping[str, Any]) -> NumbersSection:
    """Draw the histograms with the thresholds of the settings."""
    bounds = _bounds(corpus.get("settings", {}))
    figures = []
    for column, values in found.histograms.items():
        picture = histogram(values, bounds.get(column)) if values.total else Markup("")
        figures.append(Figure(values.title, values.note, picture, _in_words(values)))
    return NumbersSection(found.product.table, found.rows, not bounds.keys().isdisjoint(found.histograms), figures)


def _bounds(settings: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """Return the thresholds that the settings have for what the histograms show."""
    rules = settings.get("rules") or {}
    found: dict[str, tuple[str, float]] = {}
    if rules.get("aligner") == "cosine" and (least := rules.get("align_min_cosine")) is not None:
        found["alignment"] = f"λ ≥ {least:g}", least
    if rules.get("negatives") == "threshold":
        if (most := rules.get("negative_max_cosine")) is not None:
            found["negative_cosine"] = f"< {most:g}", most
        if least := rules.get("negative_min_probability"):
            found["negative_probability"] = f"δ ≥ {least:g}", least
    if (most := (settings.get("discourse") or {}).get("max_overlap")) is not None:
        found["overlap"] = f"≤ {most:g}", most
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


# ----------------------------------------------------------------------- words


@dataclass(frozen=True)
class Word:
    """A word with its number of rows and, where that is known, of sentences that were tried."""

    text: str
    made: int
    tried: int | None


@dataclass(frozen=True)
class WordsSection:
    """Which words have many rows, and which have few or none."""

    table: str
    noun: str
    words: int
    without_row: int | None
    """None where words without a row are not known."""
    lists: Mapping[str, Sequence[Word]]
    """Words by the name of their list."""


def words_section(found: ProductFacts) -> WordsSection:
    """Return the most and the least covered words."""
    made, tried = found.made, found.tried

    def rank(word: str) -> tuple[int, int, int]:
        return made[word], -tried[word] if tried else 0, zlib.crc32(word.encode())

    lists = {
        "most covered": heapq.nlargest(_WORDS_SHOWN, made, rank),
        "least covered": heapq.nsmallest(_WORDS_SHOWN, made, rank),
    }
    return WordsSection(
        found.product.table,
        found.product.noun,
        len(made),
        None if tried is None else sum(not count for count in made.values()),
        {
            title: [Word(word, made[word], None if tried is None else tried[word]) for word in words]
            for title, words in lists.items()
        },
    )
