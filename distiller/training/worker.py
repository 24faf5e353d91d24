"""What each worker of a training does, in a process of Ray Train."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch.distributed as dist

from corpusgen.errors import ConfigError, CorpusgenError, StoreError, StoreUnavailableError
from corpusgen.io.lock import Lock
from corpusgen.io.node_cache import cache_folder
from corpusgen.store import Store, TripleStore
from distiller.settings import TrainSettings
from distiller.training.checkpoints import unpacked
from distiller.training.data import FeatureChunk, MappedFeatures, Source
from distiller.training.loop import Training, Validation
from distiller.training.online import OnlineFeatures
from distiller.training.report import refresh_report
from distiller.training.run_folder import History, RunFolder
from distiller.training.tensorboard import TensorBoard
from distiller.words.backbone import Backbone, confirmed_backbone
from distiller.words.features import Features, open_features

_SHOW_SECONDS = 0.5

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """What all workers are told."""

    settings: TrainSettings
    identity: str
    """Names the backbone, its layers and the triples: what the layer states are made of."""
    features: str | None
    """Where they are, if they were computed before."""
    backbone: Mapping[str, Any]
    """The frozen model as the driver found it: a worker that has another one refuses."""
    board: Any = None
    """An actor that shows how it goes."""
    lock: Lock | None = None
    """Of the run; held by the driver."""


def train_part(config: dict[str, Any]) -> CorpusgenError | None:
    """Train in step with the others, from the last checkpoint on; what went wrong, if trying again would not help."""
    try:
        _train(config["job"])
    except _EndedTogetherError as end:
        return end.problem
    except ConfigError as error:  # the same in all workers
        return error
    return None


def _train(job: Job) -> None:
    settings = job.settings
    training = _training(job)
    run = RunFolder(settings.output)
    history = History()
    if checkpoint := _by_first(training, run.last):
        state = unpacked(checkpoint)
        history = History(**state.pop("history"))
        training.load_state(state)
    history.begin(training.progress.step)
    tensorboard = TensorBoard(settings.output, training.progress.step)
    reporter = _Reporter(job.board, training)

    def save() -> None:
        if job.lock:
            job.lock.check()
        run.save(training, history)
        tensorboard.flush()
        refresh_report(run)

    for step, terms, validation in training.run():
        if training.rank == 0:
            history.add(step, terms, validation, settings.log_steps)
            tensorboard.write(history, validation)
            reporter.show(terms, validation)
        if validation or training.progress.finished or step % settings.checkpoint_steps == 0:
            _by_first(training, save)


def find_rate_part(config: dict[str, Any]) -> list[tuple[float, float]]:
    """Learning rates, each higher than the one before, and the loss of a step at each; it ends when the loss soars."""
    training = _training(config["job"])
    lowest, highest, steps = config["lowest"], config["highest"], config["steps"]
    rates = np.geomspace(lowest, highest, steps).tolist()
    found: list[tuple[float, float]] = []
    for step, terms in training.steps(lambda step: rates[min(step, steps - 1)]):
        found.append((rates[step - 1], sum(terms.values())))
        losses = [loss for _, loss in found]
        if step == steps or not losses[-1] < 4 * losses[0]:
            break
    return found


def _training(job: Job) -> Training:
    import ray.train
    from ray.train.torch import get_device

    context = ray.train.get_context()
    device = str(get_device())
    return Training(job.settings, _source(job, device), context.get_world_rank(), context.get_world_size(), device)


def _source(job: Job, device: str) -> Source:
    settings = job.settings
    cache = cache_folder(settings.cache)
    if job.features is None:
        backbone = Backbone(confirmed_backbone(settings.backbone, job.backbone), device)
        return OnlineFeatures.open(cache, job.identity, TripleStore(settings.corpus), backbone)
    features = open_features(Store.at(job.features), settings.corpus)
    return MappedFeatures.open(cache, f"{job.features} {job.identity}", lambda: _chunks(features))


def _chunks(features: Features) -> Iterator[FeatureChunk]:
    for batch in features.batches():
        yield FeatureChunk(batch.ids.to_pylist(), np.stack(batch[1:], axis=1))


class _EndedTogetherError(Exception):
    """What all workers end with, since the first one cannot go on."""

    def __init__(self, problem: CorpusgenError) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _by_first(training: Training, act: Callable[[], T]) -> T | None:
    """What the first worker gets, for all: a checkpoint must not change between one's look and another's.

    A problem of the first is one of all. If it kept it to itself, the others would wait for it in the next step.
    """
    box: list[Any] = [None]
    if training.rank == 0:
        try:
            box = [act()]
        except StoreUnavailableError:
            raise  # Ray starts the workers again: it may have come back
        except CorpusgenError as error:
            box = [error]
        except OSError as error:
            box = [StoreError(f"{training.settings.output}: {error.strerror or error}")]
    if training.workers > 1:
        dist.broadcast_object_list(box, src=0)
    if isinstance(box[0], CorpusgenError):
        raise _EndedTogetherError(box[0])
    found: T | None = box[0]
    return found


class _Reporter:
    """Tells the board how it goes, not too often."""

    def __init__(self, board: Any, training: Training) -> None:
        self._board, self._training = board, training
        self._shown, self._step = time.monotonic(), training.progress.step
        self._validation: dict[str, float] = {}

    def show(self, terms: Mapping[str, float], validation: Validation | None) -> None:
        if validation:
            self._validation = {"loss": validation.loss, "ordered": validation.ordered}
        now, step = time.monotonic(), self._training.progress.step
        if self._board is None or (now - self._shown < _SHOW_SECONDS and not self._training.progress.finished):
            return
        triples = (step - self._step) * self._training.settings.batch_size
        self._board.show.remote(
            {
                "step": step,
                "last_step": self._training.last_step,
                "epoch": step / self._training.steps_per_epoch,
                "terms": dict(terms),
                "rate": triples / (now - self._shown),
                "validation": self._validation,
            }
        )
        self._shown, self._step = now, step
