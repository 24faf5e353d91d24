"""The estimate: measure a sample, project the whole, and state it in intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import stages_of
from corpusgen.ops.estimate.measure import Measured, Say, measure
from corpusgen.ops.estimate.project import ProjectedStage, Projection, project
from corpusgen.ops.estimate.uncertain import Interval, Uncertain, total
from corpusgen.ops.estimate.workers import HOUR, Schedule, cost_of, devices_of, kind_of, parse_workers, schedule
from corpusgen.store import Store
from corpusgen.store.products import DISCOURSE, WORDS


@dataclass(frozen=True)
class StageEstimate:
    """A stage of the whole build; `share_kept` is set only where a row becomes one row or none."""

    pass_name: str
    stage: str
    rows_in: Interval
    rows_out: Interval
    share_kept: Interval | None
    seconds_per_1000_rows: Interval
    hours: Interval
    worker: str
    devices: float
    measured_on: str
    measured_seconds: float
    loading_seconds: float


@dataclass(frozen=True)
class TableEstimate:
    """A table of the whole build."""

    pass_name: str
    table: str
    rows: Interval
    bytes: Interval


@dataclass(frozen=True)
class Estimate:
    """The complete result of `corpusgen estimate`."""

    source_bytes: int
    source_files: int
    share_read: float
    targets_tried: int
    seconds: float
    stages: Sequence[StageEstimate]
    tables: Sequence[TableEstimate]
    storage_bytes: Interval
    hours: Mapping[str, Interval]
    prices: Mapping[str, float]
    cost: Interval | None
    schedule: Schedule | None
    notes: Sequence[str]


def estimate(
    config: BuildConfig,
    targets: int = 500,
    prices: Mapping[str, float] | None = None,
    workers: Sequence[str] = (),
    say: Say = lambda line: None,
) -> Estimate:
    """Estimate what a build with these settings takes, with `workers` if any are given; does not touch its store."""
    known = [stage.name for stage in stages_of(config, Store.at(config.store))]
    given = parse_workers(workers, known)
    measured = measure(config, targets, say)
    return as_estimate(config, measured, project(config, measured), prices or {}, given)


def as_estimate(
    config: BuildConfig,
    measured: Measured,
    projection: Projection,
    prices: Mapping[str, float],
    workers: Mapping[str, int],
) -> Estimate:
    """Turn a projection into an estimate, with intervals, costs and a schedule."""
    stages = projection.stages
    on_gpu = _has_gpu() if any(stage.resources.gpus for stage in stages) else False
    generate = measured.passes.get(WORDS.pass_name)
    by_kind = {
        kind: [stage.seconds * (devices_of(stage) / HOUR) for stage in stages if kind_of(stage) == kind]
        for kind in ("cpu", "gpu")
    }
    other = Uncertain.exactly(projection.other_bytes)
    storage = total([*(table.bytes for table in projection.tables), other])
    return Estimate(
        source_bytes=measured.source.bytes,
        source_files=measured.source.files,
        share_read=measured.source.share,
        targets_tried=generate.count(0).rows_out if generate else 0,
        seconds=measured.seconds,
        stages=[_stage(stage, on_gpu) for stage in stages],
        tables=[
            TableEstimate(table.pass_name, table.name, table.rows.interval(), table.bytes.interval())
            for table in projection.tables
        ],
        storage_bytes=storage.interval(),
        hours={kind: total(hours).interval() for kind, hours in by_kind.items() if hours},
        prices=dict(prices),
        cost=cost_of(stages, prices).interval() if prices else None,
        schedule=schedule(stages, workers, prices) if workers else None,
        notes=list(_notes(config, measured, projection, on_gpu)),
    )


def _stage(stage: ProjectedStage, on_gpu: bool) -> StageEstimate:
    rows = stage.rows_out if stage.expands else stage.rows_in
    return StageEstimate(
        stage.pass_name,
        stage.name,
        stage.rows_in.interval(),
        stage.rows_out.interval(),
        None if stage.expands else (stage.rows_out / stage.rows_in).interval(),
        (stage.seconds * 1000 / rows).interval(),
        (stage.seconds * (1 / HOUR)).interval(),
        kind_of(stage),
        devices_of(stage),
        "gpu" if stage.resources.gpus and on_gpu else "cpu",
        stage.measured_seconds,
        stage.loading,
    )


def _notes(config: BuildConfig, measured: Measured, projection: Projection, on_gpu: bool) -> Sequence[str]:
    notes = []
    asking = [stage.name for stage in projection.stages if stage.resources.gpus]
    if asking and not on_gpu:
        notes.append(
            f"{', '.join(asking)}: requests a GPU but was measured on a CPU, since this machine has no GPU; on a GPU "
            "it will be many times faster. Run the estimate on a machine like the workers'"
        )
    if measured.source.heads:
        notes.append(
            "compressed files can only be read from the start: only their beginnings were sampled, so the intervals "
            "are wider"
        )
    if projection.words_are_few:
        tables = [p.table for p in (WORDS, DISCOURSE) if p.pass_name in measured.passes] or ["targets"]
        notes.append(
            f"the sample is too small to tell which {config.sample.vocabulary:,} words the vocabulary will have; "
            f"the intervals of {' and '.join(tables)} are wider"
        )
    for done in measured.passes.values():
        for index, stage in enumerate(done.stages):
            count = done.count(index)
            if count.quarantined > config.run.failure_limit * count.seen:
                notes.append(
                    f"{stage.name}: {count.quarantined:,} of {count.seen:,} records failed; a build would stop at "
                    f"{config.run.failure_limit:.0%} (run.failure_limit)"
                )
    return notes


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())
