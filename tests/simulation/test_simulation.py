"""Random schedules of builds, crashes, lost answers, lagging listings, flipped bits, repairs and collections.

`python -m tests.simulation 100000` runs as many as one likes; `make simulate` does that at night.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from corpusgen.sources import readers, streams
from corpusgen.sources.locate import SourceFile
from corpusgen.store import Commit, PassStore, Plan
from tests.simulation.schedules import BrokenPromiseError, run_schedule

SCHEDULES = 2_000
ENOUGH_TO_FIND_A_BUG = 300


@pytest.mark.parametrize("batch", range(8))
def test_whatever_happens_in_whatever_order_the_rows_are_those_of_a_sequential_run(batch: int):
    for seed in range(batch * SCHEDULES // 8, (batch + 1) * SCHEDULES // 8):
        run_schedule(seed)


def schedules_until_broken() -> int:
    """How many schedules it takes until one breaks a promise."""
    for seed in range(ENOUGH_TO_FIND_A_BUG):
        try:
            run_schedule(seed)
        except BrokenPromiseError:
            return seed + 1
    pytest.fail("the bug was not found")


def test_it_finds_lines_that_are_lost_where_a_line_is_longer_than_a_unit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(readers, "read_records", records_as_of_version_0_1)
    assert schedules_until_broken()


def test_it_finds_passes_that_are_planned_from_an_incomplete_listing(monkeypatch: pytest.MonkeyPatch):
    def listed(self: PassStore, plan: Plan) -> list[Commit]:
        done = self.committed()
        return list(self.commits(unit.id for unit in plan.units if unit.id in done))

    monkeypatch.setattr(PassStore, "all_commits", listed)
    assert schedules_until_broken()


def test_it_finds_passes_that_read_on_from_damaged_parts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "corpusgen.engine.parts.read_parts", lambda files, parts: (files.read(part.path) for part in parts)
    )
    assert schedules_until_broken()


def records_as_of_version_0_1(
    file: SourceFile, start: int, stop: int, begins: bytes = b"", ends: bytes = b""
) -> Iterator[tuple[int, bytes]]:
    """The lines of a range, in the way that lost some: after the rest of a line it reads the next one, whosever it is.

    The stream then stands behind it, and whoever has it open goes on from there with the next range.
    """
    kept = streams._kept.pop() if streams._kept else None
    if isinstance(kept, tuple) and kept[:2] == (file.path, start):
        opened, offset, line_start = kept[2], kept[3], True
    else:
        opened = open(file.path, "rb")  # noqa: SIM115
        offset, line_start = opened.seek(max(0, start - 1)), not start
    while offset < stop or not line_start:
        line = opened.readline()
        if line and not line_start:
            offset, line = offset + len(line), opened.readline()
        began, offset, line_start = offset, offset + len(line), True
        if not line:
            break
        if start <= began < stop:
            yield began, line
    streams._kept.append((file.path, stop, opened, offset))
