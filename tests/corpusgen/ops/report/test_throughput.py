"""Speeds over time, from what commits tell."""

import numpy as np
import pytest

from corpusgen.ops.report.throughput import Finished, throughput


def finished(times, run="a", rows=100, seconds=10.0):
    return [Finished(time, run, {"read": rows, "mask": rows}, {"read": 0.0, "mask": seconds}) for time in times]


def test_rates_are_rows_over_time_and_speeds_rows_over_work():
    (stretch,) = throughput(finished(np.arange(1010, 1170, 10.0)))  # 16 units, one every ten seconds
    assert stretch.edges[0] == 0
    assert stretch.edges[-1] == pytest.approx(160)
    assert len(stretch.read) == 4
    assert stretch.read == pytest.approx(10, rel=0.3)
    assert sum(stretch.read * np.diff(stretch.edges)) == pytest.approx(1600)
    assert stretch.speeds["mask"] == pytest.approx(10)
    assert np.isnan(stretch.speeds["read"]).all()


def test_the_time_between_two_runs_is_left_out():
    first, second = throughput(finished(np.arange(10, 90, 10.0)) + finished(np.arange(9010, 9090, 10.0), run="b"))
    assert first.edges[-1] == second.edges[0] == pytest.approx(80)
    assert second.edges[-1] == pytest.approx(160)


def test_runs_at_the_same_time_are_one_stretch():
    (stretch,) = throughput(finished(np.arange(10, 90, 10.0)) + finished(np.arange(15, 95, 10.0), run="b"))
    assert sum(stretch.read * np.diff(stretch.edges)) == pytest.approx(1600)


def test_a_step_in_which_nothing_ended_has_no_speed():
    (stretch,) = throughput(finished([*range(1, 9), *range(100, 108)]))
    assert np.isnan(stretch.speeds["mask"]).any()
    assert (stretch.read == 0).any()


@pytest.mark.parametrize("units", [finished(range(1, 6)), finished([0.0] * 20), []])
def test_nothing_is_said_of_few_units_or_unknown_times(units):
    assert throughput(units) == []
