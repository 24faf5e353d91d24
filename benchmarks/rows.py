"""What a benchmark says: how fast we are, how many times as fast as a stated opponent in the same run, and curves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One comparison. Machines differ and are noisy: the ratio is what counts."""

    name: str
    opponent: str
    ratio: float
    """Our speed in the opponent's: more is better."""
    bar: float | None
    """The least that we want; None: only to know."""
    ours: str
    """Our speed, for people."""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is reached."""
        return None if self.bar is None else self.ratio >= self.bar


@dataclass(frozen=True)
class Curve:
    """How something goes with a size or a setting: one or several lines of points."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Found:
    """All that a benchmark says."""

    rows: list[Row]
    curves: list[Curve] = field(default_factory=list)


Clock = Callable[[], float]


def seconds(work: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """How long it takes; by `time.process_time` only what this process computes counts, in all its threads."""
    started = clock()
    work()
    return clock() - started


def fastest(
    rounds: int, contestants: Mapping[str, Callable[[], object]], clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Seconds of the best round of each. They take turns, so that all meet the same load of the machine."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, work in contestants.items():
            best[name] = min(best[name], seconds(work, clock))
    return best
