"""`make bench`: the whole suite at a small size. It reports and never fails for a slow machine.

    python -m benchmarks.suite [--only end_to_end growth] [--eval FOLDER] [--out benchmarks]

Each benchmark runs in a process of its own, on the text and models of the quickstart, and gives rows: our speed in that
of a stated opponent in the same run. They go to results.json, results.md and results.png in the folder `--out`;
`python -m benchmarks.check` compares the ratios with those that were committed last.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import Row

HERE = Path(__file__).parent
BENCHMARKS = ("end_to_end", "masked", "align", "engine", "growth", "translation", "cpu")


def rows_of(name: str, eval_folder: str | None) -> list[Row]:
    """Run one, here and now."""
    match name:
        case "end_to_end":
            from benchmarks import end_to_end

            return end_to_end.run(targets=400, plain_targets=40, rounds=2, eval_folder=eval_folder)
        case "masked":
            from benchmarks import masked

            return masked.run(sentences=200, rounds=2)
        case "align":
            from benchmarks import align

            return align.run(pairs=500, rounds=2)
        case "engine":
            from benchmarks import engine

            return engine.run(units=2000, planned=20_000, work_units=3)
        case "growth":
            from benchmarks import growth

            return growth.run(marks=[200, 400, 800])
        case "translation":
            from benchmarks import translation

            return translation.run(sentences=32, updates=120, rounds=2)[0]
        case "cpu":
            from benchmarks import cpu

            return cpu.run(sentences=200)
    raise ValueError(name)


def in_own_process(name: str, eval_folder: str | None) -> list[Row]:
    """What other benchmarks loaded and left behind must not count."""
    code = (
        "import dataclasses, json, sys; from benchmarks.suite import rows_of; "
        f"rows = rows_of({name!r}, {eval_folder!r}); "
        "print(json.dumps([dataclasses.asdict(row) for row in rows]))"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"  {name} failed: {last}", flush=True)
        return []
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def table(rows: Sequence[Row]) -> str:
    """For people, in Markdown."""
    lines = ["| | times as fast as | ratio | bar | ours | |", "|---|---|---|---|---|---|"]
    for row in rows:
        bar = "" if row.bar is None else f"≥ {row.bar:g}{'' if row.met else ' (missed)'}"
        lines.append(f"| {row.name} | {row.opponent} | {row.ratio:.2f} | {bar} | {row.ours} | {row.note} |")
    return "\n".join(lines)


def plot(rows: Sequence[Row], path: Path) -> None:
    """The ratios as bars on a logarithmic scale, with a mark where each should be."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.32 * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))
    axes.barh(
        places, [row.ratio for row in rows], color=["#c44" if row.met is False else "#47a" for row in rows], left=0
    )
    for place, row in zip(places, rows, strict=True):
        if row.bar is not None:
            axes.plot([row.bar] * 2, [place - 0.45, place + 0.45], color="black")
    axes.set_yticks(places, [row.name for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set(xscale="log", xlabel="our speed in the opponent's; black: the bar")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS)
    parser.add_argument("--eval", help="folder with wic/ and scws/: some minutes more")
    parser.add_argument("--out", type=Path, default=HERE)
    arguments = parser.parse_args()
    rows: list[Row] = []
    for name in arguments.only:
        started = time.monotonic()
        found = in_own_process(name, arguments.eval)
        print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
        for row in found:
            print(f"  {row.name}: {row.ratio:.2f} × {row.opponent} ({row.ours})", flush=True)
        rows += found
    machine = {"machine": platform.machine(), "python": platform.python_version()}
    results: dict[str, Any] = {**machine, "rows": [dataclasses.asdict(row) for row in rows]}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (arguments.out / "results.md").write_text(f"# Benchmarks\n\nBy `make bench`.\n\n{table(rows)}\n")
    if rows:
        plot(rows, arguments.out / "results.png")
    missed = [row.name for row in rows if row.met is False]
    print(f"\n{arguments.out}/results.json, results.md, results.png")
    print(f"below their bars: {'; '.join(missed)}" if missed else "all bars are reached")


if __name__ == "__main__":
    main()
