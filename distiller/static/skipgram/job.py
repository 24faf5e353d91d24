"""Dynamic skip-gram as a method of `distiller static`: vectors of words in context, then the training on them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from corpusgen.config.run import RunSettings, WorkerSettings
from corpusgen.engine.cluster import available_cores
from corpusgen.engine.local import LocalExecutor
from corpusgen.engine.parts import part_records, row_slices
from corpusgen.engine.passes import Executor
from corpusgen.errors import ConfigError
from corpusgen.io.lock import held
from corpusgen.io.node_cache import cache_folder
from corpusgen.models.encoders import choose_device
from corpusgen.store import Store
from distiller.static.inputs import Inputs
from distiller.static.output import Made
from distiller.static.room import check_room, on_one_disk
from distiller.static.settings import StaticSettings
from distiller.static.skipgram.teacher import PASS, Teacher, make_words, words_store
from distiller.static.skipgram.training import Task, finished, train, train_part
from distiller.static.vectors import StaticVectors
from distiller.training.progress import board, line
from distiller.training.ray_train import EndedTogetherError, explained, fit, gpus

Say = Callable[[str], None]

_SAY_SECONDS = 15.0
_STATE_BYTES = 16  # per number of a vector: itself, and a checkpoint of it that is read


@dataclass(frozen=True)
class Skipgram:
    """The method with its settings and inputs, checked."""

    settings: StaticSettings
    inputs: Inputs

    @cached_property
    def _teacher(self) -> Teacher:
        return Teacher(self.inputs.corpus.url, len(self.inputs.words), self.settings.backbone, self.settings.skipgram)

    @cached_property
    def _made_with(self) -> dict[str, Any]:
        return self._teacher.content()

    @property
    def content(self) -> Mapping[str, Any]:
        """Return what determines the vectors of words beside the settings: the frozen model and its layer."""
        return {name: self._made_with[name] for name in ("backbone", "layer", "dimension")}

    def costs(self) -> list[str]:
        """Return how much memory and disk it takes."""
        own, words, tokens = self.settings.skipgram, len(self.inputs.words), int(self.inputs.counts.sum())
        state = words * own.dimension * _STATE_BYTES / 1e9
        lines = [f"{words:,} words × {own.dimension} dimensions: {state:,.2f} GB of memory for each worker"]
        if own.teacher == "cached":
            stored = f"{self._bytes_of_states / 1e9:,.2f} GB"
            lines.append(
                f"at most {tokens:,} tokens × {2 * self._made_with['dimension']:,} bytes: {stored} of vectors beside "
                "the corpus, and a copy on each node; teacher: online stores none"
            )
        return lines

    def run_settings(self, gpus: int) -> RunSettings:
        """Return the workers of the frozen model: one GPU each, if there are any."""
        if gpus:
            most = min(gpus, self.settings.workers or gpus)
            return RunSettings(workers={PASS: WorkerSettings(gpus=1, max_workers=most)})
        return RunSettings(workers={PASS: WorkerSettings(max_workers=self.settings.workers)})

    def make(self, store: Store, executor: Executor, run: RunSettings, say: Say) -> Made:
        """Make the vectors of words and train on them, or resume either."""
        own, states, facts = self.settings.skipgram, None, {}
        if not isinstance(executor, LocalExecutor):
            self._workers()  # what cannot work is said before the frozen model has read for hours
        if own.teacher == "cached":
            self._check_room()
            states, totals = make_words(self._teacher, executor, run, self.settings.device)
            rejected = sum(count for stage in totals.stages.values() for count in stage.rejected.values())
            say(f"vectors of the words of {totals.rows[PASS]:,} sentences, {rejected:,} rejected: {states.url}")
            facts = {"sentences": f"{totals.rows[PASS]:,}"}
        with held(store.files, "training", "a training of dynamic skip-gram", say) as lock:
            task = Task(own, self._teacher, self._made_with, states, len(self.inputs.words), store.files, lock)
            self._train(task, executor, say)
            done = finished(store.files)
        form = ("centre", "attention", "negatives_per", "optimizer", "rare_words")
        facts |= {
            **self.inputs.facts,
            "frozen model": f"{self._made_with['backbone']['id']}, layer {self._made_with['layer']}",
            "form": ", ".join(f"{name}: {getattr(own, name)}" for name in form),
            "steps": f"{done['step']:,}",
            "loss": f"{done['losses'][-1]['loss']:.4f}",
        }
        table = done["table"].numpy()
        vectors = StaticVectors.of(self.inputs.words, table, self.inputs.counts)
        return Made({"vectors": lambda: vectors}, "dynamic skip-gram word vectors", facts)

    @property
    def _bytes_of_states(self) -> int:
        """Return how many bytes the vectors of all words have at most."""
        return int(self.inputs.counts.sum()) * int(self._made_with["dimension"]) * 2

    def _check_room(self) -> None:
        """Raise StoreError if a local disk is too small for the vectors that are not there yet, or for their copy."""
        store = words_store(self.inputs.corpus.url, self._made_with)
        units = len(row_slices(part_records(self.inputs.paragraphs), self.settings.skipgram.unit_paragraphs))
        left = 1 - len(store.pass_store(PASS).committed()) / max(1, units)
        remedy = "use skipgram.teacher: online, which stores none"
        cache, needed = str(cache_folder(self.settings.skipgram.cache)), self._bytes_of_states
        both = needed * (left + on_one_disk(store.url, cache))
        check_room(store.url, both, "vectors of words and their copy on this node", remedy)
        check_room(cache, needed, "a copy of the vectors of words", remedy)

    def _train(self, task: Task, executor: Executor, say: Say) -> None:
        """Train where the executor ran the frozen model."""
        if isinstance(executor, LocalExecutor):
            try:
                train(task, 0, 1, str(choose_device(self.settings.device)), say, Lines(say))
            except EndedTogetherError as end:
                raise explained(end.problem) from end
            return
        with board() as shown:
            config = {"task": task, "board": shown}
            problem = fit(train_part, config, self._workers(), self.settings.skipgram.max_failures, self._gpus() > 0)
        if problem:
            raise explained(problem)

    def _workers(self) -> int:
        """Return how many workers train together; raise ConfigError if there is no room or no work for them."""
        import ray

        room = self._gpus() or int(ray.cluster_resources().get("CPU", 0))
        if not self._gpus() and len(ray.nodes()) == 1:
            room = min(room, available_cores())
        lines = self.settings.skipgram.batch_lines
        assert lines is not None
        workers = self.settings.workers or min(room, lines)
        if workers > room:
            raise ConfigError(f"workers: {workers}, but the cluster has room for {room}; choose fewer")
        return workers

    def _gpus(self) -> int:
        return 0 if self.settings.device == "cpu" else gpus()


class Lines:
    """Says the progress of a training, but not too often."""

    def __init__(self, say: Say) -> None:
        self._say, self._said = say, time.monotonic()

    def __call__(self, news: Mapping[str, Any]) -> None:
        """Take news of a step."""
        if time.monotonic() - self._said > _SAY_SECONDS or news["step"] == news["last_step"]:
            self._said = time.monotonic()
            self._say(line(news))


def prepare(settings: StaticSettings, inputs: Inputs) -> Skipgram:
    """Check what the method needs; raise an error for what cannot work."""
    own = settings.skipgram
    if own.cache is not None:  # workers have their own working directory
        cache = os.path.abspath(os.path.expanduser(own.cache))
        settings = settings.model_copy(update={"skipgram": own.model_copy(update={"cache": cache})})
    if own.batch_lines is not None and (settings.workers or 1) > own.batch_lines:
        raise ConfigError(
            f"workers: {settings.workers}, but skipgram.batch_lines: {own.batch_lines}: each worker needs a sentence "
            "of a step; use fewer workers, or larger steps with skipgram.optimizer: adagrad"
        )
    method = Skipgram(settings, inputs)
    _ = method.content  # which opens the frozen model's configuration
    return method
