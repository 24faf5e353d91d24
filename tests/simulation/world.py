"""A machine room in one thread: a disk, processes that take turns at every access to it, and all that goes wrong.

Processes are greenlets that run the project's own code. Whenever one touches the disk it gives way, and a random
number generator chooses who goes on, who crashes, whose answer is lost, what a listing does not show yet and which bit
flips. A schedule is a seed: the same seed does the same again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from greenlet import GreenletExit, greenlet

from corpusgen.errors import StoreUnavailableError
from corpusgen.io.files import FileInfo
from corpusgen.io.lock import LockHeldError

ALWAYS = -1.0


@dataclass(frozen=True)
class Faults:
    """How likely each of them is at one access to the disk."""

    crash: float = 0.0
    lost_answer: float = 0.0
    lag: float = 0.0
    """That a new file is hidden from everybody else for a while: from listings, and half of the time by name too."""
    flip: float = 0.0


class Process:
    """One process: its code, what it returned or raised, and whether it was killed."""

    def __init__(self, world: World, name: str, code: Callable[[], Any], parent: Process | None) -> None:
        self.world, self.name, self.parent = world, name, parent
        self.result: Any = None
        self.error: Exception | None = None
        self.killed = False
        self.wakes = ALWAYS
        self._code = code
        self._greenlet = greenlet(self._run)

    def _run(self) -> None:
        try:
            self.result = self._code()
        except GreenletExit:
            self.killed = True
        except Exception as error:
            self.error = error

    @property
    def alive(self) -> bool:
        return not self._greenlet.dead

    def go_on(self) -> None:
        self.world.current = self
        self._greenlet.switch()

    def kill(self) -> None:
        """Kill it and its children: it never comes back from where it is."""
        for process in self.world.processes:
            if process.parent is self:
                process.kill()
        if self._greenlet:
            self.world.current = self
            self._greenlet.throw(GreenletExit)
        elif not self._greenlet.dead:  # never begun
            self._code = lambda: None
            self._greenlet.switch()
        self.killed = True


@dataclass
class World:
    """The disk, the clock and the processes."""

    seed: int
    faults: Faults = Faults()
    files: dict[str, bytes] = field(default_factory=dict)
    hidden: dict[str, tuple[float, bool, Process | None]] = field(default_factory=dict)
    """Until when a new file is hidden, whether by name too, and who made it: the only one who sees it."""
    clock: float = 0.0
    processes: list[Process] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    flips: list[str] = field(default_factory=list)
    locks: dict[str, Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.current: Process | None = None
        self._main = greenlet.getcurrent()

    # ------------------------------------------------------------- processes

    def start(self, name: str, code: Callable[[], Any], parent: Process | None = None) -> Process:
        process = Process(self, name, code, parent)
        self.processes.append(process)
        return process

    def run(self, wanted: Iterable[Process] = ()) -> None:
        """Let processes take turns until those that are wanted, else all, have ended."""
        wanted = list(wanted) or self.processes
        while any(process.alive for process in wanted):
            ready = [one for one in self.processes if one.alive and one.wakes <= self.clock]
            if not ready:
                self.clock = min(one.wakes for one in self.processes if one.alive)
                continue
            chosen = self.random.choice(ready)
            if self.random.random() < self.faults.crash:
                victim = chosen.parent if chosen.parent and self.random.random() < 0.3 else chosen
                self.note(f"{victim.name} is killed")
                victim.kill()
            else:
                chosen.go_on()
            self.current = None
        self.processes = [process for process in self.processes if process.alive]

    def step(self, what: str) -> None:
        """Give way to the others; called within a process, before and after it touches the disk."""
        if self.current is None:  # code outside of any process: nobody takes turns with it
            return
        me = self.current
        self.clock += 0.01
        self._main.switch()
        self.current = me
        self.note(f"{me.name}: {what}")

    def sleep(self, seconds: float) -> None:
        if self.current is None:
            self.clock += seconds
            return
        self.current.wakes = self.clock + seconds
        self.step(f"sleeps {seconds:g} s")

    def wait_for(self, process: Process) -> None:
        """Within a process: until another one has ended."""
        while process.alive:
            self.sleep(0.05)

    def note(self, what: str) -> None:
        self.trace.append(f"{self.clock:7.2f} {what}")

    @contextmanager
    def held(self, _files: Any, name: str, purpose: str) -> Iterator[None]:
        """In the bit of `corpusgen.io.lock.held`, whose own tests have real processes."""
        holder = self.locks.get(name)
        if holder and holder.alive and holder is not self.current:
            raise LockHeldError(f"{name} is held by {holder.name}")
        assert self.current
        self.locks[name] = self.current
        try:
            yield
        finally:
            self.locks.pop(name, None)

    # ------------------------------------------------------------------ disk

    def flip_a_bit(self, path: str) -> None:
        data = bytearray(self.files[path])
        bit = self.random.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        self.files[path] = bytes(data)
        self.flips.append(path)
        self.note(f"a bit flips in {path}")

    def perhaps_flip(self) -> None:
        if self.random.random() < self.faults.flip and self.files:
            parts = [path for path in sorted(self.files) if path.endswith(".parquet")]
            if len(parts) > 1 and self.random.random() < 0.3:
                self.misdirect(*self.random.sample(parts, 2))
            else:
                likely = parts if parts and self.random.random() < 0.7 else sorted(self.files)
                self.flip_a_bit(self.random.choice(likely))

    def misdirect(self, path: str, other: str) -> None:
        """Put the bytes of one file in the place of another's, as disks do now and then: sound, and not its own."""
        if self.files[path] != self.files[other]:
            self.files[path] = self.files[other]
            self.flips.append(path)
            self.note(f"the bytes of {other} end up in {path}")

    def perhaps_hide(self, path: str) -> None:
        if self.random.random() < self.faults.lag:
            self.hidden[path] = (self.clock + self.random.uniform(0.1, 30), self.random.random() < 0.5, self.current)

    def is_hidden(self, path: str, by_name: bool) -> bool:
        until, from_names, maker = self.hidden.get(path, (ALWAYS, False, None))
        return until > self.clock and (from_names or not by_name) and maker is not self.current


class SimulatedFiles:
    """The interface of a store's files on the disk of a world."""

    url = "/simulated"

    def __init__(self, world: World) -> None:
        self._world = world

    def _changed(self, what: str, path: str) -> None:
        """After a change: it may be hidden from others, a bit may flip, and whoever made it may never hear of it."""
        world = self._world
        world.perhaps_flip()
        world.step(f"{what} {path} is done")
        if world.current and world.random.random() < world.faults.lost_answer:
            world.note(f"{world.current.name}: the answer is lost")
            raise StoreUnavailableError(f"{path}: no answer")

    def read(self, path: str) -> bytes:
        self._world.step(f"read {path}")
        if path not in self._world.files or self._world.is_hidden(path, by_name=True):
            raise FileNotFoundError(path)
        return self._world.files[path]

    def read_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        return map(self.read, paths)

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        assert "/commits/" not in path, "a commit is created once and never changed"
        self._world.step(f"write {path}")
        self._world.files[path] = bytes(data)
        self._changed("write", path)

    def create(self, path: str, data: bytes) -> bool:
        world = self._world
        world.step(f"create {path}")
        if path in world.files:
            return False
        world.files[path] = data
        world.perhaps_hide(path)
        self._changed("create", path)
        # A client library that got no answer asks again by itself, and is told that the file is there.
        return not (world.current and world.random.random() < world.faults.lost_answer)

    def copy(self, source: str, target: str) -> None:
        self._world.files[target] = self.read(source)

    def exists(self, path: str) -> bool:
        self._world.step(f"exists {path}")
        return path in self._world.files and not self._world.is_hidden(path, by_name=True)

    def list(self, folder: str) -> Iterator[FileInfo]:
        self._world.step(f"list {folder}")
        for path in sorted(self._world.files):
            if path.rpartition("/")[0] == folder and not self._world.is_hidden(path, by_name=False):
                yield FileInfo(path, len(self._world.files[path]), 0.0)

    def folders(self, folder: str) -> Iterator[str]:
        return iter(())

    def list_unfinished(self, folder: str) -> Iterator[FileInfo]:
        return iter(())

    def delete(self, path: str) -> None:
        self._world.step(f"delete {path}")
        self._world.files.pop(path, None)
        self._world.hidden.pop(path, None)
        self._changed("delete", path)

    def open(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))
