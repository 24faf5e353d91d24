"""The workers of a training, as threads of this process or as actors of Ray.

Each holds the rows of its words and works through its own queue of calls. None waits for another.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from corpusgen.io.files import Files
from corpusgen.io.node_cache import cache_folder
from corpusgen.store import Store
from corpusgen.store.products import read_vocabulary
from distiller.static.settings import X2StaticSettings
from distiller.static.x2static.checkpoint import Checkpoint, Piece, restore, write_shard
from distiller.static.x2static.sentences import batch_of, steps_per_epoch
from distiller.static.x2static.staging import Staging
from distiller.static.x2static.trainer import Prepared, ShardTrainer


@dataclass(frozen=True)
class Task:
    """What all workers of a training know."""

    settings: X2StaticSettings
    corpus: Store
    sentences: Store
    words: int
    """The number of words that are trained, the most frequent ones."""
    files: Files
    """Where checkpoints are."""
    checkpoint: Checkpoint | None = None
    """The one to resume from."""

    def worker(self, rank: int, workers: int) -> ShardWorker:
        """Return a worker, which has not begun yet."""
        return ShardWorker(self, rank, workers)


class ShardWorker:
    """One worker. It counts steps from the beginning of the training, whenever it was resumed."""

    def __init__(self, task: Task, rank: int, workers: int) -> None:
        self._task, self._rank, self._workers = task, rank, workers

    def begin(self) -> int:
        """Load what the training needs and resume from the checkpoint; return the number of steps of the training."""
        task, settings = self._task, self._task.settings
        staging = Staging(task.sentences, task.words, settings.contexts == "paragraph")
        self._sentences = staging.open(cache_folder(settings.cache))
        _, counts = read_vocabulary(task.corpus)
        dimension = self._sentences.contexts.shape[1]
        self._trainer = ShardTrainer(settings, counts[: task.words], dimension, self._rank, self._workers)
        if task.checkpoint:
            restore(task.files, task.checkpoint, self._trainer)
        return settings.epochs * steps_per_epoch(self._sentences, settings)

    def advance(self, until: int) -> NDArray[np.int64]:
        """Train up to a step; return of each step the number of targets and its two sums of losses, (n, 3)."""
        losses: list[tuple[int, int, int]] = []
        with ThreadPoolExecutor(1, "prepare") as ahead:  # finds the rows of the next batch meanwhile
            coming = ahead.submit(self._prepared, self._trainer.steps)
            while self._trainer.steps < until:
                prepared = coming.result()
                if prepared.step + 1 < until:
                    coming = ahead.submit(self._prepared, prepared.step + 1)
                loss = self._trainer.train(prepared)
                losses.append((loss.targets, loss.sum_of_targets, loss.sum_of_negatives))
        return np.array(losses, np.int64).reshape(-1, 3)

    def save(self) -> list[Piece]:
        """Write the rows of this worker; return the pieces."""
        return write_shard(self._task.files, self._trainer)

    def _prepared(self, step: int) -> Prepared:
        return self._trainer.prepare(batch_of(self._sentences, self._task.settings, step))


class Crew(Protocol):
    """Some workers. Those still at work when the block ends are stopped."""

    workers: int

    def call(self, rank: int, method: str, *arguments: Any) -> Future[Any]:
        """Add a call to the queue of a worker."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class Threads:
    """Workers in this process, each in a thread."""

    def __init__(self, task: Task, workers: int) -> None:
        self.workers = workers
        self._members = [task.worker(rank, workers) for rank in range(workers)]
        self._threads = [ThreadPoolExecutor(1, f"worker-{rank}") for rank in range(workers)]

    def call(self, rank: int, method: str, *arguments: Any) -> Future[Any]:
        """Add a call to the queue of a worker."""
        return self._threads[rank].submit(getattr(self._members[rank], method), *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for thread in self._threads:
            thread.shutdown(wait=False, cancel_futures=True)
        for thread in self._threads:
            thread.shutdown()


class Actors:
    """Workers on a Ray cluster, each in a process with a core, spread over the nodes."""

    def __init__(self, task: Task, workers: int) -> None:
        import ray

        self.workers = workers
        actor = ray.remote(ShardWorker).options(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")
        self._members = [actor.remote(task, rank, workers) for rank in range(workers)]

    def call(self, rank: int, method: str, *arguments: Any) -> Future[Any]:
        """Add a call to the queue of a worker."""
        future: Future[Any] = getattr(self._members[rank], method).remote(*arguments).future()
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        for member in self._members:
            ray.kill(member)


CrewFor = Callable[[Task], Crew]
