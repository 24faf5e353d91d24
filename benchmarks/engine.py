"""What the engine itself costs: overhead per unit, resuming a large plan, Ray against a plain loop.

python -m benchmarks.engine [--units 10000]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import psutil
import pyarrow as pa

from benchmarks.rows import Row
from corpusgen.engine import LocalExecutor, Pass, Resources, RunSettings, Stage
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.store import Store

TABLES = {"numbers": pa.schema([("number", pa.int64())])}
LEAST_UNITS = 200  # a second
MOST_SECONDS_TO_RESUME = 20.0
ONE_WORKER = Resources(min_workers=1, max_workers=1)


@dataclass
class Trivial(Stage):
    adds: ClassVar[tuple[str, ...]] = ("number",)
    needs: ClassVar[tuple[str, ...]] = ("number",)
    label: str = ""

    def __post_init__(self) -> None:
        self.name = self.label  # type: ignore[misc]

    def process(self, rows: pa.Table) -> pa.Table:
        return rows


@dataclass
class Work(Trivial):
    """Keeps a core busy for a while, whatever else runs."""

    seconds: float = 0.0

    def process(self, rows: pa.Table) -> pa.Table:
        end = time.process_time() + self.seconds
        while time.process_time() < end:
            sum(range(10_000))
        return rows


def trivial_pass(units: int, stages: int = 3) -> Pass:
    return Pass(
        "trivial",
        [Trivial(label=f"stage{i}") for i in range(stages)],
        [[{"number": i}] for i in range(units)],
        TABLES,
    )


def work_pass(units: int, seconds: float) -> Pass:
    """`seconds` of work a unit in the first stage; two trivial ones follow."""
    stages: list[Stage] = [Work(label="work", seconds=seconds, resources=ONE_WORKER)]
    stages += [Trivial(label=f"stage{i}", resources=ONE_WORKER) for i in range(2)]
    return Pass("work", stages, [[{"number": i}] for i in range(units)], TABLES)


def timed(pass_: Pass, executor: Executor, root: Path) -> float:
    store = Store.at(str(root)).pass_store(pass_.name)
    started = time.perf_counter()
    run_pass(pass_, store, executor, RunSettings())
    return time.perf_counter() - started


def overhead(units: int, folder: Path) -> dict[str, float]:
    """Units per second through three trivial stages, and how much the driver grows meanwhile."""
    timed(trivial_pass(50), RayExecutor(), folder / "warm-up")
    before = psutil.Process().memory_info().rss
    seconds = timed(trivial_pass(units), RayExecutor(), folder / "overhead")
    grown = psutil.Process().memory_info().rss - before
    return {"units": units, "units_per_second": units / seconds, "driver_growth_mb": grown / 1e6}


def part_done(units: int, committed: int, folder: Path) -> tuple[Pass, float]:
    """A pass of which some units are committed, and the seconds that it takes to find out which are left."""
    pass_ = trivial_pass(units)
    store = Store.at(str(folder)).pass_store(pass_.name)
    plan = pass_.plan()
    store.ensure_plan(plan)
    commits = folder / pass_.name / "commits"
    commits.mkdir()
    for unit in plan.units[:committed]:
        commit: dict[str, object] = {"unit": unit.id, "attempt": "x", "parts": {}, "quarantine": None, "stages": []}
        (commits / f"{unit.id}.json").write_text(json.dumps({**commit, "worker": "", "committed_at": 0}))
    started = time.perf_counter()
    pass_ = trivial_pass(units)
    plan = pass_.plan()
    store.ensure_plan(plan)
    done = store.committed()
    left = [unit for unit in plan.units if unit.id not in done]
    found = time.perf_counter() - started
    assert len(left) == units - committed
    return pass_, found


def resume(units: int, committed: int, folder: Path) -> dict[str, float]:
    """Seconds to find out what is left of a large plan, and to do the rest."""
    pass_, found = part_done(units, committed, folder / "resume")
    whole = timed(pass_, RayExecutor(), folder / "resume")
    return {"units": units, "committed": committed, "seconds_to_first_unit": found, "seconds_in_all": whole}


def against_loop(units: int, seconds: float, folder: Path) -> dict[str, float]:
    """One worker a stage on Ray against the loop in this process, on units that take some seconds."""
    local = timed(work_pass(units, seconds), LocalExecutor(), folder / "local")
    on_ray = timed(work_pass(units, seconds), RayExecutor(), folder / "ray")
    return {
        "units": units,
        "seconds_per_unit": seconds,
        "local": local,
        "ray": on_ray,
        "ratio": on_ray / local,
    }


def measure(units: int, planned: int, work_units: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as name, ray_cluster("local"):
        folder = Path(name)
        return {
            "overhead": overhead(units, folder),
            "resume": resume(planned, planned * 99 // 100, folder),
            "against_loop": against_loop(work_units, 5.0, folder),
        }


def run(units: int, planned: int, work_units: int) -> list[Row]:
    found = measure(units, planned, work_units)
    overhead, resume, loop = found["overhead"], found["resume"], found["against_loop"]
    rate, whole = overhead["units_per_second"], resume["seconds_in_all"]
    return [
        Row(
            f"engine, {units:,} trivial units",
            f"{LEAST_UNITS} units a second through three stages",
            rate / LEAST_UNITS,
            1.0,
            f"{rate:.0f} units/s",
            f"the driver grew by {overhead['driver_growth_mb']:.0f} MB",
        ),
        Row(
            f"resuming {planned:,} units, 99 % done",
            f"{MOST_SECONDS_TO_RESUME} s for each 100,000",
            MOST_SECONDS_TO_RESUME * planned / 100_000 / whole,
            None,
            f"{whole:.1f} s, the first unit after {resume['seconds_to_first_unit']:.1f} s",
        ),
        Row("Ray, one worker a stage", "a plain loop", 1 / loop["ratio"], 1 / 1.1, f"{loop['ray']:.1f} s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--planned", type=int, default=100_000)
    parser.add_argument("--work-units", type=int, default=6)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.units, arguments.planned, arguments.work_units), indent=2))


if __name__ == "__main__":
    main()
