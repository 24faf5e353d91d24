"""`make bench`: the whole suite at a small size. It reports and never fails for a slow machine.

    python -m benchmarks.suite [--only end_to_end growth] [--eval FOLDER] [--out benchmarks]

Each benchmark runs in a process of its own, on the text and models of the quickstart, and gives rows: our speed in that
of a stated opponent in the same run, and curves by size or setting. They go to results.json, results.md, results.png
and curves.png in the folder `--out`; `python -m benchmarks.check` compares the ratios with those committed last.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks import pictures
from benchmarks.rows import Curve, Found, Row

HERE = Path(__file__).parent
_LEGEND = "A ratio is our speed in that of what it is against, or its memory in ours: more is better."
BENCHMARKS = ("end_to_end", "masked", "align", "engine", "growth", "sizes", "translation", "cpu", "pairs")


def run(name: str, eval_folder: str | None) -> Found:
    """Run one, here and now."""
    match name:
        case "end_to_end":
            from benchmarks import end_to_end

            return Found(end_to_end.run(targets=300, plain_targets=24, rounds=2, eval_folder=eval_folder))
        case "masked":
            from benchmarks import masked

            return Found(masked.run(sentences=150, rounds=2))
        case "align":
            from benchmarks import align

            return Found(align.run(pairs=500, rounds=2))
        case "engine":
            from benchmarks import engine

            return Found(engine.run(units=2000, planned=20_000, work_units=3))
        case "growth":
            from benchmarks import growth

            return growth.run(marks=[150, 300, 600])
        case "sizes":
            from benchmarks import sizes

            return sizes.run()
        case "translation":
            from benchmarks import translation

            return translation.run(sentences=32, rounds=2)
        case "cpu":
            from benchmarks import cpu

            return cpu.run(sentences=200)
        case "pairs":
            from benchmarks import pairs

            return pairs.run(targets=300, pairs=3000)
    raise ValueError(name)


def in_own_process(name: str, eval_folder: str | None) -> dict[str, Any]:
    """What it finds, as JSON has it, or why it failed. What other benchmarks left behind must not count."""
    code = (
        "import dataclasses, json; from benchmarks.suite import run; "
        f"print(json.dumps(dataclasses.asdict(run({name!r}, {eval_folder!r}))))"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    taken = {"seconds": round(time.monotonic() - started)}
    if done.returncode:
        return {"failed": _error(done.stderr), **taken}
    return {**json.loads(done.stdout.splitlines()[-1]), **taken}


def _error(printed: str) -> str:
    """What a process died of: the last line that names an error, which may have more lines, or just the last one."""
    lines = printed.strip().splitlines() or ["no message"]
    return next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)), lines[-1])


def rows_of(results: Mapping[str, Any]) -> list[Row]:
    """Of all benchmarks that did not fail."""
    return [Row(**row) for found in results["benchmarks"].values() for row in found.get("rows", [])]


def curves_of(results: Mapping[str, Any]) -> list[Curve]:
    """Of all benchmarks that did not fail."""
    return [Curve(**curve) for found in results["benchmarks"].values() for curve in found.get("curves", [])]


def failures(results: Mapping[str, Any]) -> dict[str, str]:
    """The benchmarks that failed, and why."""
    return {name: found["failed"] for name, found in results["benchmarks"].items() if "failed" in found}


def summary(results: Mapping[str, Any]) -> str:
    """What is below its bar, and what failed."""
    missed = [row.name for row in rows_of(results) if row.met is False]
    failed = [f"{name} ({why})" for name, why in failures(results).items()]
    said = [f"failed: {'; '.join(failed)}"] if failed else []
    said += [f"below their bars: {'; '.join(missed)}"] if missed else []
    return "\n".join(said or ["all bars are reached"])


def table(rows: Sequence[Row]) -> str:
    """For people, in Markdown."""
    lines = ["| | against | ratio | bar | ours | |", "|---|---|---|---|---|---|"]
    for row in rows:
        bar = "" if row.bar is None else f"≥ {row.bar:g}{'' if row.met else ' (missed)'}"
        lines.append(f"| {row.name} | {row.opponent} | {row.ratio:.2f} | {bar} | {row.ours} | {row.note} |")
    return "\n".join(lines)


def write(results: Mapping[str, Any], folder: Path) -> None:
    """All files of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, curves = rows_of(results), curves_of(results)
    (folder / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    seconds = sum(found["seconds"] for found in results["benchmarks"].values())
    page = f"# Benchmarks\n\nBy `make bench`, in {seconds / 60:.0f} minutes. {_LEGEND}\n\n{table(rows)}\n"
    page += f"\n{summary(results)}\n"
    if rows:
        pictures.bars(rows, folder / "results.png")
        page += "\n![ratios](results.png)\n"
    if curves:
        pictures.draw(curves, folder / "curves.png")
        page += "\n![curves](curves.png)\n"
    (folder / "results.md").write_text(page)


def earlier(folder: Path) -> dict[str, Any]:
    """What benchmarks found before, so that running one of them anew keeps the others."""
    path = folder / "results.json"
    return dict(json.loads(path.read_text())["benchmarks"]) if path.is_file() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=BENCHMARKS, help="these anew, the others as they are in the folder"
    )
    parser.add_argument("--eval", help="folder with wic/ and scws/: some minutes more")
    parser.add_argument("--out", type=Path, default=HERE)
    arguments = parser.parse_args()
    found = earlier(arguments.out) if arguments.only else {}
    for name in arguments.only or BENCHMARKS:
        found[name] = in_own_process(name, arguments.eval)
        print(f"{name}: {found[name].get('failed', '')} {found[name]['seconds']} s", flush=True)
        for row in rows_of({"benchmarks": {name: found[name]}}):
            print(f"  {row.name}: {row.ratio:.2f} × {row.opponent} ({row.ours})", flush=True)
    results = {
        "machine": f"{psutil.cpu_count()} cores, {platform.machine()}",
        "python": platform.python_version(),
        "benchmarks": {name: found[name] for name in BENCHMARKS if name in found},
    }
    write(results, arguments.out)
    print(f"\n{arguments.out}/results.json, results.md and pictures\n{summary(results)}")


if __name__ == "__main__":
    main()
