"""How durations, sizes and rates are written."""

import pytest

from corpusgen.io.units import SIZES, amount, duration, largest_unit, rounded_duration, unit_rate


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.9, "0 s"), (45, "45 s"), (185, "3 min 05 s"), (7800, "2 h 10 min"), (90000, "25 h 00 min")]
)
def test_a_duration_counts_whole_seconds(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.5, "0.5 s"), (90, "2 min"), (4000, "1 h 7 min"), (3 * 86400 + 7200, "3 d 2 h")]
)
def test_a_rounded_duration_has_the_two_largest_units(seconds, text):
    assert rounded_duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 kB"), (999_999, "1,000 kB"), (1e6, "1.0 MB"), (12.34e9, "12.3 GB"), (5e12, "5,000.0 GB")],
)
def test_a_size_is_at_least_in_kilobytes_and_at_most_in_gigabytes(size, text):
    assert amount(size) == text


def test_a_slow_pace_is_told_by_the_hour():
    assert unit_rate(12.345) == "12.3 units/s"
    assert unit_rate(0.01) == "36.0 units/h"


def test_the_largest_unit_is_one_of_which_there_is_at_least_one():
    assert [largest_unit(size, SIZES)[1] for size in (0, 1, 999, 1000, 2e9, 1e15)] == [
        *("bytes", "bytes", "bytes", "kB", "GB", "TB")
    ]
