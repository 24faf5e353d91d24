"""Functions that format durations, sizes and rates for people."""

from __future__ import annotations

from collections.abc import Sequence

Unit = tuple[float, str]
SIZES: tuple[Unit, ...] = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
TIMES: tuple[Unit, ...] = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))


def duration(seconds: float) -> str:
    """Format elapsed whole seconds for a running display: 45 s, 3 min 05 s, 2 h 10 min."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def rounded_duration(seconds: float) -> str:
    """Format a rounded duration: 0.5 s, 4 min, 2 h 10 min, 3 d 2 h."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def amount(size: float) -> str:
    """Format a number of bytes in GB, MB or kB, with one decimal from 1 MB up."""
    unit, name = largest_unit(size, SIZES[1:4])
    return f"{size / unit:,.0f} {name}" if name == "kB" else f"{size / unit:,.1f} {name}"


def unit_rate(rate: float) -> str:
    """Format a rate in units per second or, below one unit in ten seconds, in units per hour."""
    return f"{rate:,.1f} units/s" if rate >= 0.1 else f"{3600 * rate:,.1f} units/h"


def largest_unit(value: float, units: Sequence[Unit]) -> Unit:
    """Return the largest unit that the value reaches, from units sorted largest first; else the last."""
    return next((unit for unit in units if value >= unit[0]), units[-1])
