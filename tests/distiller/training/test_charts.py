"""The charts in the folder of a training show its losses and what was best."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from distiller.training.charts import loss_chart, rates_chart

SVG = "{http://www.w3.org/2000/svg}"


def points_of(root, kind):
    line = next(found.get("d") for found in root.iter(f"{SVG}path") if found.get("class") == kind)
    return [tuple(map(float, point)) for point in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", line)]


def x_of_bound(root):
    line = next(found.get("d") for found in root.iter(f"{SVG}path") if found.get("class") == "bound")
    return float(re.match(r"M([\d.]+) ", line)[1])


def test_losses_fall_from_left_to_right_and_the_best_is_marked():
    steps = [{"step": step, "loss": 2.0 / step} for step in range(1, 41)]
    validations = [{"step": step, "loss": loss} for step, loss in ((10, 0.4), (20, 0.1), (40, 0.3))]
    root = ElementTree.fromstring(loss_chart(steps, validations, validations[1]))
    training, held_out = points_of(root, "curve training"), points_of(root, "curve held-out")
    assert len(training) == 40
    assert [y for _, y in training] == sorted(y for _, y in training)
    assert min(held_out, key=lambda point: -point[1]) == held_out[1]
    assert x_of_bound(root) == pytest.approx(held_out[1][0], abs=0.1)
    texts = {found.text for found in root.iter(f"{SVG}text")}
    assert {"loss", "step", "training", "held out", "best: step 20"} <= texts
    assert "0.1, after step 20" in root.get("aria-label")
    assert "held out, step 40: 0.3" in {found.text for found in root.iter(f"{SVG}title")}


def test_rates_are_drawn_by_their_order_of_magnitude_and_soaring_losses_are_left_out():
    rates = [10.0**power for power in range(-7, 1)]
    losses = [1.0, 1.0, 0.9, 0.5, 0.2, 3.0, math.inf, math.nan]
    root = ElementTree.fromstring(rates_chart(rates, losses, 1e-4))
    points = points_of(root, "curve rate")
    assert len(points) == 6
    gaps = [after[0] - before[0] for before, after in pairwise(points)]
    assert gaps == pytest.approx([gaps[0]] * 5, abs=0.1)
    assert x_of_bound(root) == pytest.approx(points[3][0], abs=0.1)
    assert "suggested: 1.0e-04" in {found.text for found in root.iter(f"{SVG}text")}


def test_a_suggestion_below_all_rates_is_inside_the_picture():
    root = ElementTree.fromstring(rates_chart([1e-7, 1e-6, 1e-5], [0.1, 0.5, 2.0], 1e-8))
    assert 30 < x_of_bound(root) < points_of(root, "curve rate")[0][0]
