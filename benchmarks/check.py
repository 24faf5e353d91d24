"""Whether a change made anything slower: the ratios of the last `make bench` against those that were committed.

    python -m benchmarks.check [RESULTS] [--against FILE|REV] [--loss 0.15]

Exits with 1 if a ratio fell by more than the loss, or a benchmark failed; a row that is new or gone is only named.
Noise moves ratios too: run the benchmark that it names again (`python -m benchmarks.suite --only …`) before you believe
it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.suite import failures, rows_of

RESULTS = Path(__file__).parent / "results.json"


def ratios(results: Mapping[str, Any]) -> dict[str, float]:
    """By what was compared with what."""
    return {f"{row.name} / {row.opponent}": row.ratio for row in rows_of(results)}


def losses(before: Mapping[str, float], now: Mapping[str, float], most: float) -> dict[str, tuple[float, float]]:
    """The rows whose ratio fell by more than that share: before and now."""
    return {name: (before[name], now[name]) for name in before if name in now and now[name] < (1 - most) * before[name]}


def committed(against: str, path: Path) -> dict[str, Any]:
    """The results in a file, or as they were in a revision of the repository."""
    if Path(against).is_file():
        return dict(json.loads(Path(against).read_text()))
    shown = subprocess.run(
        ["git", "show", f"{against}:./{path.name}"], cwd=path.parent, capture_output=True, text=True, check=False
    )
    if shown.returncode:
        raise SystemExit(f"{against}: neither a file nor a revision that has {path.name}: {shown.stderr.strip()}")
    return dict(json.loads(shown.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS)
    parser.add_argument("--against", default="HEAD", help="a file of results, or a revision")
    parser.add_argument("--loss", type=float, default=0.15, help="share of a ratio that may be lost")
    arguments = parser.parse_args()
    if not arguments.results.is_file():
        raise SystemExit(f"{arguments.results}: no such file; `make bench` writes it")
    then = committed(arguments.against, arguments.results)
    if "benchmarks" not in then:
        raise SystemExit(f"{arguments.against}: results of an earlier form; give a later revision with --against")
    before = ratios(then)
    results = json.loads(arguments.results.read_text())
    now, failed = ratios(results), failures(results)
    for name in sorted(before.keys() ^ now.keys()):
        print(f"{'new' if name in now else 'gone'}: {name}")
    for name, why in failed.items():
        print(f"failed: {name}: {why}")
    slower = losses(before, now, arguments.loss)
    for name, (was, today) in slower.items():
        print(f"slower: {name}: {was:.2f} → {today:.2f} ({today / was - 1:+.0%})")
    if not slower:
        print(f"no ratio fell by more than {arguments.loss:.0%}")
    sys.exit(bool(slower or failed))


if __name__ == "__main__":
    main()
