"""X2Static as a method of `distiller static`: vectors of sentences, then vectors of words that predict them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusgen.config.run import RunSettings, WorkerSettings
from corpusgen.engine.cluster import available_cores, room_for
from corpusgen.engine.local import LocalExecutor
from corpusgen.engine.passes import Executor
from corpusgen.errors import ConfigError
from corpusgen.io.files import Files
from corpusgen.io.lock import held
from corpusgen.io.node_cache import cache_folder
from corpusgen.store import Store
from distiller.static.inputs import Inputs
from distiller.static.output import Made
from distiller.static.settings import StaticSettings
from distiller.static.vectors import StaticVectors
from distiller.static.x2static.checkpoint import Checkpoint, rows_of
from distiller.static.x2static.teacher import PASS, Teacher, make_sentences, open_sentences, unpacked
from distiller.static.x2static.training import train
from distiller.static.x2static.workers import Actors, CrewFor, Task, Threads

Say = Callable[[str], None]

_STATE_BYTES = 12  # per number of a vector: itself and Adam's two moments


@dataclass(frozen=True)
class X2Static:
    """The method with its settings and inputs, checked."""

    settings: StaticSettings
    inputs: Inputs

    @cached_property
    def _teacher(self) -> Teacher:
        return Teacher(self.inputs.corpus.url, self.settings.backbone, self.settings.x2static)

    @cached_property
    def _made_with(self) -> dict[str, Any]:
        return self._teacher.content()

    @property
    def content(self) -> Mapping[str, Any]:
        """Return what determines the vectors of sentences beside the settings: the frozen model and its layer."""
        return {name: self._made_with[name] for name in ("backbone", "layer", "dimension")}

    def costs(self) -> list[str]:
        """Return how much memory and disk it takes."""
        words, dimension = len(self.inputs.words), self._made_with["dimension"]
        state = words * dimension * _STATE_BYTES / 1e9
        return [
            f"{words:,} words × {dimension} dimensions × {_STATE_BYTES} bytes: {state:,.2f} GB of memory for all "
            f"workers together, twice as much on disk for two checkpoints, and {2 * dimension:,} bytes per sentence"
        ]

    def run_settings(self, gpus: int) -> RunSettings:
        """Return the workers of the frozen model: one GPU each, if there are any."""
        if gpus:
            most = min(gpus, self.settings.workers or gpus)
            return RunSettings(workers={PASS: WorkerSettings(gpus=1, max_workers=most)})
        return RunSettings(workers={PASS: WorkerSettings(max_workers=self.settings.workers)})

    def make(self, store: Store, executor: Executor, run: RunSettings, say: Say) -> Made:
        """Make the vectors of sentences and train on them, or resume either."""
        sentences, totals = make_sentences(self._teacher, executor, run, self.settings.device)
        rejected = sum(count for stage in totals.stages.values() for count in stage.rejected.values())
        say(f"vectors of {totals.rows[PASS]:,} sentences, {rejected:,} rejected: {sentences.url}")
        task = Task(self.settings.x2static, self.inputs.corpus, sentences, len(self.inputs.words), store.files)
        with held(store.files, "training", "a training of X2Static", say) as lock:
            done = train(task, self._made_with["dimension"], self._crew(executor), lock, say)
        read_as: Mapping[str, Any] = self._made_with["sentences"]
        facts = {
            **self.inputs.facts,
            "mean length of the vectors of sentences": f"{mean_length(sentences, self._made_with['dimension']):.3g}",
            "sentences": f"{totals.rows[PASS]:,}",
            "frozen model": f"{self._made_with['backbone']['id']}, layer {self._made_with['layer']}",
            "vectors of sentences": ", ".join(f"{name}: {value}" for name, value in read_as.items()),
            "steps": f"{done.step:,}",
            "loss": f"{done.history['losses'][-1]['loss']:.4f}",
        }
        return Made({"vectors": lambda: self._vectors(store.files, done)}, "X2Static word vectors", facts)

    def _crew(self, executor: Executor) -> CrewFor:
        """Return what starts the workers of the training where the executor ran the frozen model."""
        if isinstance(executor, LocalExecutor):
            workers = self.settings.workers or available_cores()
            return lambda task: Threads(task, workers)
        room = room_for(1, 0, 0)
        if (self.settings.workers or 1) > room:
            raise ConfigError(
                f"workers: {self.settings.workers}, but the cluster has {room} CPUs, and each worker needs one; choose "
                "fewer, or add nodes first"
            )
        return lambda task: Actors(task, self.settings.workers or room)

    def _vectors(self, files: Files, done: Checkpoint) -> StaticVectors:
        table = gathered(files, done, str(cache_folder(self.settings.x2static.cache)))
        return StaticVectors.of(self.inputs.words, table, self.inputs.counts)


def prepare(settings: StaticSettings, inputs: Inputs) -> X2Static:
    """Check what the method needs; raise an error for what cannot work."""
    method = X2Static(settings, inputs)
    _ = method.content  # which opens the frozen model's configuration
    return method


def mean_length(sentences: Store, dimension: int) -> float:
    """Return the mean length of some vectors of sentences: shorter ones need a higher learning rate."""
    some = next(open_sentences(sentences).batches(["context"]))
    return float(np.linalg.norm(unpacked(some["context"], dimension).astype(np.float32), axis=1).mean())


def gathered(files: Files, checkpoint: Checkpoint, folder: str) -> NDArray[np.float32]:
    """Return the vectors of all words (V, D), out of a checkpoint, piece by piece: a map of a file without a name."""
    with tempfile.TemporaryFile(dir=folder) as file:
        shape = (checkpoint.vocabulary, checkpoint.dimension)
        table: NDArray[np.float32] = np.memmap(file, np.float32, "w+", shape=shape)
    for words, state, _ in rows_of(files, checkpoint.pieces):
        table[words.start : words.stop : words.step] = state[:, 0]
    return table
