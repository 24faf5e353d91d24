"""The pool of workers of one stage on Ray, and the tasks that wait for them."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray

from corpusgen.config.run import Resources
from corpusgen.engine.cluster import room_for
from corpusgen.engine.passes import Sink
from corpusgen.engine.stage import Stage
from corpusgen.engine.worker import Report, StageWorker
from corpusgen.store import StageCount, Unit

# A worker gets its next task while it works on one, so that it never waits for the driver.
_TASKS_PER_WORKER = 2
# One worker of a stage that requests less than a CPU does thousands of units: another one needs this much work.
_LEAST_SECONDS_OF_LIGHT_WORK = 5.0


@dataclass(eq=False)
class Convoy:
    """The units that move through the stages together: one, or several if each takes very little time."""

    units: Sequence[Unit]
    attempt: int = 0
    stage: int = 0
    inputs: list[ray.ObjectRef] = field(default_factory=list)
    rows: int = 0
    nbytes: int = 0
    outstanding: int = 0
    outputs: list[tuple[int, ray.ObjectRef, Report]] = field(default_factory=list)
    counts: list[Sequence[StageCount]] = field(default_factory=list)
    kills: dict[int, int] = field(default_factory=dict)
    """How often a worker died with this convoy, by stage."""
    setbacks: int = 0
    """How often a failure of the store delayed the convoy."""

    @property
    def name(self) -> str:
        """Return a name for messages."""
        return f"unit {self.units[0].id}"


@dataclass
class Task:
    """A call to a worker: a whole convoy at its stage, or some of its rows."""

    convoy: Convoy
    attempt: int
    process: bool = True
    commit: bool = False
    rows: tuple[int, int] | None = None
    deadly: str | None = None
    kills: int = 0
    queued_at: float = 0.0

    @property
    def alone(self) -> bool:
        """Return whether its worker must have no other task, so that the cause of its death would be certain."""
        return self.rows is not None or self.convoy.kills.get(self.convoy.stage, 0) > 0

    @property
    def start(self) -> int:
        """Return the number of its first row."""
        return self.rows[0] if self.rows else 0


@dataclass(eq=False)
class Worker:
    """The driver's view of an actor."""

    handle: Any
    number: int
    node: str | None = None
    """Set once Ray has placed the worker on a node."""
    ready: bool = False
    """Set once its stage has loaded what it needs."""
    available: bool = True
    """False when it gets no more tasks: Ray cannot reach it, or its node is about to be removed."""
    tasks: deque[Task] = field(default_factory=deque)
    """Tasks sent and not answered, in the order in which the worker does them."""
    idle_since: float = field(default_factory=time.monotonic)


class Pool:
    """A pool that grows when tasks wait and shrinks when workers do."""

    def __init__(self, stage: Stage, resources: Resources, sink: Sink | None) -> None:
        self.stage = stage
        self.resources = resources
        self.queue: deque[Task] = deque()
        self.workers: list[Worker] = []
        self.failed_starts = 0
        self.units = 0
        self.seconds = 0.0
        self._sink = sink
        self._numbers = itertools.count()
        self._actor = ray.remote(StageWorker).options(
            num_cpus=resources.cpus,
            num_gpus=resources.gpus or None,
            memory=resources.memory or None,
            max_restarts=0,  # the driver replaces workers itself: it must know which task killed which
            name=None,
        )

    # ------------------------------------------------------------- scheduling

    @property
    def usable(self) -> list[Worker]:
        """Return the workers that can take tasks, now or once they have started."""
        return [worker for worker in self.workers if worker.available]

    @property
    def ready_workers(self) -> int:
        """Return how many workers can take tasks now."""
        return sum(worker.ready for worker in self.usable)

    @property
    def placed_workers(self) -> int:
        """Return how many workers Ray has placed on a node."""
        return sum(worker.node is not None for worker in self.usable)

    @property
    def running(self) -> int:
        """Return how many tasks workers have."""
        return sum(len(worker.tasks) for worker in self.workers)

    @property
    def busy(self) -> bool:
        """Return whether any task waits or runs here."""
        return bool(self.queue) or any(worker.tasks for worker in self.workers)

    @property
    def seconds_per_unit(self) -> float | None:
        """Return how long a worker takes for a unit; None before any is done."""
        return self.seconds / self.units if self.units else None

    @property
    def queue_age(self) -> float:
        """Return how long the oldest task has waited."""
        return time.monotonic() - self.queue[0].queued_at if self.queue else 0.0

    def push(self, task: Task, front: bool = False) -> None:
        """Add a task to the queue."""
        task.queued_at = time.monotonic()
        if front:
            self.queue.appendleft(task)
        else:
            self.queue.append(task)

    def next_call(self) -> tuple[Worker, Task] | None:
        """Return the next task and the least busy worker; None if there is no task or the worker cannot take it."""
        while self.queue and self.queue[0].attempt != self.queue[0].convoy.attempt:
            self.queue.popleft()  # its convoy has started again
        ready = [worker for worker in self.usable if worker.ready]
        worker = min(ready, key=lambda worker: len(worker.tasks), default=None)
        if not self.queue or worker is None:
            return None
        room = 1 if self.queue[0].alone or any(task.alone for task in worker.tasks) else _TASKS_PER_WORKER
        return (worker, self.queue.popleft()) if len(worker.tasks) < room else None

    # ---------------------------------------------------------------- scaling

    def missing_workers(self, scale_up_seconds: float) -> int:
        """Return how many more workers the waiting tasks need; all at once, so an autoscaler sees the whole demand."""
        have = len(self.usable)
        if not self.queue or (have and self.queue_age < scale_up_seconds):
            return 0
        waiting = len(self.queue) + self.running
        wanted = math.ceil(waiting / _TASKS_PER_WORKER)
        if self._is_light:
            tasks = itertools.chain(self.queue, *(worker.tasks for worker in self.workers))
            work = sum(len(task.convoy.units) for task in tasks) * (self.seconds_per_unit or 0.0)
            wanted = min(wanted, max(1, math.ceil(work / _LEAST_SECONDS_OF_LIGHT_WORK)))
        return max(0, min(wanted, self._most_workers()) - have)

    @property
    def _is_light(self) -> bool:
        return self.resources.cpus < 1 and not self.resources.gpus

    def _most_workers(self) -> int:
        """Return how many workers there may be: as set, else as many as the cluster has room for now."""
        most = self.resources.max_workers or room_for(self.resources.cpus, self.resources.gpus, self.placed_workers)
        return max(most, self.resources.min_workers)

    def start_worker(self) -> Worker:
        """Ask Ray for one more worker; it is ready when its `setup` has returned."""
        worker = Worker(self._actor.remote(self.stage, self._sink), next(self._numbers))
        self.workers.append(worker)
        return worker

    def idle_workers(self, seconds: float) -> list[Worker]:
        """Return the workers idle for `seconds` or waiting that long for a node; none while tasks are queued."""
        if self.queue:
            return []
        now = time.monotonic()
        return [
            worker
            for worker in self.usable
            if not worker.tasks and (worker.ready or not worker.node) and now - worker.idle_since > seconds
        ]

    def remove(self, worker: Worker) -> None:
        """Remove and kill a worker, dead or alive."""
        self.workers.remove(worker)
        ray.kill(worker.handle)
