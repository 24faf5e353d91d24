"""A sample run through the passes of a build, in a temporary store, with measurements of what it takes."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from corpusgen.config.build import BuildConfig, DiscourseSettings
from corpusgen.corpus.build import check_workers, passes_of
from corpusgen.corpus.recipes import recipe_of, words
from corpusgen.engine import Pass, RunSettings, Stage
from corpusgen.engine.batch import Batch
from corpusgen.engine.counters import Tally
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.local import set_up
from corpusgen.engine.passes import Sink, first_batch, run_pass
from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.ops.estimate.source import SourceSample, sample_source
from corpusgen.sources.kinds import source_kind
from corpusgen.store import CommittedTable, PassStore, Plan, StageCount, Store, Unit
from corpusgen.store.products import DISCOURSE, PARAGRAPHS, WORDS
from corpusgen.store.status import PassStatus
from corpusgen.tables import TARGETS, VOCABULARY

_MOST_UNITS_OF_PAIRS = 20
WARM_UP = 20  # targets in the first unit, whose seconds do not count: what is loaded late is loaded then
Say = Callable[[str], None]


class Clock:
    """A stopwatch that leaves out the time in which this process could have run but had to wait for a CPU."""

    def __init__(self) -> None:
        self._start = (time.perf_counter(), time.process_time(), _waited())

    def seconds(self) -> float:
        """Return the seconds since the start, as on a machine with nothing else to do."""
        now = (time.perf_counter(), time.process_time(), _waited())
        wall, ran, waited = (after - before for before, after in zip(self._start, now, strict=True))
        return wall * ran / (ran + waited) if ran > 0 and waited > 0 else wall


def _waited() -> float:
    """Return how long the threads of this process waited for a CPU; only Linux tells."""
    nanoseconds = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended meanwhile
            nanoseconds += int(file.read_text().split()[1])
    return nanoseconds / 1e9


class Meter:
    """An executor: a loop like `LocalExecutor`, with a clock for each stage and for loading its models."""

    def __init__(self) -> None:
        self.loading: dict[str, float] = {}

    def run(self, pass_: Pass, store: PassStore, units: Sequence[Unit], tally: Tally) -> None:
        """Run and commit the units, with the seconds of the clock in their commits."""
        for stage in pass_.stages:
            clock = Clock()
            set_up([stage])
            self.loading[stage.name] = clock.seconds()
        sink = Sink(store, pass_.tables, pass_.derived)
        for unit in units:
            batch = first_batch(unit.records)
            for stage in pass_.stages:
                clock = Clock()
                batch = run_stage(stage, batch)
                batch = _timed(batch, stage.name, clock.seconds())
            sink.commit(unit.id, "estimate", batch)


def _timed(batch: Batch, stage: str, seconds: float) -> Batch:
    count = replace(batch.stages[stage], seconds=seconds)
    return replace(batch, stages={**batch.stages, stage: count})


@dataclass(frozen=True)
class MeasuredPass:
    """The results of a sample in one pass: for each unit, the counts of its stages and the rows of its parts.

    `rows` has all rows of each table; `other_bytes` is what a unit takes besides its parts.
    """

    name: str
    stages: Sequence[Stage]
    loading: Mapping[str, float]
    units: Sequence[Sequence[StageCount]]
    part_rows: Sequence[Mapping[str, int]]
    rows: Mapping[str, pa.Table]
    other_bytes: float

    def count(self, stage: int) -> StageCount:
        """Return the counts of a stage over all units."""
        return sum((unit[stage] for unit in self.units[1:]), self.units[0][stage])

    def pace(self, stage: int) -> StageCount:
        """Return the counts of a stage over all units except the first, which warmed up."""
        first, *others = self.units
        return sum((unit[stage] for unit in others[1:]), others[0][stage]) if others else first[stage]


@dataclass(frozen=True)
class Measured:
    """The sample: what was read of the source, and what each pass made of it.

    `parts` is the number of parts that hold its sentences, each the size of a part in a build. `counts` is the number
    of words counted in them; `sample_size` is the number of targets asked for.
    """

    source: SourceSample
    parts: int
    counts: int
    sample_size: int
    passes: Mapping[str, MeasuredPass]
    seconds: float


def measure(config: BuildConfig, targets: int, say: Say = lambda line: None) -> Measured:
    """Run a sample of the source, and `targets` of its targets, through all stages that the settings allow."""
    check_workers(config)
    recipe = recipe_of(config)
    if not {WORDS, DISCOURSE}.issuperset(recipe.products) and recipe.products != (PARAGRAPHS,):
        raise ConfigError(
            f"recipe: {config.recipe}: only words, discourse, words+discourse and paragraphs can be estimated"
        )
    names = passes_of(config)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="corpusgen-estimate-") as folder:
        stores = [Store.at(f"{folder}/{name}") for name in ("sentences", "targets", "triples")]
        run = _Run(config, say)
        first = recipe.passes[names[0]].make(config, stores[0])
        source = run.read(first, stores[0])
        parts, counts = run.regroup(first, source, stores[1])
        # The same share of the whole sample as was read of the source.
        size = max(targets + WARM_UP, round(config.sample.size * source.share))
        smaller = config.model_copy(
            update={
                "sample": config.sample.model_copy(update={"size": size}),
                "discourse": _smaller(config.discourse, source.share),
            }
        )
        for name in names:
            if name not in (first.name, WORDS.pass_name):
                run.one(recipe.passes[name].make(smaller, stores[1]), stores[1])
        if WORDS.pass_name in names:
            run.generate(targets, stores[2])
    return Measured(source, parts, counts, size, run.done, time.perf_counter() - started)


def _smaller(settings: DiscourseSettings, share: float) -> DiscourseSettings:
    """Return the settings for the same share of the pairs, in as many units as a build has, but not too many.

    Each unit of pairs looks through all sentences that were fetched: with the same number of units, what that takes
    grows with the sentences alone.
    """
    size = max(1, round(settings.size * share))
    units = min(_MOST_UNITS_OF_PAIRS, math.ceil(settings.size / settings.unit_pairs))
    return settings.model_copy(update={"size": size, "unit_pairs": math.ceil(size / units)})


class _Run:
    def __init__(self, config: BuildConfig, say: Say) -> None:
        self._config, self._say = config, say
        self.done: dict[str, MeasuredPass] = {}

    def read(self, whole: Pass, store: Store) -> SourceSample:
        """Run a sample of the source through the first pass."""
        settings, table = self._config.source, next(iter(whole.tables))
        source = sample_source(whole.slices, source_kind(settings.kind).cut_at, settings.unit_bytes, self._config.seed)
        if not source.pieces:
            raise CorpusgenError(
                "source.paths: the files are empty, so there is nothing to estimate from; give other files"
            )
        self._say(f"reading {source.share:.1%} of {source.bytes / 1e6:,.1f} MB in {len(source.pieces)} pieces")
        self.one(replace(whole, slices=[[piece.record] for piece in source.pieces]), store)
        if not self.done[whole.name].rows[table].num_rows:
            raise CorpusgenError(
                f"no {table.removesuffix('s')} passed the filters in {len(source.pieces)} pieces of the source: "
                f"{_why_nothing(store.pass_store(whole.name)) or 'there is no text in them'}"
            )
        return source

    def regroup(self, first: Pass, source: SourceSample, store: Store) -> tuple[int, int]:
        """Commit the rows in parts as large as a build's; return how many parts, and how many rows of counts."""
        main = next(iter(first.tables))
        rows = self.done[first.name].rows[main]
        parts = min(rows.num_rows, max(1, round(source.units * source.share)))
        cuts = [rows.num_rows * number // parts for number in range(parts + 1)]
        groups = [rows.slice(a, b - a) for a, b in pairwise(cuts)]
        tables = [{main: group} | {name: derive(group) for name, derive in first.derived.items()} for group in groups]
        _commit_tables(store, first.name, tables, first.tables)
        return parts, sum(table["counts"].num_rows for table in tables)

    def generate(self, number: int, store: Store) -> None:
        """Run some targets, at random, in units as large as the build's, after a small one."""
        targets = self.done["sample"].rows["targets"]
        chosen = np.random.default_rng(self._config.seed).permutation(targets.num_rows)[: number + WARM_UP]
        if not len(chosen):
            raise CorpusgenError(
                "no sentence of the sample has a word that can be a target; check the source and its language"
            )
        targets = targets.take(pa.array(np.sort(chosen)))
        _commit_tables(store, "sample", [{"targets": targets}], {"targets": TARGETS})
        _commit_tables(store, "vocabulary", [self.done["vocabulary"].rows], {"vocabulary": VOCABULARY})
        pass_ = words.RECIPE.passes[WORDS.pass_name].make(self._config, store)
        self._say(f"running {len(chosen):,} targets through {', '.join(stage.name for stage in pass_.stages)}")
        record = {**pass_.slices[0][0], "first": 0}
        size = self._config.generate.unit_targets
        cuts = [0, *range(min(WARM_UP, len(chosen) // 2), len(chosen), size), len(chosen)]
        slices = [[{**record, "first": a, "rows": b - a}] for a, b in pairwise(cuts) if b > a]
        self.one(replace(pass_, slices=slices), store)

    def one(self, pass_: Pass, store: Store) -> None:
        stages = [replace(stage, resources=self._config.run.resources_of(stage)) for stage in pass_.stages]
        pass_ = replace(pass_, stages=stages)
        meter, pass_store = Meter(), store.pass_store(pass_.name)
        run_pass(pass_, pass_store, meter, RunSettings(failure_limit=1))
        commits = list(pass_store.commits())
        other = sum(len(commit.encode()) for commit in commits) + len(pass_.plan().encode())
        self.done[pass_.name] = MeasuredPass(
            pass_.name,
            stages,
            meter.loading,
            [commit.stages for commit in commits],
            [{name: part.rows for name, part in commit.parts.items()} for commit in commits],
            {name: CommittedTable(store, pass_.name, name).to_table() for name in pass_.tables},
            other / len(commits),
        )


def _why_nothing(store: PassStore) -> str:
    """Return the reasons for rejected rows, and the errors of some records in quarantine."""
    status = PassStatus(store)
    totals = status.refresh()
    reasons = sorted({reason for stage in totals.stages.values() for reason in stage.rejected})
    rejected = f"rejected for: {', '.join(reasons)}" if reasons else ""
    errors = dict.fromkeys(f"{failure['stage']}: {failure['error']}" for failure in status.failures())
    failed = f"{totals.quarantined:,} records failed: {'; '.join(errors)}" if errors else ""
    return "; ".join(filter(None, (rejected, failed)))


def _commit_tables(
    store: Store, pass_name: str, units: Sequence[Mapping[str, pa.Table]], schemas: Mapping[str, pa.Schema]
) -> None:
    """Commit tables as the pass of that name would have."""
    pass_store = store.pass_store(pass_name)
    plan = Plan.of("estimate", [[{"unit": number}] for number in range(len(units))], schemas)
    pass_store.ensure_plan(plan)
    for unit, tables in zip(plan.units, units, strict=True):
        pass_store.commit(unit.id, "estimate", tables, [], [])
