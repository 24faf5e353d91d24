"""Pictures as inline SVG, drawn in the colours of the page."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from corpusgen.report.histograms import Histogram

Numbers = npt.NDArray[np.float64]

_WIDTH = 320
_LEFT, _RIGHT, _TOP = 4.0, 316.0, 20.0
_MOST_TICKS = 7


def funnel_shape(upper: float, lower: float) -> str:
    """A piece of a funnel: from a share of the width above to one below. The box around it gives it its size."""
    corners = [(50 - 50 * upper, 0), (50 + 50 * upper, 0), (50 + 50 * lower, 10), (50 - 50 * lower, 10)]
    points = " ".join(f"{x:.2f},{y}" for x, y in corners)
    return f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><polygon points="{points}"/></svg>'


def histogram(found: Histogram, bound: tuple[str, float] | None = None) -> str:
    """Bars over an axis that spans what there is; `bound` is a threshold with its name, drawn as a line."""
    height, base = 148, 126.0
    low, high, ticks = _axis_of(found, bound[1] if bound else None)
    scale = np.log10 if found.is_log else np.asarray

    def across(value: float | Numbers) -> Numbers:
        share = (scale(value) - scale(low)) / (scale(high) - scale(low))
        return np.asarray(_LEFT + (_RIGHT - _LEFT) * share)

    most = max(int(found.counts.max()), 1)
    parts = [f'<path class="grid" d="M{_LEFT} {_TOP}H{_RIGHT}"/>']
    for count, first, last in zip(found.counts.tolist(), found.edges[:-1], found.edges[1:], strict=True):
        if count and first < high and last > low:
            x, end = float(across(first)), float(across(last))
            tall = max((base - _TOP) * count / most, 0.75)
            label = f"{round(first + 0.5):,}" if found.is_whole else f"{first:.3g} to {last:.3g}"
            parts.append(
                f'<rect class="bar" x="{x + 0.4:.1f}" y="{base - tall:.1f}" width="{max(end - x - 0.8, 0.6):.1f}" '
                f'height="{tall:.1f}"><title>{label}: {count:,}</title></rect>'
            )
    parts.append(f'<path class="axis" d="M{_LEFT} {base}H{_RIGHT}"/>')
    for tick in ticks:
        x = float(across(tick))
        anchor = "start" if x < _LEFT + 8 else "end" if x > _RIGHT - 8 else "middle"
        parts.append(_text(x, base + 16, f"{tick:g}", anchor))
    is_right = False
    if bound:
        x = float(across(bound[1]))
        is_right = x > _WIDTH / 2
        parts.append(f'<path class="bound" d="M{x:.1f} {_TOP - 14}V{base}"/>')
        parts.append(
            _text(x + (-5 if is_right else 5), _TOP - 5, bound[0], "end" if is_right else "start", "bound-name")
        )
    # How high the tallest bar is, on the side that the name of the bound leaves free.
    parts.append(_text(_LEFT if is_right else _RIGHT, _TOP - 5, f"{most:,}", "start" if is_right else "end"))
    return _svg(height, f"{found.title}: {found.note}, {found.total:,} values", parts)


def steps(label: str, edges: Sequence[Numbers], rates: Sequence[Numbers]) -> str:
    """Rates over time as a line in steps, one piece for each stretch of time; nan is a hole in it."""
    height, base = 112, 90.0
    end = float(edges[-1][-1])
    top = _round_up(max((float(np.nanmax(rate)) for rate in rates if not np.isnan(rate).all()), default=1.0))
    parts = [f'<path class="grid" d="M{_LEFT} {_TOP}H{_RIGHT}M{_LEFT} {(_TOP + base) / 2}H{_RIGHT}"/>']
    for times, rate in zip(edges, rates, strict=True):
        x = (_LEFT + (_RIGHT - _LEFT) * times / end).round(1).tolist()
        y = (base - (base - _TOP) * rate / top).round(1).tolist()
        area, line = f"M{x[0]} {base}", ""
        for level, since, until, before in zip(y, x, x[1:], [math.nan, *y], strict=False):
            area += f"V{base if math.isnan(level) else level}H{until}"
            if not math.isnan(level):
                line += f"{f'M{since} {level}' if math.isnan(before) else f'V{level}'}H{until}"
        parts.append(f'<path class="area" d="{area}V{base}Z"/><path class="line" d="{line}"/>')
    for times in edges[1:]:
        x_of_break = _LEFT + (_RIGHT - _LEFT) * float(times[0]) / end
        parts.append(f'<path class="break" d="M{x_of_break:.1f} {_TOP}V{base}"><title>resumed</title></path>')
    parts.append(f'<path class="axis" d="M{_LEFT} {base}H{_RIGHT}"/>')
    parts.append(_text(_LEFT, _TOP - 5, f"{rate_text(top)}/s", "start"))
    parts.append(_text(_LEFT, base + 16, "0", "start"))
    parts.append(_text(_RIGHT, base + 16, duration(end), "end"))
    return _svg(height, label, parts)


def rate_text(rate: float) -> str:
    """With as many digits as mean something."""
    return f"{rate:,.0f}" if rate >= 20 else f"{rate:.3g}"


def duration(seconds: float) -> str:
    """In the two largest units."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _axis_of(found: Histogram, bound: float | None) -> tuple[float, float, list[float]]:
    """Where the axis begins and ends, and its ticks: round numbers around all values and the bound."""
    filled = np.flatnonzero(found.counts)
    ends = [found.edges[filled[0]], found.edges[filled[-1] + 1]] if len(filled) else [found.edges[0], found.edges[-1]]
    if bound is not None:
        ends = [min(ends[0], bound), max(ends[1], bound)]
    if found.is_log:
        first = math.floor(math.log10(ends[0]) + 1e-9)
        last = max(math.ceil(math.log10(ends[1]) - 1e-9), first + 1)
        return 10.0**first, 10.0**last, [10.0**power for power in range(first, last + 1)]
    steps = (1.0, 2.0, 5.0, 10.0, 20.0) if found.is_whole else (0.05, 0.1, 0.2, 0.5)
    step = next(step for step in steps if (ends[1] - ends[0]) / step <= _MOST_TICKS or step == steps[-1])
    first, last = math.floor(ends[0] / step + 1e-9), math.ceil(ends[1] / step - 1e-9)
    ticks = [round(number * step, 2) for number in range(first, last + 1)]
    if found.is_whole:  # each number has its bar around it, and the axis need not go on to the next tick
        return ends[0], ends[1], [tick for tick in ticks if ends[0] < tick < ends[1]]
    return ticks[0], ticks[-1], ticks


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value * (1 - 1e-9))


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _svg(height: int, label: str, parts: Sequence[str]) -> str:
    start = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{html.escape(label)}">'
    return start + "".join(parts) + "</svg>"
