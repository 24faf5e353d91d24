"""The counts of a run so far, used by the progress display, the failure limit and the summary."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from corpusgen.engine.stage import Stage
from corpusgen.errors import FailureLimitError
from corpusgen.store import StageCount

_EVIDENCE = 20  # quarantined records before a run is stopped midway: a few early failures prove nothing


@dataclass
class StageTally:
    """The counts of one stage, and its current state."""

    count: StageCount
    units: int = 0
    nbytes: int = 0
    """Total size of the rows that it passed on."""
    retries: int = 0
    deaths: int = 0
    workers: int = 0
    queued: int = 0
    queue_age: float = 0.0


@dataclass
class Tally:
    """The counts of one run of one pass."""

    pass_name: str
    total_units: int
    already_done: int
    stages: list[StageTally]
    units_done: int = 0
    lost_races: int = 0
    units_in_flight: int = 0
    bytes_in_flight: int = 0
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, pass_name: str, stages: Sequence[Stage], total_units: int, already_done: int) -> Tally:
        """Return the tally of a run that has done nothing yet."""
        counts = [StageTally(StageCount(stage.name, expands=stage.expands)) for stage in stages]
        return cls(pass_name, total_units, already_done, counts)

    def add(self, stage: int, counts: Sequence[StageCount]) -> None:
        """Add what a stage did with some units."""
        self.stages[stage].count = sum(counts, self.stages[stage].count)

    @property
    def committed(self) -> int:
        """Return how many units of the plan are committed."""
        return self.already_done + self.units_done

    @property
    def retries(self) -> int:
        """Return how many tasks were run again after a failure."""
        return sum(stage.retries for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Return how long the run has taken."""
        return time.monotonic() - self.started

    @property
    def eta_seconds(self) -> float | None:
        """Return how long the rest will take at the rate of this run; None before any unit is done."""
        left = self.total_units - self.committed
        return self.seconds / self.units_done * left if self.units_done else None

    def check_failures(self, limit: float) -> None:
        """Raise FailureLimitError if there is enough evidence that too many records fail."""
        check_failure_limit([tally.count for tally in self.stages], limit, _EVIDENCE)


def check_failure_limit(counts: Sequence[StageCount], limit: float, evidence: int = 1) -> None:
    """Raise FailureLimitError if a stage quarantined more than this share of its records, and at least `evidence`."""
    for count in counts:
        if count.quarantined >= max(1, evidence) and count.quarantined > limit * count.seen:
            raise FailureLimitError(
                f"stage {count.name!r} failed on {count.quarantined:,} of {count.seen:,} records, more than "
                f"the limit of {limit:.2%}; `corpusgen status` shows them. "
                "Fix the cause, or raise the limit with --set run.failure_limit=…"
            )
