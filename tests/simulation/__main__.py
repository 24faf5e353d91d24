"""`python -m tests.simulation [SCHEDULES] [FIRST]`: random schedules on all cores, until one breaks a promise."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor

from corpusgen.engine.cluster import available_cores
from tests.simulation.schedules import run_schedule

_TOGETHER = 200


def run_some(seeds: range) -> int:
    for seed in seeds:
        run_schedule(seed)
    return len(seeds)


def main(schedules: int = 100_000, first: int = 0) -> None:
    started, done, stop = time.monotonic(), 0, first + schedules
    groups = [range(seed, min(seed + _TOGETHER, stop)) for seed in range(first, stop, _TOGETHER)]
    with ProcessPoolExecutor(available_cores()) as pool:
        for some in pool.map(run_some, groups):
            done += some
            sys.stdout.write(f"\r{done:,} of {schedules:,} schedules, {time.monotonic() - started:,.0f} s")
            sys.stdout.flush()
    sys.stdout.write(": every promise was kept\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
