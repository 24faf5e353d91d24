"""Pictures of what benchmarks say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.rows import Curve, Row

_ACROSS = 3


def bars(rows: Sequence[Row], path: Path) -> None:
    """The ratios on a logarithmic scale, with a mark where each should be."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 0.4 * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    heights = range(len(rows))
    axes.barh(
        heights, [row.ratio for row in rows], color=["#c44" if row.met is False else "#47a" for row in rows], left=0
    )
    for height, row in zip(heights, rows, strict=True):
        if row.bar is not None:
            axes.plot([row.bar] * 2, [height - 0.45, height + 0.45], color="black")
    axes.set_yticks(heights, [f"{row.name}\nagainst {row.opponent}" for row in rows], fontsize=7)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set(xscale="log", xlabel="ratio; black: the bar")
    figure.savefig(path, dpi=110)


def draw(curves: Sequence[Curve], path: Path) -> None:
    """One panel each; y begins at zero, so that what looks flat is. Times are a straight line if all costs the same."""
    from matplotlib.figure import Figure

    across = min(_ACROSS, len(curves))
    down = math.ceil(len(curves) / across)
    figure = Figure(figsize=(4.4 * across, 3.3 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flat
    for axes, curve in zip(panels, curves, strict=False):
        for name, points in curve.lines.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
        axes.set(title=curve.title, xlabel=curve.x, ylabel=curve.y, xscale="linear" if curve.y == "s" else "log")
        axes.set_ylim(0, 1.3 * axes.get_ylim()[1])  # room for the legend
        xs = sorted({x for points in curve.lines.values() for x, _ in points})
        axes.set_xticks(xs, [f"{x:,.0f}" for x in xs], rotation=30)
        axes.minorticks_off()
        if any(curve.lines):
            axes.legend()
    for axes in list(figure.axes)[len(curves) :]:
        axes.set_axis_off()
    figure.savefig(path, dpi=110)
