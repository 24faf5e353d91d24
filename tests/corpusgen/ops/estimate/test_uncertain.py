"""Numbers with draws: what is shared cancels out, and intervals are as wide as they say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.ops.estimate.uncertain import Uncertain, largest, total


@given(value=st.floats(0.01, 1e9), factor=st.floats(1.01, 5))
def test_nine_draws_in_ten_are_within_the_factor(value, factor):
    low, high = Uncertain.exactly(value).spread(factor, np.random.default_rng(0)).interval()[1:]
    assert np.log(value / low) == pytest.approx(np.log(factor), rel=0.1)
    assert np.log(high / value) == pytest.approx(np.log(factor), rel=0.1)


def test_what_is_known_has_no_width_and_the_value_is_always_inside():
    assert Uncertain.exactly(3).interval() == (3, 3, 3)
    assert Uncertain(10.0, np.full(4000, 2.0)).interval() == (10, 2, 10)


def test_what_two_numbers_share_cancels_out():
    rows = Uncertain.exactly(100).spread(2, np.random.default_rng(0))
    kept = rows * 0.4
    assert (kept / rows).interval() == pytest.approx((0.4, 0.4, 0.4))
    assert (kept + kept).interval() == pytest.approx((rows * 0.8).interval())
    assert (rows * 0.0 / (rows * 0.0)).interval() == (0, 0, 0)


def test_a_limit_cuts_the_draws_too():
    assert Uncertain.exactly(100).spread(2, np.random.default_rng(0)).at_most(100).interval().high == 100


def test_the_largest_is_so_draw_by_draw():
    chance = np.random.default_rng(0)
    some = [Uncertain.exactly(10).spread(2, chance) for _ in range(3)]
    assert largest(some).value == 10
    assert np.median(largest(some).draws) > 11
    assert total(some).value == 30
    assert total([]).interval() == (0, 0, 0)
