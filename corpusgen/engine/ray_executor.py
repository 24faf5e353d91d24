"""The executor for production: a pool of Ray actors per stage, with units moving between them as object references.

The driver holds references and counters, never rows. Results do not depend on the order in which units finish, on the
number of workers, or on which of them died.
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
    ActorUnavailableError,
    ActorUnschedulableError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)

from corpusgen.config.run import RunSettings
from corpusgen.engine.cluster import died_with_its_node, lacking, may_grow, nodes, ray_cluster
from corpusgen.engine.counters import Tally
from corpusgen.engine.events import EventLog
from corpusgen.engine.metrics import Metrics
from corpusgen.engine.passes import Pass, Sink
from corpusgen.engine.pool import Convoy, Pool, Task, Worker
from corpusgen.engine.progress import Progress, Silent
from corpusgen.engine.scaling import Crew
from corpusgen.engine.signals import StopRequest
from corpusgen.engine.stage import Stage
from corpusgen.engine.worker import Order, Report
from corpusgen.errors import CorpusgenError, StageError, StoreUnavailableError
from corpusgen.store import PassStore, Unit

log = logging.getLogger(__name__)

_KILLS_BEFORE_SPLIT = 3
_KILLS_OF_ONE_ROW = 2  # a row is given up only after it has killed a worker on its own twice
_FAILED_STARTS = 3
_SETBACKS = 5
_UNITS_PER_WORKER = 4
_UNITS_PER_TURN = 64
_CONVOY_SECONDS = 0.1
_CONVOY_UNITS = 32
_HOUSEKEEPING_SECONDS = 0.25
_OTHER_DRIVERS_SECONDS = 10.0
_DEADLY = "the worker died while it processed this record (killed, crashed or out of memory)"


class RayExecutor:
    """An executor on Ray. `address` is as for `ray.init`; without one, Ray is started on this machine.

    As a context it keeps its Ray from the first pass that needs it to the end; otherwise each pass has its own. `later`
    are stages of later passes: if no node has room for one, and none can be added, a warning says so at the start.
    """

    def __init__(
        self,
        settings: RunSettings | None = None,
        progress: Progress | None = None,
        address: str | None = None,
        later: Sequence[Stage] = (),
    ) -> None:
        self._settings = settings or RunSettings()
        self._progress = progress or Silent()
        self._address = address
        self._later = later
        self._kept: ExitStack | None = None

    def __enter__(self) -> Self:
        self._kept = ExitStack()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._kept is not None
        self._kept.close()
        self._kept = None

    def run(self, pass_: Pass, store: PassStore, units: Sequence[Unit], tally: Tally) -> None:
        """Process and commit the units."""
        with ExitStack() as own, StopRequest() as stop:
            (self._kept or own).enter_context(ray_cluster(self._address))
            self._look_ahead()
            PassRun(pass_, units, store, self._settings, tally, self._progress, stop).run()

    def _look_ahead(self) -> None:
        later, self._later = self._later, ()
        for stage in later if not may_grow() else ():
            if asked := lacking(self._settings.resources_of(stage), nodes()):
                log.warning(
                    "no node has %s for a worker of stage %r; change run.workers.%s, or add such a node",
                    *(asked, stage.name, stage.name),
                )


class PassRun:
    """The state and the loop of the driver in one run of one pass."""

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
        self.convoys: set[Convoy] = set()
        self.run_id = secrets.token_hex(4)
        self.events = EventLog(store, self.run_id)
        self.metrics = Metrics(store.files.url, pass_.name)
        sink = Sink(store, pass_.tables, pass_.derived)
        last = pass_.stages[-1]
        self.pools = [self._pool(stage, sink if stage is last else None) for stage in pass_.stages]
        self.crew = Crew(self.pools, settings)
        self.calls = self.crew.calls
        self._commits_read = time.monotonic()

    def _pool(self, stage: Stage, sink: Sink | None) -> Pool:
        resources = self.settings.resources_of(stage)
        stage = replace(stage, resources=resources)
        return Pool(stage, resources, sink)

    # ------------------------------------------------------------------- loop

    def run(self) -> None:
        """Run until all units are done, the failure limit is exceeded or a signal asks to stop."""
        try:
            for pool in self.pools:
                for _ in range(pool.resources.min_workers):
                    self.crew.start(pool)
            housekeeping_due = 0.0
            while self.waiting or self.convoys:
                if self.stop.signal and (self.stop.abandon or not self.convoys):
                    break
                self._dispatch()
                self._collect()
                if time.monotonic() >= housekeeping_due:
                    self._housekeeping()
                    housekeeping_due = time.monotonic() + _HOUSEKEEPING_SECONDS
        finally:
            self._observe()
            self.progress.update(self.tally, final=True)
            self.events.flush(force=True)
            for pool in self.pools:
                for worker in list(pool.workers):
                    pool.remove(worker)
            self._observe()
            self.metrics.publish(self.tally)  # now without workers, as the driver may go on with another pass

    def _dispatch(self) -> None:
        """Give tasks to workers, the last stage first, and start units while there is room.

        A stage pauses while too many bytes wait between stages, unless no later stage could free any.
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
        # If stages take turns on too few CPUs, each turn costs the start of a worker, so give it more units.
        per_worker = _UNITS_PER_TURN if self.crew.starved() else _UNITS_PER_WORKER
        room = self.settings.max_units_in_flight or max(per_worker * ready, len(self.pools)) * size
        while self.waiting and self.tally.units_in_flight < room and not self.stop.signal:
            if crowded and work_behind:
                break
            self._begin(Convoy([self.waiting.popleft() for _ in range(min(size, len(self.waiting)))]))

    def _convoy_size(self) -> int:
        """Return how many units travel together: several if they are so quick that the driver would be the limit."""
        slowest = max(pool.seconds_per_unit or _CONVOY_SECONDS for pool in self.pools)
        workers = sum(pool.ready_workers for pool in self.pools)
        fair_share = len(self.waiting) // (2 * workers) if workers else 1
        return max(1, min(int(_CONVOY_SECONDS / slowest), fair_share, _CONVOY_UNITS))

    def _begin(self, convoy: Convoy) -> None:
        """Start a convoy, or restart it: answers to an earlier attempt no longer count."""
        if convoy not in self.convoys:
            self.convoys.add(convoy)
            self.tally.units_in_flight += len(convoy.units)
        convoy.stage, convoy.inputs, convoy.outputs, convoy.counts = 0, [], [], []
        convoy.rows = sum(len(unit.records) for unit in convoy.units)
        convoy.attempt += 1
        self._hold(convoy, 0)
        self._enqueue_stage(convoy)

    def _end(self, convoy: Convoy) -> None:
        self.convoys.discard(convoy)
        self.tally.units_in_flight -= len(convoy.units)
        self._hold(convoy, 0)
        convoy.attempt += 1

    def _enqueue_stage(self, convoy: Convoy) -> None:
        convoy.outstanding = 1
        self.pools[convoy.stage].push(Task(convoy, convoy.attempt, commit=self._is_last(convoy)))

    def _is_last(self, convoy: Convoy) -> bool:
        return convoy.stage == len(self.pools) - 1

    def _hold(self, convoy: Convoy, nbytes: int) -> None:
        """Account for the rows that wait in the object store for this convoy."""
        self.tally.bytes_in_flight += nbytes - convoy.nbytes
        convoy.nbytes = nbytes

    def _send(self, pool: Pool, worker: Worker, task: Task) -> None:
        convoy = task.convoy
        order = Order(
            units=[unit.id for unit in convoy.units],
            attempt=f"{self.run_id}-{convoy.attempt}",
            records=None if convoy.inputs else [unit.records for unit in convoy.units],
            rows=task.rows,
            process=task.process,
            deadly=task.deadly,
            commit=task.commit,
        )
        batch, report = worker.handle.run.remote(order, *convoy.inputs)
        worker.tasks.append(task)
        self.calls[report] = (pool, worker, task, batch)

    def _collect(self) -> None:
        """Wait briefly for answers and handle all that have arrived, successes first."""
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
            if ref in self.calls:  # else it was dropped with its worker
                self._on_failure(ref, failure)

    # ---------------------------------------------------------------- answers

    def _on_answer(self, ref: ray.ObjectRef, answer: Report | str | None) -> None:
        pool, worker, task, batch = self.calls.pop(ref)
        worker.idle_since = time.monotonic()
        if isinstance(answer, str):
            worker.node = answer
            if not worker.available:  # reachable again, but the fate of its calls is unknown
                self._take_over(pool, worker, blame=False)
            return
        pool.failed_starts = 0
        if task is None:
            worker.ready = True
            return
        assert isinstance(answer, Report)
        worker.tasks.remove(task)
        if task.attempt != task.convoy.attempt:
            return  # the convoy has started again since
        self._on_task_done(task, answer, batch)

    def _on_task_done(self, task: Task, report: Report, batches: ray.ObjectRef | None) -> None:
        convoy = task.convoy
        pool, stage = self.pools[convoy.stage], self.tally.stages[convoy.stage]
        pool.units += len(convoy.units)
        pool.seconds += report.seconds
        if report.counts:
            convoy.counts.append(report.counts)
            self.tally.add(convoy.stage, report.counts)
            self.tally.check_failures(self.settings.failure_limit)
        if task.commit:
            stage.units += len(convoy.units)
            self._finish(convoy, report.won)
            return
        convoy.outputs.append((task.start, batches, report))
        convoy.outstanding -= 1
        if convoy.outstanding:
            return
        convoy.outputs.sort(key=lambda output: output[0])
        convoy.inputs = [ref for _, ref, _ in convoy.outputs]
        convoy.rows = sum(report.rows for _, _, report in convoy.outputs)
        self._hold(convoy, sum(report.nbytes for _, _, report in convoy.outputs))
        convoy.outputs = []
        if self._is_last(convoy):  # it was split: its pieces are committed together
            convoy.outstanding = 1
            pool.push(Task(convoy, convoy.attempt, process=False, commit=True))
        else:
            stage.units += len(convoy.units)
            stage.nbytes += convoy.nbytes
            convoy.stage += 1
            self._enqueue_stage(convoy)

    def _finish(self, convoy: Convoy, won: Sequence[bool]) -> None:
        self.tally.units_done += len(convoy.units)
        for index, unit in enumerate(convoy.units):
            self.events.unit_done(unit.id, convoy.attempt, won[index], [counts[index] for counts in convoy.counts])
        self._end(convoy)
        if not all(won):
            # Another driver works on this store. In a different order, the two collide less often.
            if not self.tally.lost_races:
                random.Random(self.run_id).shuffle(self.waiting)
            self.tally.lost_races += len(won) - sum(won)

    # --------------------------------------------------------------- failures

    def _on_failure(self, ref: ray.ObjectRef, error: Exception) -> None:
        pool, worker, task, _ = self.calls[ref]
        cause = error.cause if isinstance(error, RayTaskError) else error
        if isinstance(cause, ActorUnschedulableError):
            raise StageError(f"stage {pool.stage.name!r} can never be scheduled: {cause}") from error
        if isinstance(cause, ActorUnavailableError):
            self.crew.ask_after(pool, worker)
            return
        if isinstance(cause, RayActorError | WorkerCrashedError | OutOfMemoryError):
            self._on_death(pool, worker, cause)
            return
        if task is None:
            self.crew.give_back(pool, worker)
            self._on_failed_start(pool, cause)
            return
        del self.calls[ref]
        worker.tasks.remove(task)
        if task.attempt != task.convoy.attempt:
            return
        if isinstance(cause, ObjectLostError | StoreUnavailableError | ConnectionError | TimeoutError):
            self._on_setback(task, cause)
        elif isinstance(cause, MemoryError):  # as bad as a death: perhaps half of the rows fit
            self._on_kill(pool, task, certain=True)
        elif isinstance(cause, CorpusgenError):
            raise cause
        else:
            raise StageError(f"stage {pool.stage.name!r} failed on {task.convoy.name}: {error}") from error

    def _on_failed_start(self, pool: Pool, cause: Exception) -> None:
        pool.failed_starts += 1
        if isinstance(cause, CorpusgenError):
            raise cause
        if pool.failed_starts >= _FAILED_STARTS:
            raise StageError(
                f"the workers of stage {pool.stage.name!r} die during startup "
                f"(out of memory? a crash in a library?): {cause}"
            )

    def _on_death(self, pool: Pool, worker: Worker, cause: Exception) -> None:
        """Handle the death of an actor with all its tasks, of which the first was running."""
        log.info("a worker of stage %r died: %s", pool.stage.name, str(cause).splitlines()[0])
        self.tally.stages[self.pools.index(pool)].deaths += 1
        with_its_node = died_with_its_node(cause, worker.node)
        self._take_over(pool, worker, blame=not with_its_node)
        if not worker.ready and not with_its_node:
            self._on_failed_start(pool, cause)

    def _take_over(self, pool: Pool, worker: Worker, blame: bool) -> None:
        """Give the tasks of a lost worker to others; with `blame`, one of the tasks may have killed it."""
        self.crew.give_back(pool, worker)
        for task in reversed([task for task in worker.tasks if task.attempt == task.convoy.attempt]):
            self.tally.stages[task.convoy.stage].retries += 1
            if blame:
                self._on_kill(pool, task, certain=len(worker.tasks) == 1)
            elif not (task.commit and self._settled(task.convoy)):
                self._retry(pool, task)

    def _on_kill(self, pool: Pool, task: Task, certain: bool) -> None:
        """Handle a task whose worker died, perhaps by chance, perhaps because of one of its rows.

        If the worker had several tasks, it is not certain which one was running, as the answer to a finished one may be
        lost. Then they are all suspects, and a suspect runs alone.
        """
        convoy = task.convoy
        if (task.commit and self._settled(convoy)) or self._dissolve(convoy):
            return
        task.kills += certain
        convoy.kills[convoy.stage] = convoy.kills.get(convoy.stage, 0) + 1
        start, stop = task.rows or (0, convoy.rows)
        one_row = stop - start == 1
        if convoy.kills[convoy.stage] < _KILLS_BEFORE_SPLIT or (one_row and task.kills < _KILLS_OF_ONE_ROW):
            self._retry(pool, task)
            return
        if not task.process or pool.stage.whole or (one_row and not pool.stage.rows_may_fail):
            raise StageError(f"{convoy.name} kills the workers of stage {pool.stage.name!r}; give them more memory")
        self.events.add("split", unit=convoy.units[0].id, stage=pool.stage.name, rows=[start, stop])
        if one_row:
            log.warning("%s: row %d kills stage %r; quarantined", convoy.name, start, pool.stage.name)
            pool.push(Task(convoy, convoy.attempt, rows=(start, stop), deadly=_DEADLY), front=True)
            return
        middle = (start + stop) // 2
        for rows in ((middle, stop), (start, middle)):
            pool.push(Task(convoy, convoy.attempt, rows=rows), front=True)
        convoy.outstanding += 1

    def _retry(self, pool: Pool, task: Task) -> None:
        """Queue a task again; one that commits becomes a new attempt, because the first may still be alive unseen."""
        if task.commit:
            task.convoy.attempt += 1
            task.attempt = task.convoy.attempt
        pool.push(task, front=True)

    def _settled(self, convoy: Convoy) -> bool:
        """Return whether the lost worker had committed this convoy, at least in part; if so, restart the rest."""
        left = [unit for unit in convoy.units if not self.store.is_committed(unit.id)]
        if len(left) == len(convoy.units):
            return False
        self.tally.units_done += len(convoy.units) - len(left)
        self._end(convoy)
        for unit in left:
            self._begin(Convoy([unit]))
        return True

    def _dissolve(self, convoy: Convoy) -> bool:
        """Split a convoy into single units, all of them suspects; return False if the convoy has only one unit."""
        if len(convoy.units) == 1:
            return False
        self._end(convoy)
        for unit in convoy.units:
            self._begin(Convoy([unit], kills={convoy.stage: 1}))
        return True

    def _on_setback(self, task: Task, cause: Exception) -> None:
        """Restart a unit after the store was away (a few times at most) or its rows were lost with a node."""
        convoy = task.convoy
        if self._dissolve(convoy):
            return
        lost = isinstance(cause, ObjectLostError)
        convoy.setbacks += not lost  # nodes may come and go any number of times
        self.tally.stages[convoy.stage].retries += 1
        if convoy.setbacks > _SETBACKS:
            if isinstance(cause, CorpusgenError):
                raise cause
            raise StageError(f"{convoy.name} failed {convoy.setbacks} times: {cause}") from cause
        why = "its rows were lost when a node died" if lost else str(cause).splitlines()[0]
        log.warning("retrying %s: %s", convoy.name, why)
        self._begin(convoy)

    # ----------------------------------------------------------- housekeeping

    def _housekeeping(self) -> None:
        self.crew.leave_draining_nodes()
        self.crew.scale(units_wait=bool(self.waiting))
        self._observe()
        self.metrics.publish(self.tally)
        self.progress.update(self.tally)
        self.events.flush()
        if time.monotonic() - self._commits_read > _OTHER_DRIVERS_SECONDS and self.tally.lost_races:
            self._skip_committed()

    def _skip_committed(self) -> None:
        """Drop the waiting units that another driver has committed."""
        self._commits_read = time.monotonic()
        done = self.store.committed()
        left = deque(unit for unit in self.waiting if unit.id not in done)
        self.tally.already_done += len(self.waiting) - len(left)
        self.waiting = left

    def _observe(self) -> None:
        for pool, stage in zip(self.pools, self.tally.stages, strict=True):
            stage.workers = pool.ready_workers
            stage.queued = len(pool.queue)
            stage.queue_age = pool.queue_age
