"""How fast the stages of a pass went, over the time in which it was worked on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusgen.store import Commit

_UNITS_A_STEP = 4  # with fewer, the course of time shows when units end rather than how fast they go
_MOST_STEPS = 60
_FEWEST_UNITS = 8  # of fewer, nothing can be said about the course of time

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Finished:
    """When a unit was committed, by which run, and how many rows each stage dealt with in how many seconds."""

    time: float
    run: str
    rows: Mapping[str, int]
    seconds: Mapping[str, float]

    @classmethod
    def of(cls, commit: Commit) -> Finished:
        """What its commit tells. (The events tell the same, and may miss the last units of a run that crashed.)"""
        return cls(
            commit.committed_at,
            commit.attempt.partition("-")[0],
            {stage.name: stage.seen for stage in commit.stages},
            {stage.name: stage.seconds for stage in commit.stages},
        )


@dataclass(frozen=True)
class Stretch:
    """Work without a break, in steps: their `edges` are seconds of work since the pass began."""

    edges: Numbers
    read: Numbers
    """Rows a second that the first stage read, all its workers together."""
    speeds: Mapping[str, Numbers]
    """Of each stage, the rows that one worker does in a second; nan where it did nothing."""


def throughput(finished: Sequence[Finished]) -> list[Stretch]:
    """One stretch after the other: the time between them is left out. None if there are too few units to tell."""
    known = sorted((unit for unit in finished if unit.time and unit.rows), key=lambda unit: unit.time)
    if len(known) < _FEWEST_UNITS:
        return []
    stretches: list[Stretch] = []
    worked = 0.0
    for began, ended, units in without_breaks(known):
        if ended <= began:
            continue
        steps = int(np.clip(len(units) // _UNITS_A_STEP, 1, _MOST_STEPS))
        edges = np.linspace(began, ended, steps + 1)
        times = np.array([unit.time for unit in units])
        first, speeds = next(iter(units[0].rows)), {}
        for stage in units[0].rows:
            rows, seconds = (
                np.histogram(times, edges, weights=[getattr(unit, name).get(stage, 0) for unit in units])[0]
                for name in ("rows", "seconds")
            )
            speeds[stage] = np.divide(rows, seconds, out=np.full(steps, np.nan), where=seconds > 0)
            if stage == first:
                read = rows / np.diff(edges)
        stretches.append(Stretch(edges - began + worked, read, speeds))
        worked += ended - began
    return stretches


def without_breaks(finished: Sequence[Finished]) -> list[tuple[float, float, list[Finished]]]:
    """Begin, end and units of each run; of several that worked at the same time, together."""
    by_run: dict[str, list[Finished]] = defaultdict(list)
    for unit in finished:
        by_run[unit.run].append(unit)
    stretches: list[tuple[float, float, list[Finished]]] = []
    for units in by_run.values():  # in the order in which they finished their first unit
        # Nobody wrote down when a run began; but its first unit took so long.
        began, ended = units[0].time - sum(units[0].seconds.values()), units[-1].time
        if stretches and began < stretches[-1][1]:
            before, until, others = stretches.pop()
            began, ended, units = min(before, began), max(until, ended), [*others, *units]
        stretches.append((began, ended, units))
    return stretches
