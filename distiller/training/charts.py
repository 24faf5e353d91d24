"""Charts that a training leaves in its folder, as SVG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from corpusgen.pages.charts import (
    Axis,
    Curve,
    Frame,
    Numbers,
    Scale,
    draw_bottom_axis,
    draw_bound,
    draw_curve,
    draw_keys,
    draw_side_axis,
    steps_axis,
)
from corpusgen.pages.svg_file import svg_file

_WIDTH, _HEIGHT = 640, 360


def loss_chart(
    steps: Sequence[Mapping[str, Any]], validations: Sequence[Mapping[str, Any]], best: Mapping[str, Any]
) -> bytes:
    """Draw the losses of a training over its steps, and where the best weights are from."""
    drawn = [
        Curve("training", "training", _column(steps, "step"), _column(steps, "loss")),
        Curve("held out", "held-out", _column(validations, "step"), _column(validations, "loss"), has_dots=True),
    ]
    label = f"Loss by step: the best on held-out rows is {best['loss']:.3g}, after step {best['step']:,}"
    return _chart(label, drawn, steps_axis(drawn), "loss", (f"best: step {best['step']:,}", best["step"]))


def rates_chart(rates: Sequence[float], losses: Sequence[float], suggested: float) -> bytes:
    """Draw the smoothed loss by the learning rate, and the rate that is suggested."""
    curve = Curve("training", "rate", np.array(rates), np.array(losses))
    label = f"Smoothed loss by learning rate: {suggested:.1e} is suggested"
    axis = Axis(Scale.log(np.append(curve.x, suggested)), "learning rate", "{:.3g}".format)
    return _chart(label, [curve], axis, "loss, smoothed", (f"suggested: {suggested:.1e}", suggested))


def _chart(label: str, drawn: Sequence[Curve], across: Axis, what: str, bound: tuple[str, float]) -> bytes:
    losses = Scale.log(np.concatenate([curve.y for curve in drawn]))
    frame = Frame.within(across, Axis(losses, what, "{:.3g}".format), _WIDTH, _HEIGHT)
    parts = [*draw_side_axis(frame), *draw_bottom_axis(frame), *draw_bound(frame, *bound)]
    for curve in drawn:
        parts += draw_curve(frame, curve)
    if len(drawn) > 1:
        parts += draw_keys(frame, [(curve.kind, curve.name) for curve in drawn])
    return svg_file(_WIDTH, _HEIGHT, label, parts)


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> Numbers:
    return np.array([row[name] for row in rows], np.float64)
