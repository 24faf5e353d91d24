"""The workers of one stage on Ray, and the tasks that wait for them."""

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

# A worker is given its next task while it works on one, so that it never waits for the driver.
_TASKS_PER_WORKER = 2
# A stage that asks for less than a CPU does thousands of units with one worker: another must have so much to do.
_LEAST_SECONDS_OF_LIGHT_WORK = 5.0


@dataclass(eq=False)
class Job:
    """Units on their way through the stages: one, or a convoy of several where each takes next to no time."""

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
    """How often the unit's worker died, by stage."""
    setbacks: int = 0
    """How often it was held up by the store."""

    @property
    def name(self) -> str:
        """For messages."""
        return f"unit {self.units[0].id}"


@dataclass
class Task:
    """A call to a worker: a whole job at its stage, or some of its rows."""

    job: Job
    attempt: int
    process: bool = True
    commit: bool = False
    rows: tuple[int, int] | None = None
    deadly: str | None = None
    kills: int = 0
    queued_at: float = 0.0

    @property
    def alone(self) -> bool:
        """Whether its worker must have nothing else to do: if it dies, it must be certain of what."""
        return self.rows is not None or self.job.kills.get(self.job.stage, 0) > 0

    @property
    def start(self) -> int:
        """Where its rows begin."""
        return self.rows[0] if self.rows else 0


@dataclass(eq=False)
class Worker:
    """The driver's view of an actor."""

    handle: Any
    number: int
    node: str | None = None
    """Set once Ray has found it a place."""
    ready: bool = False
    """Set once its stage has loaded what it needs."""
    available: bool = True
    """Unset when it gets no more tasks: Ray cannot reach it, or its node is about to be taken away."""
    tasks: deque[Task] = field(default_factory=deque)
    """Sent and not answered, in the order in which it does them."""
    idle_since: float = field(default_factory=time.monotonic)


class Pool:
    """Grows when tasks wait, shrinks when workers do."""

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
        """The workers that can be counted on, now or once they have started."""
        return [worker for worker in self.workers if worker.available]

    @property
    def ready_workers(self) -> int:
        """How many workers can take tasks."""
        return sum(worker.ready for worker in self.usable)

    @property
    def placed_workers(self) -> int:
        """How many workers have a place in the cluster."""
        return sum(worker.node is not None for worker in self.usable)

    @property
    def running(self) -> int:
        """How many tasks are with workers."""
        return sum(len(worker.tasks) for worker in self.workers)

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs here."""
        return bool(self.queue) or any(worker.tasks for worker in self.workers)

    @property
    def seconds_per_unit(self) -> float | None:
        """How long a worker takes for a unit; None before any was done."""
        return self.seconds / self.units if self.units else None

    @property
    def queue_age(self) -> float:
        """How long the oldest task has waited."""
        return time.monotonic() - self.queue[0].queued_at if self.queue else 0.0

    def push(self, task: Task, front: bool = False) -> None:
        """Queue a task."""
        task.queued_at = time.monotonic()
        if front:
            self.queue.appendleft(task)
        else:
            self.queue.append(task)

    def next_call(self) -> tuple[Worker, Task] | None:
        """The next task and the worker with the least to do, if it can take it."""
        while self.queue and self.queue[0].attempt != self.queue[0].job.attempt:
            self.queue.popleft()  # its job was begun anew
        ready = [worker for worker in self.usable if worker.ready]
        worker = min(ready, key=lambda worker: len(worker.tasks), default=None)
        if not self.queue or worker is None:
            return None
        room = 1 if self.queue[0].alone or any(task.alone for task in worker.tasks) else _TASKS_PER_WORKER
        return (worker, self.queue.popleft()) if len(worker.tasks) < room else None

    # ---------------------------------------------------------------- scaling

    def missing_workers(self, scale_up_seconds: float) -> int:
        """How many more the tasks that wait call for: all at once, so that an autoscaler sees the whole demand."""
        have = len(self.usable)
        if not self.queue or (have and self.queue_age < scale_up_seconds):
            return 0
        waiting = len(self.queue) + self.running
        wanted = math.ceil(waiting / _TASKS_PER_WORKER)
        if self._is_light:
            tasks = itertools.chain(self.queue, *(worker.tasks for worker in self.workers))
            work = sum(len(task.job.units) for task in tasks) * (self.seconds_per_unit or 0.0)
            wanted = min(wanted, max(1, math.ceil(work / _LEAST_SECONDS_OF_LIGHT_WORK)))
        return max(0, min(wanted, self._most_workers()) - have)

    @property
    def _is_light(self) -> bool:
        return self.resources.cpus < 1 and not self.resources.gpus

    def _most_workers(self) -> int:
        """How many there may be: as set, else what there is room for at this moment, as nodes come and go."""
        most = self.resources.max_workers or room_for(self.resources.cpus, self.resources.gpus, self.placed_workers)
        return max(most, self.resources.min_workers)

    def start_worker(self) -> Worker:
        """Ask Ray for one more; it is ready when its `setup` has returned."""
        worker = Worker(self._actor.remote(self.stage, self._sink), next(self._numbers))
        self.workers.append(worker)
        return worker

    def idle_workers(self, seconds: float) -> list[Worker]:
        """Those that have had nothing to do for so long, and those that still wait for a place in vain."""
        if self.queue:
            return []
        now = time.monotonic()
        return [
            worker
            for worker in self.usable
            if not worker.tasks and (worker.ready or not worker.node) and now - worker.idle_since > seconds
        ]

    def remove(self, worker: Worker) -> None:
        """Give a worker back; no matter if it is dead."""
        self.workers.remove(worker)
        ray.kill(worker.handle)
