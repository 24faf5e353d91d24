"""One worker's part of a training: its sentences of each step, and the same update as all others make.

Each worker has the whole map and the whole table. Of a step they exchange the gradient of the map, and the gradients of
the rows of the table that the step touches, each row once per worker. All add them up in the same order, so their
tables stay equal to the bit. Restarts are exact; another number of workers changes the last bits, since sums are made
in another order, and with `attention: pairs` also which pairs form a group.

Shapes: V words, d dimensions, R rows that a step touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from distiller.static.settings import SkipgramSettings
from distiller.static.skipgram.lines import Lines
from distiller.static.skipgram.objective import new_map, sums
from distiller.static.skipgram.windows import Batch, Sampling
from distiller.static.x2static.kernel import permuted, stream_key

_EPSILON = 1e-10  # of Adagrad


class StepLoss(NamedTuple):
    """The mean losses of a step per prediction, and how many words it trained."""

    targets: float
    negatives: float
    words: int


class SkipgramTrainer:
    """The map, the table, and the steps that train them."""

    def __init__(
        self,
        settings: SkipgramSettings,
        counts: NDArray[np.int64],
        lines: Lines,
        rank: int = 0,
        workers: int = 1,
        device: str = "cpu",
    ) -> None:
        assert settings.batch_lines is not None
        assert settings.learning_rate is not None
        self.settings, self.rank, self.workers = settings, rank, workers
        self._lines, self._batch_lines, self._rate = lines, settings.batch_lines, settings.learning_rate
        self._sampling = Sampling.of(settings, counts)
        self._device = torch.device(device)
        generator = torch.Generator().manual_seed(settings.seed)
        self.map = new_map(settings, lines.dimension, generator).to(self._device)
        self.table = torch.zeros(len(counts), settings.dimension, device=self._device)
        """The vectors of the words, (V, d): the result."""
        self._squares = torch.zeros(len(counts), device=self._device)
        """Adagrad's sums of mean squares, one for each word, (V,)."""
        self._squares_of_map = [torch.zeros_like(own) for own in self.map.parameters()]
        self.steps = 0

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of steps in which every sentence occurs once."""
        return -(-len(self._lines) // self._batch_lines)

    @property
    def last_step(self) -> int:
        """Return the number of steps of the whole training."""
        return self.settings.epochs * self.steps_per_epoch

    # ------------------------------------------------------------------- steps

    def batch(self, step: int) -> Batch:
        """Return the sentences of a step that this worker trains on. They follow from the seed and the step alone."""
        epoch, in_epoch = divmod(step, self.steps_per_epoch)
        start = in_epoch * self._batch_lines
        size = min(self._batch_lines, len(self._lines) - start)
        first, last = (start + size * rank // self.workers for rank in (self.rank, self.rank + 1))
        key = stream_key(self.settings.seed, b"dsg lines", epoch)
        return self._lines.batch(epoch, permuted(first, last, len(self._lines), key))

    def train(self, batch: Batch) -> StepLoss:
        """Train on the next batch."""
        windows = self._sampling.windows(batch)
        rows, where = np.unique(
            np.concatenate([windows.contexts.ravel(), windows.negatives.ravel()]), return_inverse=True
        )
        contexts, negatives = np.split(where, [windows.contexts.size])
        own_rows = self._sent(rows)
        vectors = self.table[own_rows].requires_grad_()
        found = sums(
            self.map(self._sent(batch.states[windows.centres])),
            vectors,
            self._sent(contexts.reshape(windows.contexts.shape)),
            self._sent(windows.present),
            self._sent(negatives.reshape(windows.negatives.shape)),
            self.settings,
        )
        leaves = [vectors, *self.map.parameters()]
        if len(windows.centres):
            of_rows, *of_map = torch.autograd.grad(found.targets + found.negatives, leaves)
        else:  # no word of this worker's sentences has a context
            of_rows, *of_map = (torch.zeros_like(leaf) for leaf in leaves)
        losses = torch.stack([found.targets.detach(), found.negatives.detach()]).double()
        figures = torch.cat([losses, losses.new_tensor([found.predictions, len(windows.centres)])])
        if self.workers > 1:
            own_rows, of_rows = _exchanged(own_rows, of_rows, self.workers)
            for gradient in (*of_map, figures):
                dist.all_reduce(gradient)
        self._update(own_rows, of_rows, of_map)
        self.steps += 1
        targets, negative, count, words = figures.tolist()
        return StepLoss(targets / max(1, count), negative / max(1, count), int(words))

    def _sent(self, values: NDArray[Any]) -> torch.Tensor:
        # A copy, even on a CPU: there the last bits of products depend on where in memory numbers begin.
        return torch.from_numpy(values).to(self._device, non_blocking=True, copy=True)

    @torch.no_grad()
    def _update(self, rows: torch.Tensor, of_rows: torch.Tensor, of_map: list[torch.Tensor]) -> None:
        rate = self._rate * (1 - self.steps / self.last_step if self.settings.decay == "linear" else 1)
        own = list(self.map.parameters())
        if self.settings.optimizer == "sgd":
            if self.settings.clip_gradient is not None:
                norm = torch.stack([gradient.norm() for gradient in (of_rows, *of_map)]).norm()
                rate *= float((self.settings.clip_gradient / norm.clamp(min=1e-12)).clamp(max=1))
            self.table.index_add_(0, rows, of_rows, alpha=-rate)
            for parameter, gradient in zip(own, of_map, strict=True):
                parameter.sub_(gradient, alpha=rate)
            return
        # Adagrad does not depend on the scale of gradients: whether they are sums or means over a batch.
        squares = self._squares[rows] + of_rows.square().mean(dim=1)
        self._squares[rows] = squares
        self.table.index_add_(0, rows, of_rows / (squares.sqrt()[:, None] + _EPSILON), alpha=-rate)
        for parameter, gradient, total in zip(own, of_map, self._squares_of_map, strict=True):
            total.add_(gradient.square())
            parameter.sub_(gradient / (total.sqrt() + _EPSILON), alpha=rate)

    # ----------------------------------------------------------------- restart

    def state(self) -> dict[str, Any]:
        """Return the state to resume from. The step alone determines the sentences and negatives that follow."""
        return {
            "step": self.steps,
            "map": self.map.state_dict(),
            "table": self.table,
            "squares": self._squares,
            "squares of map": self._squares_of_map,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned."""
        self.steps = state["step"]
        self.map.load_state_dict(state["map"])
        self.table.copy_(state["table"])
        self._squares.copy_(state["squares"])
        for own, stored in zip(self._squares_of_map, state["squares of map"], strict=True):
            own.copy_(stored)


def _exchanged(rows: torch.Tensor, gradients: torch.Tensor, workers: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows (R,) that any worker touches and their gradients (R, d), summed in the order of the workers."""
    sizes = [rows.new_zeros(1) for _ in range(workers)]
    dist.all_gather(sizes, rows.new_tensor([len(rows)]))
    counts = [int(size) for size in sizes]
    most = max(counts)
    padded_rows, padded = rows.new_zeros(most), gradients.new_zeros(most, gradients.shape[1])
    padded_rows[: len(rows)], padded[: len(rows)] = rows, gradients
    all_rows = [torch.empty_like(padded_rows) for _ in range(workers)]
    all_gradients = [torch.empty_like(padded) for _ in range(workers)]
    dist.all_gather(all_rows, padded_rows)
    dist.all_gather(all_gradients, padded)
    union = torch.unique(torch.cat([some[:count] for some, count in zip(all_rows, counts, strict=True)]))
    total = gradients.new_zeros(len(union), gradients.shape[1])
    for some, of_some, count in zip(all_rows, all_gradients, counts, strict=True):
        total.index_add_(0, torch.searchsorted(union, some[:count]), of_some[:count])
    return union, total
