"""Faults at exact moments: a store whose files kill a process when a chosen unit reaches a chosen point."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import ray

from corpusgen.io.files import LocalFiles
from corpusgen.store import Store
from tests.testing.demo_pass import demo_pass

POINTS = ("before the part", "after the part", "after the commit")
# Where a run takes long, only the worst point is in the quick tests: the part is written, the commit is not.
POINTS_MOSTLY_SLOW = tuple(
    point if point == "after the part" else pytest.param(point, marks=pytest.mark.slow) for point in POINTS
)


class FaultyFiles(LocalFiles):
    """Fires once, when the middle unit of the demonstration pass gets to `point`.

    `victim` is the process to kill; None kills the process that is writing; 0 kills nobody, but leaves the id of
    the node in `flag` and waits to be ended from outside.
    """

    def __init__(self, root: str, point: str, flag: Path, victim: int | None, **pass_settings) -> None:
        super().__init__(root)
        units = demo_pass(**pass_settings).plan().units
        self.unit = units[len(units) // 2].id
        self.point = point
        self.flag = flag
        self.victim = victim

    def write(self, path, data):
        if "/parts/" in path and self.unit in path:
            self._reach("before the part")
        super().write(path, data)
        if "/parts/" in path and self.unit in path:
            self._reach("after the part")

    def create(self, path, data):
        created = super().create(path, data)
        if "/commits/" in path and self.unit in path:
            self._reach("after the commit")
        return created

    def _reach(self, point):
        if point != self.point:
            return
        try:
            descriptor = os.open(self.flag, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return
        if self.victim == 0:
            os.write(descriptor, ray.get_runtime_context().get_node_id().encode())
        os.close(descriptor)
        self._strike()

    def _strike(self):
        if self.victim != 0:
            os.kill(self.victim or os.getpid(), signal.SIGKILL)
        time.sleep(600)


def faulty_store(root: Path, point: str, victim: int | None, **pass_settings) -> Store:
    return Store(FaultyFiles(str(root), point, root.parent / f"{root.name}.fired", victim, **pass_settings))
