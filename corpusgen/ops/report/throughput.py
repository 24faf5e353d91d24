"""How fast the stages of a pass were, over the time in which it was worked on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corpusgen.store import Commit

_UNITS_A_STEP = 4  # with fewer, a curve shows when units end rather than how fast they are
_MOST_STEPS = 60
_FEWEST_UNITS = 8  # with fewer, no curve over time makes sense

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Finished:
    """When a unit was committed, by which run, and how many rows each stage processed in how many seconds."""

    time: float
    run: str
    rows: Mapping[str, int]
    seconds: Mapping[str, float]

    @classmethod
    def of(cls, commit: Commit) -> Finished:
        """Return the facts of a commit. (Events have the same, but may miss the last units of a crashed run.)"""
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
    """Rows per second that the first stage read, all its workers together."""
    speeds: Mapping[str, Numbers]
    """Rows per second that one worker of each stage does; nan where it did nothing."""


def throughput(finished: Sequence[Finished]) -> list[Stretch]:
    """Return all stretches of work, without the time between them; none if there are too few units to tell."""
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
    """Return start, end and units of each run; runs that overlap count as one."""
    by_run: dict[str, list[Finished]] = defaultdict(list)
    for unit in finished:
        by_run[unit.run].append(unit)
    stretches: list[tuple[float, float, list[Finished]]] = []
    for units in by_run.values():  # ordered by their first finished unit
        # When a run began was not recorded, but its first unit took this long.
        began, ended = units[0].time - sum(units[0].seconds.values()), units[-1].time
        if stretches and began < stretches[-1][1]:
            before, until, others = stretches.pop()
            began, ended, units = min(before, began), max(until, ended), [*others, *units]
        stretches.append((began, ended, units))
    return stretches
