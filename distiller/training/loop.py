"""One worker's part of a training, independent of Ray: steps, validation and the state that survives a restart.

Shapes: M members of a row, B rows, L layers, D dimensions, T terms of the loss. States are (M, B, L, D).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch.nn.parallel import DistributedDataParallel

from corpusgen.errors import ConfigError
from distiller.settings import TrainSettings
from distiller.training.data import (
    EpochOrder,
    Source,
    Split,
    prefetched,
    rank_batches,
    rank_slice,
    split,
    without_sentences_of,
)
from distiller.words.judging import FIGURES, Judged
from distiller.words.losses import worker_weight
from distiller.words.model import Distilled, TrainingPosition
from distiller.words.objective import objective_of
from distiller.words.row_facts import BatchFacts

_VALIDATION_ROWS = 1024  # rows at a time
_FITTED_WORDS = 5000  # enough to estimate means and deviations
_SETTLED_ROWS = 2048  # enough to estimate a correlation


@dataclass
class Progress:
    """The progress of a training; with the weights and the optimizer's state, all it needs to resume."""

    step: int = 0
    best_loss: float = math.inf
    best_step: int = 0
    waited: int = 0
    """The number of validations since the best one."""
    finished: bool = False


@dataclass(frozen=True)
class Validation:
    """The figures of held-out rows. Cosines are between meaning vectors, averaged over the rows."""

    step: int
    epoch: float
    loss: float
    terms: dict[str, float]
    cosine_positive: float
    cosine_negative: float
    ordered: float
    """Of the rows whose order says something, the share whose original is nearer to the
    positive than to the negative; NaN if there are none."""
    cosine_unrelated: float
    """The mean cosine of the originals of neighbouring, unrelated rows; near 1 if meaning vectors collapse."""
    ordered_frozen: float
    """The same share as `ordered`, by the frozen model's own vectors."""
    differing: int
    """The number of rows whose order says something."""


class StepLosses(Mapping[str, float]):
    """The loss of a step by term, (T,). It stays on the device until it is read, so steps need not wait for a GPU."""

    def __init__(self, names: Sequence[str], values: torch.Tensor) -> None:
        self._names, self._values = names, values

    @cached_property
    def _read(self) -> dict[str, float]:
        return dict(zip(self._names, self._values.tolist(), strict=True))

    def __getitem__(self, name: str) -> float:
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Training:
    """The training of one worker on its part of each batch, in step with other workers of the process group, if any."""

    def __init__(
        self, settings: TrainSettings, features: Source, rank: int = 0, workers: int = 1, device: str = "cpu"
    ) -> None:
        self.settings = settings
        self.rank, self.workers = rank, workers
        self._features = features
        self._objective = objective_of(settings)
        self._rows, self._held_out = training_split(features.ids, settings)
        self._facts = features.facts
        if optional := getattr(self._objective, "optional", ()):
            is_optional = [member in optional for member in self._objective.members]
            self._rows, self._facts = without_sentences_of(self._held_out, self._rows, features.facts, is_optional)
        self._order = EpochOrder(len(self._rows), settings.batch_size, settings.seed)
        self._device = torch.device(device)
        self._dtype = _sent_as(features.dtype, self._device)
        self._mixed = _mixes_precision(settings.precision, self._device)
        self.model = self._objective.new_model(features.layers, features.dimension)
        self._objective.prepare(self.model, self._some_states)
        self.model.to(self._device)
        self._model = DistributedDataParallel(self.model, gradient_as_bucket_view=True) if workers > 1 else self.model
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        self.progress = Progress()
        self._best: dict[str, torch.Tensor] | None = None
        """The weights after the best step."""

    def _some_states(self) -> torch.Tensor:
        """Return states (M, B, L, D) of rows spread evenly over the training rows."""
        return self._features.batch(self._rows[:: max(1, len(self._rows) // _FITTED_WORDS)])

    @cached_property
    def _some_held_out_states(self) -> torch.Tensor:
        """Return states (M, B, L, D) of held-out rows, in the type they are sent in."""
        return self._features.batch(self._held_out[:_SETTLED_ROWS], self._dtype)

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of batches that hold every row once."""
        return self._order.steps_per_epoch

    @property
    def sizes(self) -> dict[str, int]:
        """Return the number of rows to train on and to validate with, and of those left out.

        Rows are left out if validation has no room for them, or if they share a sentence with held-out ones.
        """
        trained_on, held_out = len(self._rows), len(self._held_out)
        return {"trained_on": trained_on, "held_out": held_out, "left_out": len(self._features) - trained_on - held_out}

    @property
    def validation_interval(self) -> int:
        """Return the number of steps between validations."""
        return max(1, round(self.settings.validate_every * self.steps_per_epoch))

    # -------------------------------------------------------------- training

    @property
    def last_step(self) -> int:
        """Return the step after which training ends, unless it ends earlier."""
        steps = self.settings.max_epochs * self.steps_per_epoch
        return min(steps, self.settings.max_steps or steps)

    def run(self) -> Iterator[tuple[int, StepLosses, Validation | None]]:
        """Train to the end; yield each step's number, its loss by term, and a validation when one is due.

        Numbers count from one. All workers yield the same.
        """
        for step, losses in self.steps(lambda step: self.settings.learning_rate_at(step + 1, self.last_step)):
            due = step % self.validation_interval == 0 or step >= self.last_step
            validation = self._validated() if due else None
            self.progress.finished |= step >= self.last_step
            yield step, losses, validation
            if self.progress.finished:
                return

    def steps(self, learning_rate: Callable[[int], float]) -> Iterator[tuple[int, StepLosses]]:
        """Train without end at the given learning rate of each step; yield its number and its loss by term."""
        if self.progress.finished:
            return
        batches = rank_batches(
            self._features,
            self._rows,
            self._order,
            first_step=self.progress.step,
            rank=self.rank,
            workers=self.workers,
            dtype=self._dtype,
            pinned=self._device.type == "cuda",
            facts=self._facts,
        )
        for batch in prefetched(batches):
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate(batch.step)
            position = TrainingPosition(self.settings.seed, batch.step, batch.first_row, batch.size)
            states = batch.states.to(self._device, non_blocking=True)
            losses = self._step(states, batch.facts.to(self._device), position, batch.size)
            self.progress.step = batch.step + 1
            yield self.progress.step, losses

    def _step(self, states: torch.Tensor, facts: BatchFacts, position: TrainingPosition, batch_size: int) -> StepLosses:
        self._model.train()
        weight = worker_weight(self.workers, batch_size)
        losses = self._objective.losses(self._forward, self.model, states, facts, position, weight)
        self._optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        if self.settings.clip_gradient is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_gradient)
        self._optimizer.step()
        return self._named(self._sum(losses.detach().double()) / self.workers)

    def _forward(self, states: torch.Tensor, position: TrainingPosition) -> Distilled:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._mixed):
            distilled: Distilled = self._model(states, position)
        return distilled

    # ------------------------------------------------------------ validation

    def _validated(self) -> Validation:
        validation = self.validate()
        if not math.isfinite(validation.loss):
            raise ConfigError(f"the loss is {validation.loss} after {self.progress.step} steps; lower learning_rate")
        names = getattr(self._objective, "stops_by", self._objective.term_names)
        loss = sum(validation.terms[name] for name in names if name in validation.terms)
        if loss < self.progress.best_loss - self.settings.min_delta:
            self.progress.best_loss, self.progress.best_step, self.progress.waited = loss, self.progress.step, 0
            self._best = {name: value.to("cpu", copy=True) for name, value in self.model.state_dict().items()}
        else:
            self.progress.waited += 1
            self.progress.finished = self.progress.waited >= self.settings.patience
        return validation

    @torch.inference_mode()
    def validate(self) -> Validation:
        """Evaluate the model on the held-out rows."""
        self.model.eval()
        if settle := getattr(self._objective, "settle", None):
            settle(self.model, lambda: self._some_held_out_states)
        figures = torch.zeros(len(FIGURES), dtype=torch.float64, device=self._device)
        judged = Judged(figures.new_zeros(len(self._objective.term_names)), figures, figures)
        numbers = np.arange(len(self._held_out))
        for start in range(0, len(numbers), _VALIDATION_ROWS):
            mine = rank_slice(numbers[start : start + _VALIDATION_ROWS], self.rank, self.workers)
            if len(mine):
                rows = self._held_out[[mine[0] - 1, *mine]]  # circular: the last row comes before the first
                states = self._features.batch(rows, self._dtype).to(self._device)
                facts = BatchFacts.of(self._features.facts[rows]).to(self._device)
                judged += self._objective.judge(self.model, states, facts)
        judged = Judged(*(self._sum(values) for values in judged))
        terms = dict(self._named(judged.losses / len(self._held_out)))
        means = dict(zip(FIGURES, (judged.figures / judged.counts).tolist(), strict=True))  # NaN if no row counts
        return Validation(
            step=self.progress.step,
            epoch=self.progress.step / self.steps_per_epoch,
            loss=sum(terms.values()),
            terms=terms,
            differing=round(judged.counts[FIGURES.index("ordered")].item()),
            **means,
        )

    def _named(self, values: torch.Tensor) -> StepLosses:
        return StepLosses(self._objective.term_names, values)

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        """Sum values over all workers."""
        if self.workers > 1:
            dist.all_reduce(values)
        return values

    # --------------------------------------------------------------- restart

    def state(self) -> dict[str, Any]:
        """Return the state to resume from, with the best weights. The step alone determines data order and dropout."""
        weights = self.model.state_dict()
        is_best = self.progress.step == self.progress.best_step
        return {
            "model": weights,
            "best": weights if is_best else self._best,  # torch saves shared tensors once
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(self.progress),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `state` returned."""
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.progress = Progress(**state["progress"])
        self._best = state["best"]
        if self._best is None:
            self.progress.best_loss = math.inf


def _sent_as(kept: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the type to send states in. A GPU widens them itself: half precision halves the transfer."""
    return kept if device.type == "cuda" else torch.float32


def _mixes_precision(precision: str, device: torch.device) -> bool:
    """Return whether matrix products are in bfloat16; weights, losses and the optimizer stay in float32."""
    if precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return precision == "bfloat16"


def training_split(ids: Sequence[str | bytes] | NDArray[Any], settings: TrainSettings) -> Split:
    """Return the rows to train on and to validate with; raise ConfigError if either is empty."""
    rows, held_out = split(ids, settings.validation_share, settings.validation_at_most, salt="validation")
    if not len(rows) or not len(held_out):
        raise ConfigError(
            f"{len(ids):,} rows leave {len(rows):,} to train on and {len(held_out):,} to validate with; build a "
            "larger corpus, or change validation_share or validation_at_most"
        )
    return Split(rows, held_out)
