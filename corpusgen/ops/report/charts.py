"""The pictures of a build: its funnel, and histograms of its rows."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from corpusgen.ops.report.histograms import Histogram
from corpusgen.pages.charts import LEFT, RIGHT, TOP, WIDTH, Numbers, bar, path, round_step, svg, tick_text

_MOST_TICKS = 7


def funnel_shape(upper: float, lower: float) -> Markup:
    """Draw a piece of a funnel, from one share of the width above to another below; its box sets its size."""
    corners = [(50 - 50 * upper, 0), (50 + 50 * upper, 0), (50 + 50 * lower, 10), (50 - 50 * lower, 10)]
    points = " ".join(f"{x:.2f},{y}" for x, y in corners)
    return Markup(
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><polygon points="{}"/></svg>'
    ).format(points)


def histogram(found: Histogram, bound: tuple[str, float] | None = None) -> Markup:
    """Draw bars over an axis that spans the values; `bound` is a threshold with its name, drawn as a line."""
    height, base = 148, 126.0
    low, high, ticks = _axis_of(found, bound[1] if bound else None)
    scale = np.log10 if found.is_log else np.asarray

    def across(value: float | Numbers) -> Numbers:
        share = (scale(value) - scale(low)) / (scale(high) - scale(low))
        return np.asarray(LEFT + (RIGHT - LEFT) * share)

    most = max(int(found.counts.max()), 1)
    parts = [path("grid", f"M{LEFT} {TOP}H{RIGHT}")]
    for count, first, last in zip(found.counts.tolist(), found.edges[:-1], found.edges[1:], strict=True):
        if count and first < high and last > low:
            x, end = float(across(first)), float(across(last))
            tall = max((base - TOP) * count / most, 0.75)
            label = f"{round(first + 0.5):,}" if found.is_whole else f"{first:.3g} to {last:.3g}"
            parts.append(bar("bar", x + 0.4, base - tall, max(end - x - 0.8, 0.6), tall, f"{label}: {count:,}"))
    parts.append(path("axis", f"M{LEFT} {base}H{RIGHT}"))
    for tick in ticks:
        x = float(across(tick))
        anchor = "start" if x < LEFT + 8 else "end" if x > RIGHT - 8 else "middle"
        parts.append(tick_text(x, base + 16, f"{tick:g}", anchor))
    is_right = False
    if bound:
        x = float(across(bound[1]))
        is_right = x > WIDTH / 2
        parts.append(path("bound", f"M{x:.1f} {TOP - 14}V{base}"))
        parts.append(
            tick_text(x + (-5 if is_right else 5), TOP - 5, bound[0], "end" if is_right else "start", "bound-name")
        )
    # The height of the tallest bar, on the side that the name of the bound leaves free.
    parts.append(tick_text(LEFT if is_right else RIGHT, TOP - 5, f"{most:,}", "start" if is_right else "end"))
    return svg(height, f"{found.title}: {found.note}, {found.total:,} values", parts)


def _axis_of(found: Histogram, bound: float | None) -> tuple[float, float, list[float]]:
    """Return the start and end of the axis, and its ticks: round numbers around all values and the bound."""
    filled = np.flatnonzero(found.counts)
    ends = [found.edges[filled[0]], found.edges[filled[-1] + 1]] if len(filled) else [found.edges[0], found.edges[-1]]
    if bound is not None:
        ends = [min(ends[0], bound), max(ends[1], bound)]
    if found.is_log:
        first = math.floor(math.log10(ends[0]) + 1e-9)
        last = max(math.ceil(math.log10(ends[1]) - 1e-9), first + 1)
        return 10.0**first, 10.0**last, [10.0**power for power in range(first, last + 1)]
    step = round_step(ends[1] - ends[0], _MOST_TICKS)
    step = max(step, 1.0) if found.is_whole else step
    first, last = math.floor(ends[0] / step + 1e-9), math.ceil(ends[1] / step - 1e-9)
    ticks = [float(f"{number * step:.9g}") for number in range(first, last + 1)]
    if found.is_whole:  # each number is in the middle of its bar, and the axis may end before the next tick
        return ends[0], ends[1], [tick for tick in ticks if ends[0] < tick < ends[1]]
    return ticks[0], ticks[-1], ticks
