"""The work of each worker of a training, in a process of Ray Train.

Shapes: N rows of a chunk, M members of a row, L layers, D dimensions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.io.lock import Lock
from corpusgen.io.node_cache import cache_folder
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import Product
from distiller.settings import TrainSettings
from distiller.training.checkpoints import unpacked
from distiller.training.data import FeatureChunk, JoinedSources, MappedFeatures, Source
from distiller.training.loop import Training, Validation
from distiller.training.online import OnlineFeatures
from distiller.training.ray_train import EndedTogetherError, by_first
from distiller.training.report import refresh_report
from distiller.training.run_folder import History, RunFolder
from distiller.training.tensorboard import TensorBoard
from distiller.words.backbone import Backbone, confirmed_backbone
from distiller.words.features import Features, features_at, open_features
from distiller.words.objective import objective_of, products_for
from distiller.words.row_facts import ROW_FACTS, FactsInOrder

_SHOW_SECONDS = 0.5

T = TypeVar("T")


@dataclass(frozen=True)
class Instructions:
    """The instructions for all workers."""

    settings: TrainSettings
    identities: Mapping[str, str]
    """For each table a name for what its layer states are made from: the backbone, its layers and the rows."""
    backbone: Mapping[str, Any]
    """The frozen model as the driver found it; a worker with another one refuses to start."""
    board: Any = None
    """The actor that shows the progress."""
    lock: Lock | None = None
    """The lock of the run, which the driver holds."""


def train_part(config: dict[str, Any]) -> CorpusgenError | None:
    """Train in step with the other workers from the last checkpoint; return the error that a retry would not help."""
    try:
        _train(config["instructions"])
    except EndedTogetherError as end:
        return end.problem
    except ConfigError as error:  # all workers raise the same
        return error
    return None


def _train(instructions: Instructions) -> None:
    settings = instructions.settings
    training = _training(instructions)
    run = RunFolder(settings.output)
    history = History()
    if checkpoint := _by_first(training, run.last):
        state = unpacked(checkpoint)
        history = History(**state.pop("history"))
        training.load_state(state)
    history.begin(training.progress.step)
    tensorboard = TensorBoard(settings.output, training.progress.step)
    reporter = _Reporter(instructions.board, training)

    def save() -> None:
        if instructions.lock:
            instructions.lock.check()
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
    """Return rising learning rates and the loss of a step at each, up to where the loss soars."""
    training = _training(config["instructions"])
    lowest, highest, steps = config["lowest"], config["highest"], config["steps"]
    rates = np.geomspace(lowest, highest, steps).tolist()
    found: list[tuple[float, float]] = []
    for step, terms in training.steps(lambda step: rates[min(step, steps - 1)]):
        found.append((rates[step - 1], sum(terms.values())))
        losses = [loss for _, loss in found]
        if step == steps or not losses[-1] < 4 * losses[0]:
            break
    return found


def _training(instructions: Instructions) -> Training:
    import ray.train
    from ray.train.torch import get_device

    context = ray.train.get_context()
    device = str(get_device())
    source = _source(instructions, device)
    return Training(instructions.settings, source, context.get_world_rank(), context.get_world_size(), device)


def _source(instructions: Instructions, device: str) -> Source:
    settings = instructions.settings
    corpus = Store.at(settings.corpus)
    members = objective_of(settings).members
    is_online = settings.features == "online"
    backbone = Backbone(confirmed_backbone(settings.backbone, instructions.backbone), device) if is_online else None
    sources = [
        _source_of(product.only(members), corpus, instructions, backbone) for product in products_for(settings, corpus)
    ]
    return sources[0] if len(sources) == 1 else JoinedSources(sources)


def _source_of(product: Product, corpus: Store, instructions: Instructions, backbone: Backbone | None) -> Source:
    """Return the layer states of one table; `backbone` computes them, or they are precomputed."""
    settings, identity = instructions.settings, instructions.identities[product.table]
    cache = cache_folder(settings.cache)
    # Objectives differ in the members they use and in their order, and versions in the facts they keep: each has a copy
    # of its own.
    copy = f"{identity} {' '.join(_layout(product))} {ROW_FACTS.descr}"
    if backbone:
        return OnlineFeatures.open(cache, copy, product.open(corpus), product, backbone)
    store = features_at(settings.corpus, identity)
    features = open_features(store, settings.corpus, product.table)

    def chunks() -> Iterator[FeatureChunk]:
        return feature_chunks(features, product.open(corpus), product)

    return MappedFeatures.open(cache, f"{store.url} {copy}", chunks)


def _layout(product: Product) -> Iterator[str]:
    """Yield the members of a row as a copy holds them."""
    return (f"-{member.name}" if member.absent else member.name for member in product.members)


def feature_chunks(features: Features, rows: CommittedTable, product: Product) -> Iterator[FeatureChunk]:
    """Yield the features of a corpus with the facts of their words, which only its own `rows` tell."""
    facts = FactsInOrder(rows, product)
    for batch in features.batches():
        ids = batch.ids.to_pylist()
        states = np.stack([batch.states[member.name] for member in product.members], axis=1)
        yield FeatureChunk([product.group_of(id_) for id_ in ids], states, facts.next(ids))


def _by_first(training: Training, act: Callable[[], T]) -> T | None:
    return by_first(training.rank, training.workers, training.settings.output, act)


class _Reporter:
    """A reporter of progress to the board, at a limited rate."""

    def __init__(self, board: Any, training: Training) -> None:
        self._board, self._training = board, training
        self._shown, self._step = time.monotonic(), training.progress.step
        self._validation: dict[str, Any] = {}

    def show(self, terms: Mapping[str, float], validation: Validation | None) -> None:
        if validation:
            self._validation = asdict(validation)
        now, step = time.monotonic(), self._training.progress.step
        if self._board is None or (now - self._shown < _SHOW_SECONDS and not self._training.progress.finished):
            return
        rows = (step - self._step) * self._training.settings.batch_size
        self._board.show.remote(
            {
                "step": step,
                "last_step": self._training.last_step,
                "epoch": step / self._training.steps_per_epoch,
                "terms": dict(terms),
                "rate": rows / (now - self._shown),
                "validation": self._validation,
            }
        )
        self._shown, self._step = now, step
