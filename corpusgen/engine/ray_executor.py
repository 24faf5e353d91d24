"""The executor for real work: a pool of Ray actors per stage, units moving between them as object references.

The driver holds references and counters, never rows. Results do not depend on the order in which units are done,
on the number of workers, or on what died on the way.
"""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

import ray
from ray.exceptions import (
    ActorUnschedulableError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)

from corpusgen.engine.cluster import ray_cluster, room_for
from corpusgen.engine.events import EventLog
from corpusgen.engine.metrics import Metrics
from corpusgen.engine.passes import Pass, Sink
from corpusgen.engine.pool import Job, Pool, Task, Worker
from corpusgen.engine.progress import Progress, Silent
from corpusgen.engine.settings import RunSettings
from corpusgen.engine.stage import Resources, Stage
from corpusgen.engine.stopping import StopRequest
from corpusgen.engine.tally import Tally
from corpusgen.engine.worker import Order, Report
from corpusgen.errors import CorpusgenError, StageError, StoreUnavailableError
from corpusgen.store import PassStore, Unit

log = logging.getLogger(__name__)

_KILLS_BEFORE_SPLIT = 3
_KILLS_OF_ONE_ROW = 2  # a row is given up only after it killed a worker on its own, twice
_FAILED_STARTS = 3
_SETBACKS = 5
_UNITS_PER_WORKER = 4
_CONVOY_SECONDS = 0.1
_CONVOY_UNITS = 32
_HOUSEKEEPING_SECONDS = 0.25
_OTHER_DRIVERS_SECONDS = 10.0
_STARVED_SECONDS = 5.0
_STARVED_IDLE_SECONDS = 1.0
_WAITING_FOR_WORKERS_SECONDS = 30.0
_DEADLY = "the worker died while it processed this record (killed, crashed or out of memory)"


class RayExecutor:
    """Runs passes on Ray. `address` as for `ray.init`; without one, Ray is started on this machine.

    As a context it keeps its Ray from the first pass that needs one to the end; else each pass has its own.
    """

    def __init__(
        self,
        settings: RunSettings | None = None,
        progress: Progress | None = None,
        address: str | None = None,
    ) -> None:
        self._settings = settings or RunSettings()
        self._progress = progress or Silent()
        self._address = address
        self._kept: ExitStack | None = None

    def __enter__(self) -> Self:
        self._kept = ExitStack()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._kept is not None
        self._kept.close()
        self._kept = None

    def run(self, pass_: Pass, store: PassStore, units: Sequence[Unit], tally: Tally) -> None:
        """Do and commit the units."""
        with ExitStack() as own, StopRequest() as stop:
            (self._kept or own).enter_context(ray_cluster(self._address))
            PassRun(pass_, units, store, self._settings, tally, self._progress, stop).run()


class PassRun:
    """One run of one pass: the state of the driver and its loop."""

    def __init__(
        self,
        pass_: Pass,
        units: Sequence[Unit],
        store: PassStore,
        settings: RunSettings,
        tally: Tally,
        progress: Progress,
        stop: StopRequest,
    ) -> None:
        self.store = store
        self.settings = settings
        self.tally = tally
        self.progress = progress
        self.stop = stop
        self.waiting = deque(units)
        self.jobs: set[Job] = set()
        self.calls: dict[ray.ObjectRef, tuple[Pool, Worker, Task | None, ray.ObjectRef | None]] = {}
        self.run_id = secrets.token_hex(4)
        self.events = EventLog(store, self.run_id)
        self.metrics = Metrics(pass_.name)
        sink = Sink(store, pass_.tables, pass_.derived)
        last = pass_.stages[-1]
        self.pools = [self._pool(stage, sink if stage is last else None) for stage in pass_.stages]
        self._commits_read = time.monotonic()
        self._warned: set[str] = set()

    def _pool(self, stage: Stage, sink: Sink | None) -> Pool:
        resources: Resources = stage.resources
        if override := self.settings.workers.get(stage.name):
            resources = override.applied_to(resources)
        stage = replace(stage, resources=resources)
        return Pool(stage, resources, resources.max_workers or room_for(resources.cpus, resources.gpus), sink)

    # ------------------------------------------------------------------- loop

    def run(self) -> None:
        """Until all units are done, the failure limit is passed or somebody asks to stop."""
        try:
            for pool in self.pools:
                for _ in range(pool.resources.min_workers):
                    self._start_worker(pool)
            housekeeping_due = 0.0
            while self.waiting or self.jobs:
                if self.stop.signal and (self.stop.abandon or not self.jobs):
                    break
                self._dispatch()
                self._collect()
                if time.monotonic() >= housekeeping_due:
                    self._housekeeping()
                    housekeeping_due = time.monotonic() + _HOUSEKEEPING_SECONDS
            if self.stop.signal and (self.waiting or self.jobs):
                raise self.stop.error()
        finally:
            self._observe()
            self.metrics.publish(self.tally)
            self.progress.update(self.tally, final=True)
            self.events.flush(force=True)
            for pool in self.pools:
                for worker in list(pool.workers):
                    pool.remove(worker)

    def _dispatch(self) -> None:
        """Give tasks to workers, the last stage first, and begin units while there is room.

        A stage pauses while too many bytes wait between stages, unless nothing behind it could free any.
        """
        crowded = self.tally.bytes_in_flight >= self.settings.max_bytes_in_flight
        work_behind = False
        for pool in reversed(self.pools):
            if not (crowded and work_behind):
                while call := pool.next_call():
                    self._send(pool, *call)
            work_behind = work_behind or pool.busy
        size = self._convoy_size()
        ready = sum(pool.ready_workers for pool in self.pools)
        room = self.settings.max_units_in_flight or max(_UNITS_PER_WORKER * ready, len(self.pools)) * size
        while self.waiting and self.tally.units_in_flight < room and not self.stop.signal:
            if crowded and work_behind:
                break
            self._begin(Job([self.waiting.popleft() for _ in range(min(size, len(self.waiting)))]))

    def _convoy_size(self) -> int:
        """How many units travel together: more than one if they are so quick that the driver would be the limit."""
        slowest = max(pool.seconds_per_unit or _CONVOY_SECONDS for pool in self.pools)
        workers = sum(pool.ready_workers for pool in self.pools)
        fair_share = len(self.waiting) // (2 * workers) if workers else 1
        return max(1, min(int(_CONVOY_SECONDS / slowest), fair_share, _CONVOY_UNITS))

    def _begin(self, job: Job) -> None:
        """Start a job, or start it again: answers to an earlier attempt no longer count."""
        if job not in self.jobs:
            self.jobs.add(job)
            self.tally.units_in_flight += len(job.units)
        job.stage, job.inputs, job.outputs, job.counts = 0, [], [], []
        job.rows = sum(len(unit.records) for unit in job.units)
        job.attempt += 1
        self._hold(job, 0)
        self._enqueue_stage(job)

    def _end(self, job: Job) -> None:
        self.jobs.discard(job)
        self.tally.units_in_flight -= len(job.units)
        self._hold(job, 0)
        job.attempt += 1

    def _enqueue_stage(self, job: Job) -> None:
        job.outstanding = 1
        self.pools[job.stage].push(Task(job, job.attempt, commit=self._is_last(job)))

    def _is_last(self, job: Job) -> bool:
        return job.stage == len(self.pools) - 1

    def _hold(self, job: Job, nbytes: int) -> None:
        """Account for the rows that wait in the object store for this job."""
        self.tally.bytes_in_flight += nbytes - job.nbytes
        job.nbytes = nbytes

    def _send(self, pool: Pool, worker: Worker, task: Task) -> None:
        job = task.job
        order = Order(
            units=[unit.id for unit in job.units],
            attempt=f"{self.run_id}-{job.attempt}",
            records=None if job.inputs else [unit.records for unit in job.units],
            rows=task.rows,
            process=task.process,
            deadly=task.deadly,
            commit=task.commit,
        )
        batch, report = worker.handle.run.remote(order, *job.inputs)
        worker.tasks.append(task)
        self.calls[report] = (pool, worker, task, batch)

    def _collect(self) -> None:
        """Wait a moment for answers and deal with all that have come, good news first."""
        if not self.calls:
            time.sleep(_HOUSEKEEPING_SECONDS)
            return
        calls = list(self.calls)
        ready, _ = ray.wait(calls, num_returns=len(calls), timeout=0)
        if not ready:
            ready, _ = ray.wait(calls, num_returns=1, timeout=_HOUSEKEEPING_SECONDS)
        failed: list[tuple[ray.ObjectRef, Exception]] = []
        for ref in ready:
            try:
                answer = ray.get(ref)
            except RayError as error:
                failed.append((ref, error))
            else:
                self._on_answer(ref, answer)
        for ref, failure in failed:
            if ref in self.calls:  # else it went with its worker
                self._on_failure(ref, failure)

    # ---------------------------------------------------------------- answers

    def _on_answer(self, ref: ray.ObjectRef, answer: Report | str | None) -> None:
        pool, worker, task, batch = self.calls.pop(ref)
        worker.idle_since = time.monotonic()
        if isinstance(answer, str):
            worker.node = answer
            return
        pool.failed_starts = 0
        if task is None:
            worker.ready = True
            return
        assert isinstance(answer, Report)
        worker.tasks.remove(task)
        if task.attempt != task.job.attempt:
            return  # the job was begun anew meanwhile
        self._on_task_done(task, answer, batch)

    def _on_task_done(self, task: Task, report: Report, batches: ray.ObjectRef | None) -> None:
        job = task.job
        pool = self.pools[job.stage]
        pool.units += len(job.units)
        pool.seconds += report.seconds
        if report.counts:
            job.counts.append(report.counts)
            self.tally.add(job.stage, report.counts)
            self.tally.check_failures(self.settings.failure_limit)
        if task.commit:
            self._finish(job, report.won)
            return
        job.outputs.append((task.start, batches, report))
        job.outstanding -= 1
        if job.outstanding:
            return
        job.outputs.sort(key=lambda output: output[0])
        job.inputs = [ref for _, ref, _ in job.outputs]
        job.rows = sum(report.rows for _, _, report in job.outputs)
        self._hold(job, sum(report.nbytes for _, _, report in job.outputs))
        job.outputs = []
        if self._is_last(job):  # it was taken apart: its pieces are committed together
            job.outstanding = 1
            pool.push(Task(job, job.attempt, process=False, commit=True))
        else:
            job.stage += 1
            self._enqueue_stage(job)

    def _finish(self, job: Job, won: Sequence[bool]) -> None:
        self.tally.units_done += len(job.units)
        for index, unit in enumerate(job.units):
            self.events.unit_done(unit.id, job.attempt, won[index], [counts[index] for counts in job.counts])
        self._end(job)
        if not all(won):
            # Another driver works on this store. In another order the two meet less often.
            if not self.tally.lost_races:
                random.Random(self.run_id).shuffle(self.waiting)
            self.tally.lost_races += len(won) - sum(won)

    # --------------------------------------------------------------- failures

    def _on_failure(self, ref: ray.ObjectRef, error: Exception) -> None:
        pool, worker, task, _ = self.calls[ref]
        cause = error.cause if isinstance(error, RayTaskError) else error
        if isinstance(cause, ActorUnschedulableError):
            raise StageError(f"stage {pool.stage.name!r} can never be scheduled: {cause}") from error
        if isinstance(cause, RayActorError | WorkerCrashedError | OutOfMemoryError):
            self._on_death(pool, worker, cause)
            return
        if task is None:
            self._forget(pool, worker)
            self._on_failed_start(pool, cause)
            return
        del self.calls[ref]
        worker.tasks.remove(task)
        if task.attempt != task.job.attempt:
            return
        if isinstance(cause, ObjectLostError | StoreUnavailableError | ConnectionError | TimeoutError):
            self._on_setback(task, cause)
        elif isinstance(cause, MemoryError):  # as good as dead: perhaps half of the rows fit
            self._on_kill(pool, task, certain=True)
        elif isinstance(cause, CorpusgenError):
            raise cause
        else:
            raise StageError(f"stage {pool.stage.name!r} failed on {task.job.name}: {error}") from error

    def _on_failed_start(self, pool: Pool, cause: Exception) -> None:
        pool.failed_starts += 1
        if isinstance(cause, CorpusgenError):
            raise cause
        if pool.failed_starts >= _FAILED_STARTS:
            raise StageError(
                f"the workers of stage {pool.stage.name!r} die while they start "
                f"(out of memory? a crash in a library?): {cause}"
            )

    def _on_death(self, pool: Pool, worker: Worker, cause: Exception) -> None:
        """An actor is gone, and with it all its tasks. The first of them was running."""
        self._forget(pool, worker)
        if not worker.ready:
            self._on_failed_start(pool, cause)
            return
        tasks = [task for task in worker.tasks if task.attempt == task.job.attempt]
        node_died = worker.node not in {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        for task in reversed(tasks):
            self.tally.stages[task.job.stage].retries += 1
            if node_died:
                pool.push(task, front=True)
            else:
                self._on_kill(pool, task, certain=len(worker.tasks) == 1)
        log.info("a worker of stage %r died: %s", pool.stage.name, str(cause).splitlines()[0])

    def _on_kill(self, pool: Pool, task: Task, certain: bool) -> None:
        """A worker died with this task: perhaps by chance, perhaps of one of its rows.

        With several tasks it is not certain which one was running, as the answer to one that was done may be lost.
        They are all suspects then, and a suspect runs alone.
        """
        job = task.job
        if task.commit:
            self._settle(job)
        if job not in self.jobs or self._dissolve(job):
            return
        task.kills += certain
        job.kills[job.stage] = job.kills.get(job.stage, 0) + 1
        start, stop = task.rows or (0, job.rows)
        one_row = stop - start == 1
        if job.kills[job.stage] < _KILLS_BEFORE_SPLIT or (one_row and task.kills < _KILLS_OF_ONE_ROW):
            pool.push(task, front=True)
            return
        if not task.process or pool.stage.whole:
            raise StageError(f"{job.name} kills the workers of stage {pool.stage.name!r}; give it more memory")
        self.events.add("split", unit=job.units[0].id, stage=pool.stage.name, rows=[start, stop])
        if one_row:
            log.warning("%s: row %d kills stage %r; quarantined", job.name, start, pool.stage.name)
            pool.push(Task(job, job.attempt, rows=(start, stop), deadly=_DEADLY), front=True)
            return
        middle = (start + stop) // 2
        for rows in ((middle, stop), (start, middle)):
            pool.push(Task(job, job.attempt, rows=rows), front=True)
        job.outstanding += 1

    def _settle(self, job: Job) -> None:
        """The worker that was to commit this job is gone: perhaps it had committed some units already."""
        left = [unit for unit in job.units if not self.store.is_committed(unit.id)]
        if len(left) < len(job.units):
            self.tally.units_done += len(job.units) - len(left)
            self._end(job)
            for unit in left:
                self._begin(Job([unit]))

    def _dissolve(self, job: Job) -> bool:
        """Let the units of a convoy go on one by one, suspects all of them."""
        if len(job.units) == 1:
            return False
        self._end(job)
        for unit in job.units:
            self._begin(Job([unit], kills={job.stage: 1}))
        return True

    def _on_setback(self, task: Task, cause: Exception) -> None:
        """The store was away, or rows were lost with a node: begin the unit again, a few times."""
        job = task.job
        if self._dissolve(job):
            return
        job.setbacks += 1
        self.tally.stages[job.stage].retries += 1
        if job.setbacks > _SETBACKS:
            if isinstance(cause, CorpusgenError):
                raise cause
            raise StageError(f"{job.name} failed {job.setbacks} times: {cause}") from cause
        log.warning("%s runs again: %s", job.name, str(cause).splitlines()[0])
        self._begin(job)

    # ----------------------------------------------------------- housekeeping

    def _housekeeping(self) -> None:
        self._scale()
        self._observe()
        self.metrics.publish(self.tally)
        self.progress.update(self.tally)
        self.events.flush()
        if time.monotonic() - self._commits_read > _OTHER_DRIVERS_SECONDS and self.tally.lost_races:
            self._skip_committed()

    def _skip_committed(self) -> None:
        """Leave out what another driver has committed meanwhile."""
        self._commits_read = time.monotonic()
        done = self.store.committed()
        left = deque(unit for unit in self.waiting if unit.id not in done)
        self.tally.already_done += len(self.waiting) - len(left)
        self.waiting = left

    def _start_worker(self, pool: Pool) -> None:
        worker = pool.start_worker()
        for call in (worker.handle.locate.remote(), worker.handle.setup.remote()):
            self.calls[call] = (pool, worker, None, None)

    def _scale(self) -> None:
        """More workers where tasks wait, fewer where workers do."""
        starved = [pool for pool in self.pools if pool.queue_age > _STARVED_SECONDS and not pool.placed_workers]
        for pool in starved:
            self._warn_starved(pool)
        for index, pool in enumerate(self.pools):
            for _ in range(pool.wanted_workers(self.settings.scale_up_seconds) - len(pool.workers)):
                self._start_worker(pool)
            # A stage without any worker may wait for the very resources that idle workers of another one hold.
            patience = _STARVED_IDLE_SECONDS if starved else self.settings.idle_seconds
            work_to_come = self.waiting or any(earlier.busy for earlier in self.pools[: index + 1])
            floor = pool.resources.min_workers if work_to_come and not starved else 0
            for worker in pool.idle_workers(patience)[: max(0, len(pool.workers) - floor)]:
                self._forget(pool, worker)

    def _forget(self, pool: Pool, worker: Worker) -> None:
        """Give a worker back, or bury a dead one."""
        for ref in [ref for ref, call in self.calls.items() if call[1] is worker]:
            del self.calls[ref]
        pool.remove(worker)

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

    def _observe(self) -> None:
        for pool, stage in zip(self.pools, self.tally.stages, strict=True):
            stage.workers = pool.ready_workers
            stage.queued = len(pool.queue)
            stage.queue_age = pool.queue_age
