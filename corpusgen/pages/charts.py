"""Charts as inline SVG, drawn in the colours of the page (page.css)."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

WIDTH = 320
LEFT, RIGHT, TOP = 4.0, 316.0, 20.0
_MOST_POINTS = 400  # of a curve; more cannot be told apart
_MOST_DOTS = 60
_MOST_TICKS = 6


def steps(label: str, edges: Sequence[Numbers], rates: Sequence[Numbers]) -> str:
    """Rates over time as a line in steps, one piece for each stretch of time; nan is a hole in it."""
    height, base = 112, 90.0
    end = float(edges[-1][-1])
    top = _round_up(max((float(np.nanmax(rate)) for rate in rates if not np.isnan(rate).all()), default=1.0))
    parts = [f'<path class="grid" d="M{LEFT} {TOP}H{RIGHT}M{LEFT} {(TOP + base) / 2}H{RIGHT}"/>']
    for times, rate in zip(edges, rates, strict=True):
        x = (LEFT + (RIGHT - LEFT) * times / end).round(1).tolist()
        y = (base - (base - TOP) * rate / top).round(1).tolist()
        area, line = f"M{x[0]} {base}", ""
        for level, since, until, before in zip(y, x, x[1:], [math.nan, *y], strict=False):
            area += f"V{base if math.isnan(level) else level}H{until}"
            if not math.isnan(level):
                line += f"{f'M{since} {level}' if math.isnan(before) else f'V{level}'}H{until}"
        parts.append(f'<path class="area" d="{area}V{base}Z"/><path class="line" d="{line}"/>')
    for times in edges[1:]:
        x_of_break = LEFT + (RIGHT - LEFT) * float(times[0]) / end
        parts.append(f'<path class="break" d="M{x_of_break:.1f} {TOP}V{base}"><title>resumed</title></path>')
    parts.append(f'<path class="axis" d="M{LEFT} {base}H{RIGHT}"/>')
    parts.append(tick_text(LEFT, TOP - 5, f"{rate_text(top)}/s", "start"))
    parts.append(tick_text(LEFT, base + 16, "0", "start"))
    parts.append(tick_text(RIGHT, base + 16, duration(end), "end"))
    return svg(height, label, parts)


class Curve(NamedTuple):
    """A line of a chart. What is not a finite number is a hole in it."""

    name: str
    kind: str
    """Says how it is drawn: a class of the stylesheet."""
    x: Numbers
    y: Numbers
    has_dots: bool = False
    """Whether each of its points is one to look at, unless they are too many."""


class Scale(NamedTuple):
    """The range of an axis and its ticks."""

    low: float
    high: float
    ticks: Sequence[float]
    is_log: bool = False

    @classmethod
    def linear(cls, values: Numbers, most_ticks: int = _MOST_TICKS) -> Scale:
        """From one round number to another; from nothing, if all values are the same."""
        low, high = _range(values)
        if math.isclose(low, high):
            low, high = min(low, 0.0), max(high, 0.0) or float(not low)
        step = _round_step(high - low, most_ticks)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        ticks = [float(f"{number * step:.12g}") for number in range(first, last + 1)]
        return cls(ticks[0], ticks[-1], ticks)

    @classmethod
    def log(cls, values: Numbers) -> Scale:
        """Around all values that are more than nothing; linear, if they are of one order of magnitude."""
        low, high = _range(values[values > 0])
        if not low or high < 5 * low:
            return cls.linear(values)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factors in ((1, 2, 5), (1,)):
            ticks = [tick for power in powers for factor in factors if low <= (tick := factor * 10.0**power) <= high]
            if len(ticks) <= _MOST_TICKS:
                break
        return cls(low / 1.1, high * 1.1, ticks[:: -(-len(ticks) // _MOST_TICKS)], is_log=True)

    def shares(self, values: Numbers) -> Numbers:
        """Where on the axis values lie: 0 is its beginning, 1 its end."""
        if not self.is_log:
            return (values - self.low) / (self.high - self.low)
        known = np.where(values > 0, values, np.nan)
        return np.asarray((np.log(known) - math.log(self.low)) / (math.log(self.high) - math.log(self.low)))


def curves(
    label: str,
    drawn: Sequence[Curve],
    scale: Scale,
    height: int = 150,
    bound: tuple[str, float] | None = None,
    say: Callable[[float], str] = "{:g}".format,
) -> str:
    """Curves over steps, as wide as there is room: what is written stays as large as it is.

    `bound` is a step with its name, drawn as a line; `say` writes the values of the vertical axis.
    """
    end = max((float(curve.x[-1]) for curve in drawn if len(curve.x)), default=1.0)
    rows = [(tick, float(height - height * scale.shares(np.array([tick]))[0])) for tick in scale.ticks]
    parts = [f'<path class="grid" d="{"".join(f"M0 {y:.1f}H100" for _, y in rows)}"/>']
    for curve in drawn:
        parts += _curve(curve, end, height, scale, say)
    names = [f'<span class="y" style="top:{y:.1f}px">{html.escape(say(tick))}</span>' for tick, y in rows]
    across = [tick for tick in Scale.linear(np.array([0.0, end])).ticks if tick <= end]
    names += [f'<span class="x" style="left:{100 * tick / end:.2f}%">{tick:,.0f}</span>' for tick in across]
    if bound:
        x_of_bound = 100 * bound[1] / end
        parts.append(f'<path class="bound" d="M{x_of_bound:.2f} 0V{height}"/>')
        side = f"right:{100 - x_of_bound:.2f}%" if x_of_bound > 50 else f"left:{x_of_bound:.2f}%"
        names.append(f'<span class="bound-name" style="{side}">{html.escape(bound[0])}</span>')
    return (
        f'<div class="plot" role="img" aria-label="{html.escape(label)}"><div style="height:{height}px">'
        f'<svg viewBox="0 0 100 {height}" preserveAspectRatio="none" aria-hidden="true">{"".join(parts)}</svg>'
        f"{''.join(names)}</div></div>"
    )


def legend(drawn: Sequence[Curve], say: Callable[[float], str]) -> str:
    """The names of curves in their colours, with the last value of each."""
    keys = []
    for curve in drawn:
        known = curve.y[np.isfinite(curve.y)]
        value = f" <b>{html.escape(say(float(known[-1])))}</b>" if len(known) else ""
        keys.append(f'<span class="key {curve.kind}">{html.escape(curve.name)}{value}</span>')
    return f'<p class="legend">{"".join(keys)}</p>'


def _curve(curve: Curve, end: float, height: int, scale: Scale, say: Callable[[float], str]) -> list[str]:
    """Its line, and perhaps dots that tell their values."""
    x, y = _thinned(curve.x, curve.y)
    across, down = 100 * x / end, height - height * scale.shares(y)
    known = np.isfinite(down)
    line = ""
    for here, before, right, low in zip(known, [False, *known], across, down, strict=False):
        if here:
            line += f"{'L' if before else 'M'}{right:.2f} {low:.1f}"
    parts = [f'<path class="curve {curve.kind}" d="{line}"/>']
    if curve.has_dots and len(x) <= _MOST_DOTS:
        for right, low, step, value in zip(across[known], down[known], x[known], y[known], strict=True):
            told = html.escape(f"step {step:,.0f}: {say(value)}")
            parts.append(f'<path class="dot {curve.kind}" d="M{right:.2f} {low:.1f}h0"><title>{told}</title></path>')
    return parts


def _thinned(x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """The means of neighbours, if there are too many points to draw; the last one stays as it is."""
    if len(x) <= _MOST_POINTS:
        return x, y
    first = np.linspace(0, len(x) - 1, _MOST_POINTS).astype(int)[:-1]
    counts = np.diff(np.append(first, len(x) - 1))
    thin_x, thin_y = (np.append(np.add.reduceat(v[:-1], first) / counts, v[-1]) for v in (x, y))
    return thin_x, thin_y


def _range(values: Numbers) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def _round_step(span: float, most: int) -> float:
    """The smallest round step of which so many make up the span."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= most * (1 + 1e-9))


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


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value * (1 - 1e-9))


def tick_text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    """A few letters beside a chart; `anchor` says which end of them is at `x`."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def svg(height: int, label: str, parts: Sequence[str]) -> str:
    """A picture, and in words what it shows."""
    start = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(label)}">'
    return start + "".join(parts) + "</svg>"
