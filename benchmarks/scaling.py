"""Throughput against the number of actors, on stages that sleep instead of computing, so that cores do not limit.

    python -m benchmarks.scaling [--actors 1 2 4 8 16 32 64] [--stages 1] [--seconds 1.0] [--units 20]

Every actor gets the same number of units, so with a perfect engine all rows take the same time. Starting a process
and its imports take more than a second of a core: actors wait for one another, and the clock runs from the moment when
all of them begin to the last commit. What the driver takes is measured from the first commit on.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import psutil
import pyarrow as pa

from corpusgen.engine import Pass, Resources, RunSettings, Stage
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.counters import Tally
from corpusgen.engine.passes import run_pass
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.store import Store

TABLES = {"numbers": pa.schema([("number", pa.int64())])}
START_SECONDS = 1.0


@dataclass
class Sleep(Stage):
    needs: ClassVar[tuple[str, ...]] = ("number",)
    adds: ClassVar[tuple[str, ...]] = ("number",)

    label: str
    seconds: float
    actors: int
    gate: str = field(metadata={"content": False})
    """A folder in which each actor leaves a file when it is up."""

    def __post_init__(self) -> None:
        self.name = self.label  # type: ignore[misc]

    def setup(self) -> None:
        pa.array([0])  # imports pandas if it is there, which takes a process a third of a second, once
        Path(self.gate, str(os.getpid())).touch()
        while (start := start_of(self.gate, self.actors)) is None:
            time.sleep(0.2)
        time.sleep(max(0.0, start - time.time()))

    def process(self, rows: pa.Table) -> pa.Table:
        time.sleep(self.seconds)
        return rows


def start_of(gate: str, actors: int) -> float | None:
    """When all begin: a moment after the last of them came."""
    came = [entry.stat().st_mtime for entry in os.scandir(gate)]
    return max(came) + START_SECONDS if len(came) == actors else None


class Driver:
    """Looks at the driver's process whenever progress is shown."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._first: tuple[float, float, int] | None = None
        self.figures: dict[str, float] = {}

    def update(self, tally: Tally, final: bool = False) -> None:
        used = self._process.cpu_times()
        now = (time.perf_counter(), used.user + used.system, tally.units_done)
        if self._first is None and tally.units_done:
            self._first = now
        elif self._first and now[2] > self._first[2]:
            seconds, processor, units = (new - old for new, old in zip(now, self._first, strict=True))
            memory = self._process.memory_info().rss / 1e6
            self.figures = {
                "driver_cores": processor / seconds,
                "driver_ms_per_unit": 1000 * processor / units,
                "driver_mb": memory,
            }


def run(actors: int, stages: int, seconds: float, units: int, folder: Path) -> dict[str, float]:
    gate = folder / f"gate-{actors}"
    gate.mkdir()
    resources = Resources(cpus=0.02, min_workers=actors, max_workers=actors)
    sleeping = [
        Sleep(f"sleep{number}", seconds, actors * stages, str(gate), resources=resources) for number in range(stages)
    ]
    pass_ = Pass("sleep", list(sleeping), [[{"number": number}] for number in range(actors * units)], TABLES)
    store = Store.at(str(folder / f"store-{actors}")).pass_store(pass_.name)
    driver = Driver()
    run_pass(pass_, store, RayExecutor(progress=driver), RunSettings())
    started = start_of(str(gate), actors * stages)
    assert started is not None
    taken = max(commit.committed_at for commit in store.commits()) - started
    return {"actors": actors, "units": actors * units, "seconds": taken, "units_per_second": actors * units / taken} | (
        driver.figures
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--stages", type=int, default=1, help="each with so many actors")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a stage sleeps over a unit")
    parser.add_argument("--units", type=int, default=20, help="that each actor gets")
    arguments = parser.parse_args()
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, ray_cluster("local"):
        for actors in arguments.actors:
            row = run(actors, arguments.stages, arguments.seconds, arguments.units, Path(folder))
            rows.append(row | {"ratio": row["units_per_second"] / (rows or [row])[0]["units_per_second"]})
            print(json.dumps(rows[-1]), flush=True)


if __name__ == "__main__":
    main()
