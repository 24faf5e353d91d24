"""Numbers for Prometheus, through Ray. The driver knows them all and publishes them now and then."""

from __future__ import annotations

from collections.abc import Mapping

from ray.util.metrics import Counter, Gauge

from corpusgen.engine.tally import Tally


class Metrics:
    """The metrics of one pass, tagged by stage. Counters grow by what the tally has grown since the last time."""

    def __init__(self, pass_name: str) -> None:
        stage_tags = ("pass", "stage")
        self._pass = {"pass": pass_name}
        self._counters = {
            "rows": Counter("corpusgen_rows", "rows by direction (in, out)", (*stage_tags, "direction")),
            "rejects": Counter("corpusgen_rejects", "rejected rows by reason", (*stage_tags, "reason")),
            "quarantined": Counter("corpusgen_quarantined", "records in quarantine", stage_tags),
            "seconds": Counter("corpusgen_stage_seconds", "seconds of work in a stage", stage_tags),
            "retries": Counter("corpusgen_retries", "tasks run again after a failure", stage_tags),
            "units": Counter("corpusgen_units", "finished units", ("pass",)),
        }
        self._gauges = {
            "workers": Gauge("corpusgen_workers", "workers of a stage", stage_tags),
            "queued": Gauge("corpusgen_queue", "tasks waiting for a stage", stage_tags),
            "queue_age": Gauge("corpusgen_queue_age_seconds", "how long the oldest has waited", stage_tags),
            "units_in_flight": Gauge("corpusgen_units_in_flight", "units begun and not committed", ("pass",)),
            "bytes_in_flight": Gauge("corpusgen_bytes_in_flight", "bytes of rows between stages", ("pass",)),
        }
        self._published: dict[tuple[str, ...], float] = {}

    def publish(self, tally: Tally) -> None:
        """Tell how things stand."""
        self._count("units", tally.units_done, self._pass)
        self._gauges["units_in_flight"].set(tally.units_in_flight, self._pass)
        self._gauges["bytes_in_flight"].set(tally.bytes_in_flight, self._pass)
        for stage in tally.stages:
            count = stage.count
            tags = {**self._pass, "stage": count.name}
            self._count("rows", count.rows_in, {**tags, "direction": "in"})
            self._count("rows", count.rows_out, {**tags, "direction": "out"})
            for reason, rejected in count.rejected.items():
                self._count("rejects", rejected, {**tags, "reason": reason})
            self._count("quarantined", count.quarantined, tags)
            self._count("seconds", count.seconds, tags)
            self._count("retries", stage.retries, tags)
            for name in ("workers", "queued", "queue_age"):
                self._gauges[name].set(getattr(stage, name), tags)

    def _count(self, name: str, total: float, tags: Mapping[str, str]) -> None:
        key = (name, *tags.values())
        grown = total - self._published.get(key, 0.0)
        if grown > 0:  # Ray refuses to count nothing
            self._counters[name].inc(grown, dict(tags))
            self._published[key] = total
