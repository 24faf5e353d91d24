"""Estimates against the real run, and how much the speed of a machine varies.

    python -m benchmarks.estimate CONFIG --store FOLDER build              # the real run; the same command resumes
    python -m benchmarks.estimate CONFIG --store FOLDER estimate --seed 0  # again for as many seeds as you like
    python -m benchmarks.estimate CONFIG --store FOLDER compare

A seed chooses other pieces of the source and other targets. `build` is `corpusgen build --executor local`, and counts
the seconds in which it waits for a CPU that others use, as every build does: compare on a machine with nothing else to
do. `compare` says for every stage and table how often the 90 % interval holds, and how many times faster or slower than
their median the estimates were; it exits with 1 if the intervals of most seeds miss anything.

300 targets against all 5,000 of a real corpus:

    config=benchmarks/configs/dev_real.yaml
    python -m benchmarks.estimate $config --store /tmp/estimates build
    for seed in 0 1 2 3 4; do
      python -m benchmarks.estimate $config --store /tmp/estimates estimate --targets 300 --seed $seed
    done
    python -m benchmarks.estimate $config --store /tmp/estimates compare
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusgen.config.build import BuildConfig, load_config
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.ops.estimate.estimate import estimate
from corpusgen.store import Store
from corpusgen.store.status import PassStatus


def run_build(config: BuildConfig) -> None:
    # Not the estimate's own executor: what that does not know of would be missing on both sides.
    build(
        config,
        LocalExecutor(config.run),
        on_pass=lambda name, totals: print(f"{name}: {totals.committed} units", flush=True),
    )


def run_estimate(config: BuildConfig, results: Path, targets: int, seed: int) -> None:
    found = estimate(config.model_copy(update={"seed": seed}), targets)
    with results.open("a") as file:
        file.write(json.dumps({"seed": seed, **dataclasses.asdict(found)}) + "\n")


def truth_of(store: Store) -> dict[str, float]:
    """What the commits say, by the names that `estimates_of` gives."""
    found: dict[str, float] = {}
    size = 0
    for pass_store in store.passes():
        totals = PassStatus(pass_store).refresh()
        assert totals.complete, f"{pass_store.name} is not finished: build again"
        for stage in totals.stages.values():
            found[f"{pass_store.name} {stage.name} rows"] = stage.rows_out
            found[f"{pass_store.name} {stage.name} seconds"] = stage.seconds
        commits = list(pass_store.commits())
        for table in totals.rows:
            parts = [commit.parts[table] for commit in commits if table in commit.parts]
            found[f"{pass_store.name}/{table} rows"] = sum(part.rows for part in parts)
            found[f"{pass_store.name}/{table} bytes"] = sum(part.bytes for part in parts)
        for folder in ("", "/parts", "/commits", "/quarantine"):
            size += sum(info.size for info in store.files.list(pass_store.name + folder))
    return {**found, "storage bytes": size}


def estimates_of(found: dict[str, Any]) -> dict[str, tuple[float, float, float]]:
    """Value, low and high of everything in an estimate."""
    named = {}
    for stage in found["stages"]:
        name = f"{stage['pass_name']} {stage['stage']}"
        named[f"{name} rows"] = tuple(stage["rows_out"])
        named[f"{name} seconds"] = tuple(value * 3600 for value in stage["hours"])
    for table in found["tables"]:
        name = f"{table['pass_name']}/{table['table']}"
        named[f"{name} rows"], named[f"{name} bytes"] = tuple(table["rows"]), tuple(table["bytes"])
    return {**named, "storage bytes": tuple(found["storage_bytes"])}


def compare(config: BuildConfig, results: Path) -> list[str]:
    """Print everything; the names of what the intervals of most estimates miss."""
    runs = [json.loads(line) for line in results.read_text().splitlines()]
    estimates = [estimates_of(run) for run in runs]
    truth = truth_of(Store.at(config.store))
    print(f"{'':32}{'real run':>14}{'estimate':>14}{'90 % interval of the first':>32}{'holds':>10}{'± of runs':>12}")
    all_held, missed = 0, []
    for name, real in truth.items():
        value, low, high = estimates[0][name]
        held = sum(some[name][1] <= real <= some[name][2] for some in estimates)
        all_held += held
        if 2 * held < len(runs):
            missed.append(name)
        spread = ""
        if name.endswith("seconds"):
            values = [some[name][0] for some in estimates]
            middle = statistics.median(values)
            spread = f"×{max(max(values) / middle, middle / min(values)):.2f}"
        interval = f"{_short(low)} – {_short(high)}"
        print(f"{name:32}{_short(real):>14}{_short(value):>14}{interval:>32}{f'{held}/{len(runs)}':>10}{spread:>12}")
    print(f"{all_held} of {len(truth) * len(estimates)} intervals hold")
    return missed


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--store", required=True, help="a folder for the real run and the estimates")
    parser.add_argument("what", choices=["build", "estimate", "compare"])
    parser.add_argument("--targets", type=int, default=300, help="of an estimate")
    parser.add_argument("--seed", type=int, default=0, help="of an estimate")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    arguments = parser.parse_args(given)
    folder = Path(arguments.store)
    folder.mkdir(parents=True, exist_ok=True)
    config = load_config(arguments.config, [*arguments.overrides, f"store={folder / 'store'}"])
    results = folder / "estimates.jsonl"
    match arguments.what:
        case "build":
            run_build(config)
        case "estimate":
            run_estimate(config, results, arguments.targets, arguments.seed)
        case "compare":
            if missed := compare(config, results):
                sys.exit(f"most estimates miss: {', '.join(missed)}")


if __name__ == "__main__":
    main()
