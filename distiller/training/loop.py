"""One worker's part of a training: steps, validation and everything that must survive a restart. It knows no Ray."""

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
from torch.nn.functional import cosine_similarity
from torch.nn.parallel import DistributedDataParallel

from corpusgen.errors import ConfigError
from distiller.settings import TrainSettings
from distiller.training.data import EpochOrder, Source, Split, prefetched, rank_batches, rank_slice, split
from distiller.words.losses import NEGATIVE, ORIGINAL, POSITIVE, term_losses, terms_of, worker_weight
from distiller.words.model import Distilled, StandardLayers, TrainingPlace, WordModel

_VALIDATION_ROWS = 1024  # at a time
_FITTED_WORDS = 5000  # enough for means and deviations


@dataclass
class Progress:
    """How far a training is; with the weights and the optimizer's state, all that it goes on from."""

    step: int = 0
    best_loss: float = math.inf
    best_step: int = 0
    waited: int = 0
    """Validations since the best one."""
    finished: bool = False


@dataclass(frozen=True)
class Validation:
    """What held-out triples say. Cosines are those of meaning vectors, means over the triples."""

    step: int
    epoch: float
    loss: float
    terms: dict[str, float]
    cosine_positive: float
    cosine_negative: float
    ordered: float
    """Share of triples whose original is nearer to the positive than to the negative."""
    cosine_unrelated: float
    """Of the originals of triples that only a hash made neighbours: near one, if meaning vectors collapse."""


class StepLosses(Mapping[str, float]):
    """The loss of a step by term. They stay on the device until somebody looks: a GPU need not wait after each step."""

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
    """Trains on its own part of each batch, in step with the other workers of the process group, if there is one."""

    def __init__(
        self, settings: TrainSettings, features: Source, rank: int = 0, workers: int = 1, device: str = "cpu"
    ) -> None:
        self.settings = settings
        self.rank, self.workers = rank, workers
        self._features = features
        self._rows, self._held_out = training_split(features.ids, settings)
        self._order = EpochOrder(len(self._rows), settings.batch_size, settings.seed)
        self._device = torch.device(device)
        self._dtype = _sent_as(features.dtype, self._device)
        self._mixed = _mixes_precision(settings.precision, self._device)
        self.model = self._new_model().to(self._device)
        self._model = DistributedDataParallel(self.model, gradient_as_bucket_view=True) if workers > 1 else self.model
        self._terms = terms_of(negatives=settings.negatives, crosslingual=settings.crosslingual)
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        self.progress = Progress()
        self._best: dict[str, torch.Tensor] | None = None
        """The weights after the best step."""

    def _new_model(self) -> WordModel:
        shape = self._features.dimension, self.settings.heads, self.settings.dropout, self.settings.seed
        if not self.settings.standardise:
            return WordModel(*shape)
        some = self._rows[:: max(1, len(self._rows) // _FITTED_WORDS)]
        originals = self._features.batch(some)[ORIGINAL]
        model = WordModel(*shape, standardised=originals.shape[1])
        assert isinstance(model.layers, StandardLayers)
        model.layers.fit(originals)
        return model

    @property
    def steps_per_epoch(self) -> int:
        """How many batches hold every triple once."""
        return self._order.steps_per_epoch

    @property
    def sizes(self) -> dict[str, int]:
        """How many triples it trains on, and how many it is validated with."""
        return {"trained_on": len(self._rows), "held_out": len(self._held_out)}

    @property
    def validation_interval(self) -> int:
        """Steps from one validation to the next."""
        return max(1, round(self.settings.validate_every * self.steps_per_epoch))

    # -------------------------------------------------------------- training

    @property
    def last_step(self) -> int:
        """The step after which it ends, if it does not end before."""
        return self.settings.max_epochs * self.steps_per_epoch

    def run(self) -> Iterator[tuple[int, StepLosses, Validation | None]]:
        """Train until it is finished: after each step its number, its loss by term, and a validation where one is due.

        The number counts from one; what is yielded is the same in all workers.
        """
        for step, losses in self.steps(lambda step: self.settings.learning_rate_at(step + 1)):
            due = step % self.validation_interval == 0 or step >= self.last_step
            validation = self._validated() if due else None
            self.progress.finished |= step >= self.last_step
            yield step, losses, validation
            if self.progress.finished:
                return

    def steps(self, learning_rate: Callable[[int], float]) -> Iterator[tuple[int, StepLosses]]:
        """Train without end, at the learning rate of each step: the numbers of the steps and their losses by term."""
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
        )
        for batch in prefetched(batches):
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate(batch.step)
            place = TrainingPlace(self.settings.seed, batch.step, batch.first_row)
            losses = self._step(batch.states.to(self._device, non_blocking=True), place, batch.size)
            self.progress.step = batch.step + 1
            yield self.progress.step, losses

    def _step(self, states: torch.Tensor, place: TrainingPlace, batch_size: int) -> StepLosses:
        self._model.train()
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._mixed):
            distilled = Distilled(*(vectors.float() for vectors in self._model(states, place)))
        weight = worker_weight(self.workers, batch_size)
        losses = term_losses(distilled, self.model.rebuilt(states), self._terms, weight)
        self._optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        if self.settings.clip_gradient is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_gradient)
        self._optimizer.step()
        return self._named(self._sum(losses.detach().double()) / self.workers)

    # ------------------------------------------------------------ validation

    def _validated(self) -> Validation:
        validation = self.validate()
        if not math.isfinite(validation.loss):
            raise ConfigError(f"the loss is {validation.loss} after {self.progress.step} steps: lower learning_rate")
        if validation.loss < self.progress.best_loss - self.settings.min_delta:
            self.progress.best_loss, self.progress.best_step, self.progress.waited = (
                validation.loss,
                self.progress.step,
                0,
            )
            self._best = {name: value.to("cpu", copy=True) for name, value in self.model.state_dict().items()}
        else:
            self.progress.waited += 1
            self.progress.finished = self.progress.waited >= self.settings.patience
        return validation

    @torch.inference_mode()
    def validate(self) -> Validation:
        """Judge the model by the held-out triples."""
        self.model.eval()
        sums = torch.zeros(len(self._terms) + 4, dtype=torch.float64, device=self._device)
        places = np.arange(len(self._held_out))
        for start in range(0, len(places), _VALIDATION_ROWS):
            mine = rank_slice(places[start : start + _VALIDATION_ROWS], self.rank, self.workers)
            if len(mine):
                rows = self._held_out[[mine[0] - 1, *mine]]  # in a circle: before the first comes the last
                sums += self._judge(self._features.batch(rows, self._dtype).to(self._device))
        means = self._sum(sums) / len(self._held_out)
        count = len(self._terms)
        terms = dict(self._named(means[:count]))
        positive, negative, ordered, unrelated = means[count:].tolist()
        return Validation(
            self.progress.step,
            self.progress.step / self.steps_per_epoch,
            sum(terms.values()),
            terms,
            positive,
            negative,
            ordered,
            unrelated,
        )

    def _judge(self, states: torch.Tensor) -> torch.Tensor:
        """Sums over all rows but the first, which is there as the second one's unrelated neighbour."""
        distilled = self.model(states)
        before = distilled.meaning[ORIGINAL, :-1]
        distilled = Distilled(*(vectors[:, 1:] for vectors in distilled))
        losses = term_losses(distilled, self.model.rebuilt(states[:, 1:]), self._terms, weight=1.0)
        meaning = distilled.meaning
        positive = cosine_similarity(meaning[ORIGINAL], meaning[POSITIVE], dim=-1)
        negative = cosine_similarity(meaning[ORIGINAL], meaning[NEGATIVE], dim=-1)
        unrelated = cosine_similarity(meaning[ORIGINAL], before, dim=-1)
        judged = torch.stack([positive, negative, (positive > negative).float(), unrelated]).double().sum(-1)
        return torch.cat([losses.double(), judged])

    def _named(self, values: torch.Tensor) -> StepLosses:
        return StepLosses([term.name for term in self._terms], values)

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        """Over all workers."""
        if self.workers > 1:
            dist.all_reduce(values)
        return values

    # --------------------------------------------------------------- restart

    def state(self) -> dict[str, Any]:
        """Everything to go on from, and the best weights. Order of data and dropout follow from the step alone."""
        weights = self.model.state_dict()
        is_best = self.progress.step == self.progress.best_step
        return {
            "model": weights,
            "best": weights if is_best else self._best,  # the same tensors are saved once
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(self.progress),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.progress = Progress(**state["progress"])
        self._best = state["best"]
        if self._best is None:
            self.progress.best_loss = math.inf


def _sent_as(kept: torch.dtype, device: torch.device) -> torch.dtype:
    """A GPU is sent states as they are kept and widens them itself: halves are half as much to send."""
    return kept if device.type == "cuda" else torch.float32


def _mixes_precision(precision: str, device: torch.device) -> bool:
    """Whether matrix products are in bfloat16; weights, losses and the optimizer are always in float32."""
    if precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return precision == "bfloat16"


def training_split(ids: Sequence[str | bytes] | NDArray[Any], settings: TrainSettings) -> Split:
    """The rows to train on and to validate with; ConfigError if there are none of either."""
    rows, held_out = split(ids, settings.validation_share, settings.validation_at_most, salt="validation")
    if not len(rows) or not len(held_out):
        raise ConfigError(
            f"{len(ids):,} triples leave {len(rows):,} to train on and {len(held_out):,} to validate with: make more, "
            "or change validation_share"
        )
    return Split(rows, held_out)
