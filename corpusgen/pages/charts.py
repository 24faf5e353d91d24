"""Charts as SVG. Stylesheets give them their colours: those of a page, or of a file of its own (svg_file.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from corpusgen.io.units import rounded_duration

Numbers = npt.NDArray[np.float64]
duration = rounded_duration  # the name that pages use

WIDTH = 320
LEFT, RIGHT, TOP = 4.0, 316.0, 20.0
_MOST_POINTS = 400  # per curve; more cannot be told apart
_MOST_DOTS = 60  # that are seen, or that tell their values
_MOST_TICKS = 6
_LETTER = 6.2  # the usual width of a letter of a tick


def steps(label: str, edges: Sequence[Numbers], rates: Sequence[Numbers]) -> Markup:
    """Draw rates over time as a step line, one piece for each stretch of time; NaN leaves a gap."""
    height, base = 112, 90.0
    end = float(edges[-1][-1])
    top = _round_up(max((float(np.nanmax(rate)) for rate in rates if not np.isnan(rate).all()), default=1.0))
    parts = [path("grid", f"M{LEFT} {TOP}H{RIGHT}M{LEFT} {(TOP + base) / 2}H{RIGHT}")]
    for times, rate in zip(edges, rates, strict=True):
        x = (LEFT + (RIGHT - LEFT) * times / end).round(1).tolist()
        y = (base - (base - TOP) * rate / top).round(1).tolist()
        area, line = f"M{x[0]} {base}", ""
        for level, since, until, before in zip(y, x, x[1:], [math.nan, *y], strict=False):
            area += f"V{base if math.isnan(level) else level}H{until}"
            if not math.isnan(level):
                line += f"{f'M{since} {level}' if math.isnan(before) else f'V{level}'}H{until}"
        parts += [path("area", f"{area}V{base}Z"), path("line", line)]
        for value, since, until, left, right in zip(rate, times, times[1:], x, x[1:], strict=False):
            if not math.isnan(value):
                told = f"{duration(since)} to {duration(until)}: {rate_text(value)}/s"
                parts.append(path("column", f"M{left} {TOP}H{right}V{base}H{left}Z", told))
    for times in edges[1:]:
        x_of_break = LEFT + (RIGHT - LEFT) * float(times[0]) / end
        parts.append(path("break", f"M{x_of_break:.1f} {TOP}V{base}", "resumed"))
    parts.append(path("axis", f"M{LEFT} {base}H{RIGHT}"))
    parts.append(tick_text(LEFT, TOP - 5, f"{rate_text(top)}/s", "start"))
    parts.append(tick_text(LEFT, base + 16, "0", "start"))
    parts.append(tick_text(RIGHT, base + 16, duration(end), "end"))
    return svg(height, label, parts)


class Curve(NamedTuple):
    """A line of a chart. Values that are not finite leave gaps."""

    name: str
    kind: str
    """How it is drawn: a class of the stylesheet."""
    x: Numbers
    y: Numbers
    has_dots: bool = False
    """Whether each of its points gets a dot, unless there are too many."""


class Scale(NamedTuple):
    """The range of an axis and its ticks."""

    low: float
    high: float
    ticks: Sequence[float]
    is_log: bool = False

    @classmethod
    def linear(cls, values: Numbers, most_ticks: int = _MOST_TICKS) -> Scale:
        """Return an axis from one round number to another; it includes zero if all values are the same."""
        low, high = _range(values)
        if math.isclose(low, high):
            low, high = min(low, 0.0), max(high, 0.0) or float(not low)
        step = round_step(high - low, most_ticks)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        ticks = [float(f"{number * step:.12g}") for number in range(first, last + 1)]
        return cls(ticks[0], ticks[-1], ticks)

    @classmethod
    def log(cls, values: Numbers) -> Scale:
        """Return a logarithmic axis around all positive values; a linear one if they span less than a factor of 5."""
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
        """Return the positions of values on the axis: 0 is its beginning, 1 its end."""
        if not self.is_log:
            return (values - self.low) / (self.high - self.low)
        known = np.where(values > 0, values, np.nan)
        return np.asarray((np.log(known) - math.log(self.low)) / (math.log(self.high) - math.log(self.low)))


class Axis(NamedTuple):
    """A side of a chart: its scale, what is measured along it, and how its values are written."""

    scale: Scale
    name: str = ""
    say: Callable[[float], str] = "{:g}".format


class Frame(NamedTuple):
    """The box in a picture where values are drawn, between its two axes."""

    x: Axis
    y: Axis
    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def within(cls, x: Axis, y: Axis, width: float, height: float) -> Frame:
        """Return the frame of a picture of a given size that leaves room for its ticks and names."""
        left = 10 + text_width(max((y.say(tick) for tick in y.scale.ticks), key=len, default=""))
        return cls(x, y, left, 28.0, width - 16, height - 38)

    def across(self, values: npt.ArrayLike) -> Numbers:
        """Return the horizontal positions of values."""
        return self.left + (self.right - self.left) * self.x.scale.shares(np.asarray(values, np.float64))

    def down(self, values: npt.ArrayLike) -> Numbers:
        """Return the vertical positions of values."""
        return self.bottom - (self.bottom - self.top) * self.y.scale.shares(np.asarray(values, np.float64))


def curves(
    label: str,
    drawn: Sequence[Curve],
    scale: Scale,
    height: int = 150,
    bound: tuple[str, float] | None = None,
    say: Callable[[float], str] = "{:g}".format,
) -> Markup:
    """Draw curves over steps, as wide as there is room in a page; text keeps its size.

    `bound` is a name and its step, drawn as a line; `say` formats the values of the vertical axis.
    """
    across = steps_axis(drawn)
    frame = Frame(across, Axis(scale, "", say), 0, 0, 100, height)
    rows = list(zip(scale.ticks, frame.down(scale.ticks).tolist(), strict=True))
    parts = [path("grid", "".join(f"M0 {y:.1f}H100" for _, y in rows))]
    for curve in drawn:
        parts += draw_curve(frame, curve)
    names = [Markup('<span class="y" style="top:{:.1f}px">{}</span>').format(y, say(tick)) for tick, y in rows]
    for tick, x in zip(across.scale.ticks, frame.across(across.scale.ticks), strict=True):
        names.append(Markup('<span class="x" style="left:{:.2f}%">{}</span>').format(x, across.say(tick)))
    if bound:
        x_of_bound = float(frame.across(bound[1]))
        parts.append(path("bound", f"M{x_of_bound:.2f} 0V{height}"))
        side = f"right:{100 - x_of_bound:.2f}%" if x_of_bound > 50 else f"left:{x_of_bound:.2f}%"
        names.append(Markup('<span class="bound-name" style="{}">{}</span>').format(side, bound[0]))
    return Markup(
        '<div class="plot" role="img" aria-label="{label}"><div style="height:{height}px">'
        '<svg viewBox="0 0 100 {height}" preserveAspectRatio="none" aria-hidden="true">{parts}</svg>'
        "{names}</div></div>"
    ).format(label=label, height=height, parts=Markup("").join(parts), names=Markup("").join(names))


def steps_axis(drawn: Sequence[Curve]) -> Axis:
    """Return an axis from zero to the last step of all curves."""
    end = max((float(curve.x[-1]) for curve in drawn if len(curve.x)), default=1.0)
    ticks = [tick for tick in Scale.linear(np.array([0.0, end])).ticks if tick <= end]
    return Axis(Scale(0.0, end, ticks), "step", "{:,.0f}".format)


def draw_curve(frame: Frame, curve: Curve) -> list[Markup]:
    """Draw the line of a curve, and points on it, seen or unseen, that tell their values."""
    x, y = _thinned(curve.x, curve.y)
    across, down = frame.across(x), frame.down(y)
    known = np.isfinite(across) & np.isfinite(down)
    line = ""
    for here, before, right, low in zip(known, [False, *known], across, down, strict=False):
        if here:
            line += f"{'L' if before else 'M'}{right:.2f} {low:.1f}"
    parts = [path(f"curve {curve.kind}", line)]
    kind = f"dot {curve.kind}" if curve.has_dots and len(x) <= _MOST_DOTS else "hover"
    some = np.flatnonzero(known)[:: -(-int(known.sum()) // _MOST_DOTS) or 1]
    for right, low, position, value in zip(across[some], down[some], x[some], y[some], strict=True):
        told = f"{curve.name}, {frame.x.name} {frame.x.say(position)}: {frame.y.say(value)}"
        parts.append(path(kind, f"M{right:.2f} {low:.1f}h0", told))
    return parts


def draw_side_axis(frame: Frame) -> list[Markup]:
    """Draw the vertical axis of a frame: a grid, its ticks, and its name above them."""
    rows = list(zip(frame.y.scale.ticks, frame.down(frame.y.scale.ticks).tolist(), strict=True))
    return [
        path("grid", "".join(f"M{frame.left:.1f} {y:.1f}H{frame.right:.1f}" for _, y in rows)),
        *(tick_text(frame.left - 6, y + 4, frame.y.say(tick), "end") for tick, y in rows),
        tick_text(2, frame.top - 14, frame.y.name, "start"),
    ]


def draw_bottom_axis(frame: Frame, has_grid: bool = False) -> list[Markup]:
    """Draw the horizontal axis of a frame: its line, its ticks, its name below them, and perhaps a grid."""
    columns = list(zip(frame.x.scale.ticks, frame.across(frame.x.scale.ticks).tolist(), strict=True))
    return [
        path("grid", "".join(f"M{x:.1f} {frame.top:.1f}V{frame.bottom:.1f}" for _, x in columns if has_grid)),
        path("axis", f"M{frame.left:.1f} {frame.bottom:.1f}H{frame.right:.1f}"),
        *(tick_text(x, frame.bottom + 16, frame.x.say(tick), "middle") for tick, x in columns),
        tick_text((frame.left + frame.right) / 2, frame.bottom + 32, frame.x.name, "middle"),
    ]


def draw_bound(frame: Frame, name: str, value: float) -> list[Markup]:
    """Draw a value of the horizontal axis as a line, with its name on the side that has room."""
    x = float(frame.across(value))
    shift, anchor = (-5, "end") if x > (frame.left + frame.right) / 2 else (5, "start")
    line = path("bound", f"M{x:.1f} {frame.top:.1f}V{frame.bottom:.1f}")
    return [line, tick_text(x + shift, frame.top + 10, name, anchor, "bound-name")]


def draw_keys(frame: Frame, names: Sequence[tuple[str, str]]) -> list[Markup]:
    """Draw a legend above a frame: names, each after the class that colours what it names."""
    parts: list[Markup] = []
    x, y = max(frame.left, text_width(frame.y.name) + 24), frame.top - 14
    for kind, name in names:
        parts += [path(f"curve {kind}", f"M{x:.1f} {y - 4:.1f}h16"), tick_text(x + 22, y, name, "start")]
        x += 22 + text_width(name) + 14
    return parts


def legend(drawn: Sequence[Curve], say: Callable[[float], str]) -> Markup:
    """Return the names of curves in their colours, with the last value of each."""
    keys = []
    for curve in drawn:
        known = curve.y[np.isfinite(curve.y)]
        value = Markup(" <b>{}</b>").format(say(float(known[-1]))) if len(known) else ""
        keys.append(
            Markup('<span class="key"><i class="swatch {}"></i>{}{}</span>').format(curve.kind, curve.name, value)
        )
    return Markup('<p class="legend">{}</p>').format(Markup("").join(keys))


def _thinned(x: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """Average neighbouring points if there are too many to draw; the last one stays as it is."""
    if len(x) <= _MOST_POINTS:
        return x, y
    first = np.linspace(0, len(x) - 1, _MOST_POINTS).astype(int)[:-1]
    counts = np.diff(np.append(first, len(x) - 1))
    thin_x, thin_y = (np.append(np.add.reduceat(v[:-1], first) / counts, v[-1]) for v in (x, y))
    return thin_x, thin_y


def _range(values: Numbers) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def round_step(span: float, most: int) -> float:
    """Return the smallest round step that covers the span at most `most` times."""
    span = span or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(factor * power for factor in (1, 2, 5, 10) if span / (factor * power) <= most * (1 + 1e-9))


def rate_text(rate: float) -> str:
    """Format a rate with as many digits as are meaningful."""
    return f"{rate:,.0f}" if rate >= 20 else f"{rate:.3g}"


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value * (1 - 1e-9))


def path(kind: str, line: str, title: str = "") -> Markup:
    """Draw a path with a class of the stylesheet; `title` is its tooltip."""
    if not title:
        return Markup('<path class="{}" d="{}"/>').format(kind, line)
    return Markup('<path class="{}" d="{}"><title>{}</title></path>').format(kind, line, title)


def bar(kind: str, x: float, y: float, width: float, height: float, title: str) -> Markup:
    """Draw a bar with a class of the stylesheet; `title` is its tooltip."""
    element = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>')
    return element.format(kind, x, y, width, height, title)


def tick_text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> Markup:
    """Write a short text in a chart; `anchor` says which end of it is at `x`."""
    element = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
    return element.format(kind, x, y, anchor, text)


def text_width(text: str) -> float:
    """Return about how wide a tick is."""
    return _LETTER * len(text)


def svg(height: int, label: str, parts: Sequence[Markup], width: int = WIDTH) -> Markup:
    """Assemble a picture from its parts; `label` says in words what it shows."""
    element = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return element.format(width, height, label, Markup("").join(parts))
