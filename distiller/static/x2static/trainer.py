"""One worker's share of the training: some rows of the vocabulary, and nothing but them.

Word r of the vocabulary belongs to worker r modulo the number of workers: frequent words, which have low numbers, and
with them the work are spread evenly. A worker reads all batches and handles the targets and negatives that are its
own. Since a row's gradient needs no other row, workers never exchange anything, and the vectors are the same to the
bit for any number of workers and threads.

Shapes: R rows of the shard, D dimensions; in a batch B sentences, N targets and E entries of the shard.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distiller.static.settings import X2StaticSettings
from distiller.static.x2static.kernel import LOSS_UNIT, set_initial, sorted_entries, stream_key, train_rows
from distiller.static.x2static.sampling import Sampling
from distiller.static.x2static.sentences import Batch


def shard_rows(rank: int, workers: int, vocabulary: int) -> range:
    """Return the words of a worker, in the order of its rows."""
    if not 0 <= rank < workers:
        raise ValueError(f"worker {rank} of {workers} does not exist; workers count from 0")
    return range(rank, vocabulary, workers)


@dataclass(frozen=True)
class StepLoss:
    """The loss of one step over the rows of one worker; the sum of those of all workers is the loss of the step.

    Sums are whole multiples of LOSS_UNIT, so they are the same in any order.
    """

    targets: int
    """The number of targets in the batch, whichever worker's rows they are."""
    sum_of_targets: int
    sum_of_negatives: int

    def __add__(self, other: StepLoss) -> StepLoss:
        if self.targets != other.targets:
            raise ValueError("losses of different steps cannot be added")
        return StepLoss(
            self.targets,
            self.sum_of_targets + other.sum_of_targets,
            self.sum_of_negatives + other.sum_of_negatives,
        )

    @property
    def terms(self) -> dict[str, float]:
        """Return the two terms of the loss by name; 0 if there are no targets."""
        scale = LOSS_UNIT / max(1, self.targets)
        return {"targets": self.sum_of_targets * scale, "negatives": self.sum_of_negatives * scale}

    @property
    def loss(self) -> float:
        """Return the loss."""
        return sum(self.terms.values())


class Prepared(NamedTuple):
    """What a worker needs of a batch."""

    step: int
    contexts: NDArray[np.float32]
    """Vectors of the sentences, (B, D)."""
    sentence: NDArray[np.int32]
    """The sentence of each target, (N,)."""
    entries: NDArray[np.uint64]
    """Where the worker's rows are targets or negatives, (E,): see kernel.py."""


class ShardTrainer:
    """The rows of one worker, and what trains them."""

    def __init__(
        self,
        settings: X2StaticSettings,
        counts: NDArray[np.int64],
        dimension: int,
        rank: int = 0,
        workers: int = 1,
        threads: int = 1,
    ) -> None:
        self.settings = settings
        self.rank, self.workers, self.vocabulary = rank, workers, len(counts)
        self.rows = shard_rows(rank, workers, len(counts))
        """The words of this worker."""
        self.state = np.empty((len(self.rows), 3, dimension), np.float32)
        """Of each row its vector and Adam's two moments, (R, 3, D)."""
        set_initial(self.state, rank, workers, stream_key(settings.seed, b"x2 vectors"))
        self.touches = np.zeros(len(self.rows), np.int32)
        """The number of steps that touched each row, (R,)."""
        self.steps = 0
        """The number of steps done, and so of the next step."""
        self._sampling = Sampling.of(settings, counts)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "x2static")

    @property
    def dimension(self) -> int:
        """Return the number of dimensions."""
        return self.state.shape[2]

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Return the vectors of the rows, (R, D): a view."""
        return self.state[:, 0]

    def step(self, batch: Batch) -> StepLoss:
        """Train on the next batch."""
        return self.train(self.prepare(batch))

    def prepare(self, batch: Batch) -> Prepared:
        """Find the rows that a batch touches. It needs no vectors, so it may run ahead in another thread."""
        candidates, words = self._sampling.draw(batch)
        entries = sorted_entries(words, self.rank, self.workers, len(self.rows))
        return Prepared(batch.step, batch.contexts, batch.sentence[candidates], entries)

    def train(self, prepared: Prepared) -> StepLoss:
        """Train on the next batch, of which `prepare` found the rows."""
        if prepared.step != self.steps:
            raise ValueError(f"batch {prepared.step} cannot follow {self.steps} steps")
        own, *others = _parts(prepared.entries, self._threads)
        running = [self._pool.submit(self._train, part, prepared) for part in others]
        losses = [self._train(own, prepared), *(part.result() for part in running)]
        of_targets, of_negatives = zip(*losses, strict=True)
        self.steps += 1
        return StepLoss(len(prepared.sentence), sum(of_targets), sum(of_negatives))

    def _train(self, entries: NDArray[np.uint64], prepared: Prepared) -> tuple[int, int]:
        settings = self.settings
        return train_rows(
            entries,
            prepared.sentence,
            prepared.contexts,
            self.state,
            self.touches,
            1 + settings.negatives,
            prepared.step + 1,
            settings.bias_correction == "row",
            settings.learning_rate,
            settings.beta1,
            settings.beta2,
            settings.epsilon,
        )


def _parts(entries: NDArray[np.uint64], count: int) -> list[NDArray[np.uint64]]:
    """Return sorted entries in parts of similar size, of which none shares a row with another."""
    places = np.arange(1, count) * len(entries) // count
    first_of_row = entries[places] >> np.uint64(32) << np.uint64(32) if len(entries) else entries
    return np.split(entries, np.searchsorted(entries, first_of_row))
