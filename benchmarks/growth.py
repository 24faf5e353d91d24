"""What a target costs, and how much memory is held, as a build grows.

    python -m benchmarks.growth [CONFIG --set sample.size=50000 …] [--store FOLDER] [--marks 1000 2000 …] [--plot FILE]

One build on Ray, looked at every few seconds. At each mark (so many targets done) the most memory that the driver, the
largest worker and the object store have had so far; between two marks what all stages took for a target of the units
that were done there, as the store's own log of events says. If any of them grew with the number of targets, the last
row would show it. Without CONFIG it is the quickstart's corpus.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.pictures import draw
from benchmarks.rows import Curve, Found, Row
from corpusgen.config.build import BuildConfig, load_config
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.engine.counters import Tally
from corpusgen.engine.ray_executor import RayExecutor
from distiller.quickstart import settings

KINDS = ("driver", "worker", "object store")
_LOOK_SECONDS = 2.0
_MB = 1e6


@dataclass
class Growth:
    """A progress display that takes notes instead."""

    marks: list[int]
    unit_targets: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    _looked: float = 0.0
    _peaks: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))

    def update(self, tally: Tally, final: bool = False) -> None:
        if not final and time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        self._look()
        done = min(tally.units_done * self.unit_targets, tally.stages[0].count.rows_out)
        is_new = tally.units_done > (self.rows[-1]["units"] if self.rows else 0)
        if is_new and (done >= self.marks[len(self.rows)] if len(self.rows) < len(self.marks) else final):
            self.rows.append(self._row(tally, done))
            print(json.dumps(self.rows[-1]), flush=True)

    def _look(self) -> None:
        driver = psutil.Process()
        self._note("driver", driver.memory_info().rss)
        for process in driver.children(recursive=True):
            with suppress(psutil.NoSuchProcess, IndexError):
                title = process.cmdline()[0]
                memory = process.memory_info()
                if title.startswith("ray::"):
                    self._note("worker", memory.rss - memory.shared)
                elif title.endswith("raylet"):
                    self._note("object store", memory.shared)

    def _note(self, kind: str, memory: float) -> None:
        self._peaks[kind] = max(self._peaks[kind], memory / _MB)

    def _row(self, tally: Tally, done: int) -> dict[str, Any]:
        memory = {f"{kind} MB": round(peak, 1) for kind, peak in self._peaks.items()}
        return {"targets": done, "units": tally.units_done, "triples": tally.stages[-1].count.rows_out, **memory}


def cost(units: list[dict[str, Any]]) -> float:
    """Milliseconds that all stages took for a target, each by the rows that it had."""
    stages: dict[str, list[tuple[float, int]]] = {}
    for unit in units:
        for stage in unit["stages"]:
            stages.setdefault(stage["stage"], []).append((stage["seconds"], max(stage["rows_in"], stage["rows_out"])))
    return sum(1000 * sum(seconds for seconds, _ in done) / sum(rows for _, rows in done) for done in stages.values())


def measure(config: BuildConfig, marks: list[int]) -> dict[str, Any]:
    """Rows at the marks, and how the last of them compares with the first."""
    build(config, LocalExecutor(), until="sample")
    growth = Growth(marks, config.generate.unit_targets)
    with RayExecutor(config.run, growth) as executor:
        files = build(config, executor).files
    logs = [json.loads(line) for log in files.list("generate/events") for line in files.read(log.path).splitlines()]
    done = sorted((event for event in logs if event["event"] == "done"), key=lambda event: event["time"])
    first, last = growth.rows[0], growth.rows[-1]
    for before, row in zip([{"units": 0}, *growth.rows], growth.rows, strict=False):
        row["ms per target since"] = cost(done[before["units"] : row["units"]])
    return {
        "rows": growth.rows,
        "cost of a target, last stretch against the first": last["ms per target since"] / first["ms per target since"],
        **{f"{kind}'s memory, last against first": last[f"{kind} MB"] / first[f"{kind} MB"] for kind in KINDS},
    }


def run(marks: list[int]) -> Found:
    """On the quickstart's corpus."""
    with tempfile.TemporaryDirectory() as folder:
        found = measure(settings(folder, marks[-1])[0], marks)
    last = found["rows"][-1]
    cost = 1 / found["cost of a target, last stretch against the first"]
    rows = [Row("growth: cost of a target", "the first mark", cost, 0.85, f"{last['ms per target since']:.0f} ms")]
    for kind in KINDS:
        ratio = 1 / found[f"{kind}'s memory, last against first"]
        rows.append(Row(f"growth: memory of {kind}", "the first mark", ratio, None, f"{last[f'{kind} MB']:.0f} MB"))
    return Found(rows, curves(found["rows"]))


def curves(rows: list[dict[str, Any]]) -> list[Curve]:
    def line(column: str) -> list[tuple[float, float]]:
        return [(row["targets"], row[column]) for row in rows]

    return [
        Curve("time of a target in all stages", "targets done", "ms", {"": line("ms per target since")}),
        Curve("most memory so far", "targets done", "MB", {kind: line(f"{kind} MB") for kind in KINDS}),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", help="settings of a build; without them the quickstart's")
    parser.add_argument("--marks", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--store", type=Path, help="where the corpus is to stay; without it, it goes")
    parser.add_argument("--plot", type=Path, help="a picture of the rows")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    arguments = parser.parse_args()
    if arguments.store and arguments.store.exists():
        parser.error(f"--store {arguments.store}: exists; what is done already cannot be measured")
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store or f"{folder}/corpus"
        if arguments.config:
            config = load_config(arguments.config, [*arguments.overrides, f"store={store}"])
        else:
            config = settings(folder, arguments.marks[-1])[0].model_copy(update={"store": str(store)})
        found = measure(config, arguments.marks)
    print(json.dumps(found, indent=2))
    if arguments.plot:
        draw(curves(found["rows"]), arguments.plot)


if __name__ == "__main__":
    main()
