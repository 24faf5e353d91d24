"""The course of a training: what workers do next, when a checkpoint is complete, and what the losses were.

Workers get their calls for two checkpoints ahead, so that none waits for another, nor for a checkpoint to be complete.
"""

from __future__ import annotations

import csv
import io
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusgen.errors import CorpusgenError, InterruptedRunError, StageError, StoreUnavailableError
from corpusgen.io.lock import Lock
from distiller.static.x2static.checkpoint import Checkpoint, Piece, commit, latest
from distiller.static.x2static.trainer import StepLoss
from distiller.static.x2static.workers import Crew, CrewFor, Task

LOSSES = "loss.csv"
_LOG_STEPS = 50  # per row of the table of losses
_AHEAD = 2
_SHOW_SECONDS = 15.0

Say = Callable[[str], None]


class WorkerDiedError(CorpusgenError):
    """The error raised when workers of a training die more often than they may."""


@dataclass
class Losses:
    """The mean losses of stretches of steps; `step` is the last of each."""

    rows: list[dict[str, float]] = field(default_factory=list)
    targets: int = 0
    """The number of targets trained since the training began or resumed."""

    def add(self, step: int, losses: NDArray[np.int64]) -> None:
        """Record the losses of a stretch that ended with a step: those of all workers together, (n, 3)."""
        steps = [StepLoss(*one) for one in losses.tolist()]
        terms = {name: sum(one.terms[name] for one in steps) / len(steps) for name in ("targets", "negatives")}
        self.rows.append({"step": step, "loss": sum(terms.values()), **terms})
        self.targets += sum(one.targets for one in steps)

    def table(self) -> bytes:
        """Return them as CSV."""
        text = io.StringIO()
        writer = csv.DictWriter(text, ["step", "loss", "targets", "negatives"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue().encode()


def train(task: Task, dimension: int, crew_for: CrewFor, lock: Lock, say: Say) -> Checkpoint:
    """Train to the end, from the last checkpoint on, and return the final one.

    If a worker dies, new ones resume from the last checkpoint.
    """
    failures = 0
    while True:
        task = replace(task, checkpoint=latest(task.files, say))
        try:
            with crew_for(task) as crew:
                return _Course(task, dimension, crew, lock, say).run()
        except KeyboardInterrupt:
            raise InterruptedRunError(
                "stopped; run the same command again to resume from the last checkpoint", signal.SIGINT
            ) from None
        except Exception as error:
            problem = _explained(error)
            failures += 1
            if isinstance(problem, OSError):
                raise StageError(f"a worker cannot read or write: {problem}; check `cache` and `output`") from error
            if problem is not None and not isinstance(problem, StoreUnavailableError):
                raise problem from error
            if failures > task.settings.max_failures:
                raise WorkerDiedError(
                    f"workers of the training died {failures} times, at last with: {_first_line(problem or error)}\n"
                    "run the same command again to resume from the last checkpoint; with more `workers` each needs "
                    "less memory"
                ) from error
            say(f"a worker has died ({_first_line(problem or error)}); resuming from the last checkpoint")


def _explained(error: Exception) -> Exception | None:
    """Return the error that a worker raised; None if it died."""
    if not type(error).__module__.startswith("ray."):
        return error
    from ray.exceptions import RayTaskError

    return error.cause if isinstance(error, RayTaskError) else None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


@dataclass
class _Stretch:
    """The calls that lead all workers to a checkpoint."""

    until: int
    advances: list[tuple[int, list[Future[NDArray[np.int64]]]]]
    """The last step of some steps, and the losses of each worker in them."""
    saves: list[Future[list[Piece]]]


class _Course:
    """A training by one crew."""

    def __init__(self, task: Task, dimension: int, crew: Crew, lock: Lock, say: Say) -> None:
        self._task, self._dimension, self._crew, self._lock, self._say = task, dimension, crew, lock, say
        history: dict[str, Any] = task.checkpoint.history if task.checkpoint else {}
        self._losses = Losses(list(history.get("losses", [])))
        self._begun = self._shown = time.monotonic()

    def run(self) -> Checkpoint:
        """Do all steps that are left; return the final checkpoint."""
        done = self._task.checkpoint
        first = done.step if done else 0
        if done:
            self._say(f"resuming from the checkpoint at step {first:,}")
        last = max(self._all(self._called("begin")))
        self._begun = time.monotonic()
        waiting: deque[_Stretch] = deque()
        for until in self._checkpoints(first, last):
            waiting.append(self._queued(first, until))
            first = until
            if len(waiting) == _AHEAD:
                done = self._finished(waiting.popleft(), last)
        while waiting:
            done = self._finished(waiting.popleft(), last)
        assert done is not None
        return done

    def _checkpoints(self, first: int, last: int) -> Iterator[int]:
        every = self._task.settings.checkpoint_steps
        yield from range((first // every + 1) * every, last, every)
        if first < last:
            yield last

    def _queued(self, first: int, until: int) -> _Stretch:
        ends = [*range((first // _LOG_STEPS + 1) * _LOG_STEPS, until, _LOG_STEPS), until]
        advances = [(end, self._called("advance", end)) for end in ends]
        return _Stretch(until, advances, self._called("save"))

    def _finished(self, stretch: _Stretch, last: int) -> Checkpoint:
        """Wait until all workers have done a stretch, and make its checkpoint real."""
        for end, running in stretch.advances:
            first, *others = self._all(running)
            self._losses.add(end, _joined(first, others))
            self._show(end, last)
        pieces = [piece for of_worker in self._all(stretch.saves) for piece in of_worker]
        self._lock.check()
        history = {"losses": self._losses.rows}
        checkpoint = Checkpoint(stretch.until, self._task.words, self._dimension, pieces, history)
        commit(self._task.files, checkpoint)
        self._task.files.write(LOSSES, self._losses.table())
        return checkpoint

    def _called(self, method: str, *arguments: Any) -> list[Future[Any]]:
        return [self._crew.call(rank, method, *arguments) for rank in range(self._crew.workers)]

    def _all(self, running: list[Future[Any]]) -> list[Any]:
        """Return all results, or raise the first error: other workers may then never answer."""
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        return [future.result() for future in running]

    def _show(self, step: int, last: int) -> None:
        now = time.monotonic()
        if now - self._shown < _SHOW_SECONDS and step < last:
            return
        self._shown = now
        row, speed = self._losses.rows[-1], self._losses.targets / (now - self._begun)
        self._say(
            f"step {step:,} of {last:,}: loss {row['loss']:.4f} (targets {row['targets']:.4f}, negatives "
            f"{row['negatives']:.4f}), {speed:,.0f} targets/s"
        )


def _joined(first: NDArray[np.int64], others: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the losses of all workers together: their targets are the same, their sums add up."""
    joined = first.copy()
    for other in others:
        if (other[:, 0] != first[:, 0]).any():
            raise ValueError("workers do not have the same batches")
        joined[:, 1:] += other[:, 1:]
    return joined
