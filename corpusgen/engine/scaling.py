"""Scaling of the workers of all stages of a run."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import ray

from corpusgen.config.run import RunSettings
from corpusgen.engine.cluster import draining_nodes
from corpusgen.engine.pool import Pool, Task, Worker

log = logging.getLogger(__name__)

_STARVED_SECONDS = 3.0
_STARVED_IDLE_SECONDS = 1.0
_WAITING_FOR_WORKERS_SECONDS = 30.0


class Crew:
    """The workers of all stages and their open calls; it starts workers where tasks wait and removes idle ones."""

    def __init__(self, pools: Sequence[Pool], settings: RunSettings) -> None:
        self.pools = pools
        self.calls: dict[ray.ObjectRef, tuple[Pool, Worker, Task | None, ray.ObjectRef | None]] = {}
        self._settings = settings
        self._warned: set[str] = set()
        self._made_room: dict[Pool, float] = {}
        """When workers were last removed to make room for a stage without any."""

    def start(self, pool: Pool) -> None:
        """Start one more worker for a stage."""
        worker = pool.start_worker()
        for call in (worker.handle.locate.remote(), worker.handle.setup.remote()):
            self.calls[call] = (pool, worker, None, None)

    def give_back(self, pool: Pool, worker: Worker) -> None:
        """Remove a worker that is dead or no longer needed; any answer it still gives is ignored."""
        self._drop_calls(worker)
        pool.remove(worker)

    def ask_after(self, pool: Pool, worker: Worker) -> None:
        """Stop sending tasks to a worker that Ray cannot reach, and wait until it answers or Ray knows it is dead.

        Until then it keeps its tasks. Only Ray can tell whether it died with its node or because of a task, and when a
        node disappears silently, that takes Ray some seconds.
        """
        self._drop_calls(worker)
        worker.available = False
        self.calls[worker.handle.locate.remote()] = (pool, worker, None, None)

    def leave_draining_nodes(self) -> None:
        """Stop sending tasks to workers whose node will be removed soon; they finish what they have."""
        leaving = draining_nodes()
        for pool in self.pools:
            for worker in [worker for worker in pool.workers if worker.node in leaving]:
                worker.available = False
                if not worker.tasks:
                    self.give_back(pool, worker)

    def scale(self, units_wait: bool) -> None:
        """Start workers where tasks wait, and remove workers that are idle."""
        for index, pool in enumerate(self.pools):
            for _ in range(pool.missing_workers(self._settings.scale_up_seconds)):
                self.start(pool)
            work_to_come = units_wait or any(earlier.busy for earlier in self.pools[: index + 1])
            floor = pool.resources.min_workers if work_to_come else 0
            for worker in pool.idle_workers(self._settings.idle_seconds)[: max(0, len(pool.usable) - floor)]:
                self.give_back(pool, worker)
        for pool in self.starved():
            self._make_room_for(pool)
            self._warn_starved(pool)

    def starved(self) -> list[Pool]:
        """Return the stages whose tasks have waited for a while, with no worker placed on a node."""
        return [pool for pool in self.pools if pool.queue_age > _STARVED_SECONDS and not pool.placed_workers]

    def _make_room_for(self, starved: Pool) -> None:
        """Remove idle workers of other stages that may hold the resources a stage without any worker waits for.

        Only as many go as hold what it requests, the longest idle first, and then Ray has some time to start it: each
        worker that goes must be started again when its own stage has work.
        """
        now = time.monotonic()
        if now < self._made_room.get(starved, 0.0) + _STARVED_SECONDS:
            return
        cpus, gpus = starved.resources.cpus, starved.resources.gpus
        idle = [(pool, worker) for pool in self.pools for worker in pool.idle_workers(_STARVED_IDLE_SECONDS)]
        for pool, worker in sorted(idle, key=lambda one: one[1].idle_since):
            if not worker.node:  # it would take the freed place
                self.give_back(pool, worker)
            elif (cpus > 0 and pool.resources.cpus) or (gpus > 0 and pool.resources.gpus):
                self.give_back(pool, worker)
                self._made_room[starved] = now
                cpus -= pool.resources.cpus
                gpus -= pool.resources.gpus

    def _drop_calls(self, worker: Worker) -> None:
        for ref in [ref for ref, call in self.calls.items() if call[1] is worker]:
            del self.calls[ref]

    def _warn_starved(self, pool: Pool) -> None:
        if pool.queue_age < _WAITING_FOR_WORKERS_SECONDS or pool.stage.name in self._warned:
            return
        self._warned.add(pool.stage.name)
        log.warning(
            "stage %r has waited %.0f s for a worker with %s; free in the cluster: %s",
            pool.stage.name,
            pool.queue_age,
            {"CPU": pool.resources.cpus, "GPU": pool.resources.gpus, "memory": pool.resources.memory},
            {name: amount for name, amount in ray.available_resources().items() if name in ("CPU", "GPU", "memory")},
        )
