"""Charts: axes that hold all values, curves that lie where their values are."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.pages.charts import (
    Axis,
    Curve,
    Frame,
    Scale,
    curves,
    draw_bottom_axis,
    draw_bound,
    draw_keys,
    draw_side_axis,
    duration,
    legend,
    rate_text,
    steps,
)
from tests.testing.pages import Page

numbers = st.floats(-1e9, 1e9, allow_subnormal=False).map(lambda value: 0.0 if abs(value) < 1e-9 else value)
anything = st.lists(st.one_of(numbers, st.sampled_from([math.nan, math.inf, -math.inf])), max_size=20).map(np.array)


@given(anything, st.sampled_from([Scale.linear, Scale.log]))
def test_an_axis_holds_all_values_between_some_round_numbers(values, kind):
    scale = kind(values.astype(float))
    assert scale.low < scale.high
    assert 1 <= len(scale.ticks) <= 8
    assert list(scale.ticks) == sorted(set(scale.ticks))
    assert all(scale.low <= tick <= scale.high for tick in scale.ticks)
    assert all(float(f"{tick:.9g}") == pytest.approx(tick, abs=1e-300) for tick in scale.ticks)
    shares = scale.shares(values.astype(float))
    known = shares[np.isfinite(shares)]
    assert ((known > -1e-6) & (known < 1 + 1e-6)).all()
    assert len(known) == np.isfinite(values[values > 0] if scale.is_log else values).sum()


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.0, 1.0], [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ([0.93, 0.998], [0.92, 0.94, 0.96, 0.98, 1.0]),
        ([3.0, 3.0], [0, 0.5, 1, 1.5, 2, 2.5, 3]),
        ([-2.0], [-2, -1.5, -1, -0.5, 0]),
        ([], [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_linear_axes_have_round_ticks(values, ticks):
    assert list(Scale.linear(np.array(values)).ticks) == ticks


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.023, 1.4], [0.05, 0.1, 0.2, 0.5, 1]),
        ([2e-4, 0.3], [0.001, 0.01, 0.1]),
        ([1e-9, 1e9], [10.0**power for power in range(-9, 10, 4)]),
        ([1.0, 2.0], [1, 1.2, 1.4, 1.6, 1.8, 2]),  # of one order of magnitude: linear
        ([0.0, 0.0], [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_logarithmic_axes_have_round_ticks(values, ticks):
    np.testing.assert_allclose(Scale.log(np.array(values)).ticks, ticks)


def points_of(text, kind="curve mine"):
    line = next(found["d"] for tag, found in Page(str(text)).elements if tag == "path" and found["class"] == kind)
    return line, [tuple(map(float, point)) for point in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", line)]


def test_a_curve_has_a_point_for_each_value_and_a_hole_where_there_is_none():
    curve = Curve("mine", "mine", np.array([0.0, 5, 10, 15, 20]), np.array([0.0, 1, math.nan, 0.5, 1]), has_dots=True)
    text = curves("A chart", [curve], Scale.linear(curve.y), height=100)
    line, points = points_of(text)
    assert points == [(0, 100), (25, 0), (75, 50), (100, 0)]
    assert line.count("M") == 2
    page = Page(str(text))
    assert page.count("title") == page.count("path", "dot mine") == 4
    assert "step 15: 0.5" in page.text
    (chart,) = [found for _, found in page.elements if found.get("role") == "img"]
    assert chart["aria-label"] == "A chart"


def test_a_bound_is_named_on_the_side_that_has_room():
    curve = Curve("mine", "mine", np.array([0.0, 100]), np.array([0.0, 1]))
    for step, side in ((20, "left:20.00%"), (80, "right:20.00%")):
        page = Page(str(curves("", [curve], Scale.linear(curve.y), bound=("best", step))))
        assert ("span", {"class": "bound-name", "style": side}) in page.elements


@given(st.integers(401, 5000), st.integers(0, 2**32 - 1))
def test_a_long_curve_is_drawn_by_means_of_neighbours(length, seed):
    values = np.random.default_rng(seed).random(length)
    curve = Curve("mine", "mine", np.arange(1.0, length + 1), values, has_dots=True)
    text = curves("", [curve], Scale(0.0, 1.0, [0.0, 1.0]), height=100)
    _, points = points_of(text)
    assert len(points) == 400
    assert points[-1] == pytest.approx((100, 100 - 100 * values[-1]), abs=0.1)
    across = [x for x, _ in points]
    assert across == sorted(across)
    down = 1 - np.array([y for _, y in points]) / 100
    assert values.min() - 1e-3 <= down.min() <= down.max() <= values.max() + 1e-3
    page = Page(str(text))
    assert page.count("path", "dot mine") == 0
    assert 20 <= page.count("path", "hover") == page.count("title") <= 60


def test_a_curve_without_dots_tells_its_values_too():
    curve = Curve("mine", "mine", np.array([0.0, 1000]), np.array([0.25, 1]))
    page = Page(str(curves("", [curve], Scale.linear(curve.y))))
    assert page.count("path", "hover") == page.count("title") == 2
    assert "mine, step 1,000: 1" in page.text


def test_rates_over_time_tell_their_values():
    edges, rates = [np.array([0.0, 10, 20]), np.array([20.0, 50])], [np.array([5.0, math.nan]), np.array([1234.0])]
    page = Page(str(steps("", edges, rates)))
    assert page.count("path", "column") == 2
    assert "0 s to 10 s: 5/s" in page.text
    assert "20 s to 50 s: 1,234/s" in page.text


def frame_of(x, y, width=320, height=200):
    return Frame.within(Axis(Scale.linear(x), "people"), Axis(Scale.linear(y), "predicted"), width, height)


@given(anything, anything)
def test_a_frame_holds_its_values_and_leaves_room_for_its_ticks(x, y):
    frame = frame_of(x.astype(float), y.astype(float))
    across, down = frame.across(x.astype(float)), frame.down(y.astype(float))
    assert all(frame.left - 0.1 <= place <= frame.right + 0.1 for place in across[np.isfinite(across)])
    assert all(frame.top - 0.1 <= place <= frame.bottom + 0.1 for place in down[np.isfinite(down)])
    longest = max(len(f"{tick:g}") for tick in frame.y.scale.ticks)
    assert 6 * longest < frame.left < frame.right < 320
    assert 0 < frame.top < frame.bottom < 200


def texts_of(parts):
    """The texts of a picture, with their places."""
    found = re.findall(r'<text class="[\w-]+" x="([\d.-]+)" y="([\d.-]+)" text-anchor="(\w+)">([^<]*)<', "".join(parts))
    return {text: (float(x), float(y), anchor) for x, y, anchor, text in found}


def test_axes_write_each_tick_where_its_value_is():
    frame = frame_of(np.array([1.0, 5]), np.array([0.0, 1]))
    texts = texts_of([*draw_side_axis(frame), *draw_bottom_axis(frame)])
    assert texts["3"][0] == pytest.approx(float(frame.across(3.0)), abs=0.1)
    assert texts["0.4"][1] - 4 == pytest.approx(float(frame.down(0.4)), abs=0.1)
    assert {"people", "predicted"} <= texts.keys()
    grids = [Page("".join(draw_bottom_axis(frame, has_grid))).elements[0][1]["d"] for has_grid in (False, True)]
    assert [line.count("M") for line in grids] == [0, 5]


@pytest.mark.parametrize(("value", "anchor"), [(1.5, "start"), (4.5, "end")])
def test_a_bound_in_a_frame_is_named_on_the_side_that_has_room(value, anchor):
    frame = frame_of(np.array([1.0, 5]), np.array([0.0, 1]))
    assert texts_of(draw_bound(frame, "best", value))["best"][2] == anchor


def test_names_of_a_legend_do_not_overlap():
    names = [("a", "baseline"), ("b", "meaning"), ("b", "another")]
    texts = texts_of(draw_keys(frame_of(np.arange(2.0), np.arange(2.0)), names))
    assert list(texts) == ["baseline", "meaning", "another"]
    places = [x for x, _, _ in texts.values()]
    assert all(after - before > 6 * 8 for before, after in pairwise(places))


def test_a_legend_names_curves_with_their_last_values():
    drawn = [
        Curve("a <b>", "a", np.arange(2.0), np.array([1, 0.25])),
        Curve("last is missing", "b", np.arange(2.0), np.array([0.5, math.nan])),
        Curve("none", "c", np.empty(0), np.empty(0)),
    ]
    assert Page(str(legend(drawn, "{:.2f}".format))).text == "a <b> 0.25last is missing 0.50none"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "0.5 s"), (90, "2 min"), (4000, "1 h 7 min"), (3 * 86400 + 7200, "3 d 2 h")]
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text


def test_rates_in_words():
    assert [rate_text(rate) for rate in (0.1234, 5.678, 1234.5)] == ["0.123", "5.68", "1,234"]
