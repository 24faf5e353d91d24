"""Metrics for Prometheus, exported through Ray, which puts `ray_` before their names.

The driver knows all of them and publishes them regularly. Counters cover the work that this driver saw done: a unit
that starts again, because a node died with its rows, counts again. The commits say what is in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ray.util.metrics import Counter, Gauge

from corpusgen.engine.counters import StageTally, Tally

_PASS = ("store", "pass")  # the store distinguishes builds on one cluster: one value per build
_STAGE = (*_PASS, "stage")

_STAGE_COUNTERS: dict[str, tuple[str, Callable[[StageTally], float]]] = {
    "corpusgen_rows_in_total": ("rows that entered a stage", lambda stage: stage.count.rows_in),
    "corpusgen_rows_out_total": ("rows that a stage passed on", lambda stage: stage.count.rows_out),
    "corpusgen_quarantined_records_total": ("records put into quarantine", lambda stage: stage.count.quarantined),
    "corpusgen_busy_seconds_total": (
        "seconds that the workers of a stage were busy",
        lambda stage: stage.count.seconds,
    ),
    "corpusgen_stage_units_total": ("units that a stage processed", lambda stage: stage.units),
    "corpusgen_stage_bytes_total": ("bytes of rows that a stage passed on", lambda stage: stage.nbytes),
    "corpusgen_retries_total": ("tasks retried after a failure", lambda stage: stage.retries),
    "corpusgen_worker_deaths_total": ("workers that died, alone or with their node", lambda stage: stage.deaths),
}
_STAGE_GAUGES: dict[str, tuple[str, Callable[[StageTally], float]]] = {
    "corpusgen_workers": ("workers that are ready", lambda stage: stage.workers),
    "corpusgen_queued_tasks": ("tasks waiting for a worker", lambda stage: stage.queued),
    "corpusgen_queue_age_seconds": ("how long the oldest task has waited", lambda stage: stage.queue_age),
}
_PASS_COUNTERS: dict[str, tuple[str, Callable[[Tally], float]]] = {
    "corpusgen_finished_units_total": ("units that this driver has finished", lambda t: t.units_done),
}
_PASS_GAUGES: dict[str, tuple[str, Callable[[Tally], float]]] = {
    "corpusgen_planned_units": ("units in the plan", lambda tally: tally.total_units),
    "corpusgen_committed_units": ("units committed, by this or any other driver", lambda tally: tally.committed),
    "corpusgen_units_in_flight": ("units in progress", lambda tally: tally.units_in_flight),
    "corpusgen_in_flight_bytes": ("bytes of rows waiting between stages", lambda tally: tally.bytes_in_flight),
}
_REJECTED, _REJECTED_HELP = "corpusgen_rejected_rows_total", "rows rejected, by reason"

LABELS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys([*_STAGE_COUNTERS, *_STAGE_GAUGES], _STAGE),
    **dict.fromkeys([*_PASS_COUNTERS, *_PASS_GAUGES], _PASS),
    _REJECTED: (*_STAGE, "reason"),
}
"""The labels of every metric."""


class Metrics:
    """The metrics of one pass. Counters grow by the growth of the tally since it was last published."""

    def __init__(self, store: str, pass_name: str) -> None:
        self._tags = {"store": store, "pass": pass_name}
        counted = {**_STAGE_COUNTERS, **_PASS_COUNTERS, _REJECTED: (_REJECTED_HELP, None)}
        self._counters = {name: Counter(name, what, LABELS[name]) for name, (what, _) in counted.items()}
        measured = {**_STAGE_GAUGES, **_PASS_GAUGES}
        self._gauges = {name: Gauge(name, what, LABELS[name]) for name, (what, _) in measured.items()}
        self._published: dict[tuple[str, ...], float] = {}

    def publish(self, tally: Tally) -> None:
        """Publish the current tally."""
        for name, (_, of_pass) in _PASS_COUNTERS.items():
            self._count(name, of_pass(tally), self._tags)
        for name, (_, of_pass) in _PASS_GAUGES.items():
            self._gauges[name].set(of_pass(tally), self._tags)
        for stage in tally.stages:
            tags = {**self._tags, "stage": stage.count.name}
            for name, (_, of_stage) in _STAGE_COUNTERS.items():
                self._count(name, of_stage(stage), tags)
            for name, (_, of_stage) in _STAGE_GAUGES.items():
                self._gauges[name].set(of_stage(stage), tags)
            for reason, rejected in stage.count.rejected.items():
                self._count(_REJECTED, rejected, {**tags, "reason": reason})

    def _count(self, name: str, total: float, tags: Mapping[str, str]) -> None:
        key = (name, *tags.values())
        grown = total - self._published.get(key, 0.0)
        if grown > 0:  # Ray refuses to count nothing
            self._counters[name].inc(grown, dict(tags))
            self._published[key] = total
