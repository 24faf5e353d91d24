"""The course of a training: steps in all workers together, checkpoints by the first, resumed from the last good one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.io.files import Files
from corpusgen.io.lock import Lock
from corpusgen.io.node_cache import cache_folder
from corpusgen.store import Store
from corpusgen.store.products import read_vocabulary
from distiller.settings import BackboneSettings
from distiller.static.settings import SkipgramSettings
from distiller.static.skipgram.lines import CachedLines, Lines, OnlineLines
from distiller.static.skipgram.teacher import Teacher, identity
from distiller.static.skipgram.trainer import SkipgramTrainer, StepLoss
from distiller.training.checkpoints import DamagedCheckpointError, packed, unpacked
from distiller.training.data import prefetched
from distiller.training.ray_train import EndedTogetherError, by_first
from distiller.words.backbone import Backbone, confirmed_backbone

LOSSES = "loss.csv"
_CHECKPOINT = re.compile(r"checkpoints/(\d{12})\.pt")
_LOG_STEPS = 100  # per row of the table of losses, of which there are not many more than _ROWS
_ROWS = 10_000
_SHOW_SECONDS = 0.5
_KEPT = 2  # checkpoints: the last one may get damaged

Say = Callable[[str], None]
Show = Callable[[Mapping[str, Any]], object]
"""Receives progress, in the form that `distiller.training.progress.line` formats."""


@dataclass(frozen=True)
class Task:
    """What all workers of a training know."""

    settings: SkipgramSettings
    teacher: Teacher
    content: Mapping[str, Any]
    """What the vectors of words are made from."""
    states: Store | None
    """The store of these vectors; None if training makes them."""
    words: int
    """The number of words that get a vector, the most frequent ones."""
    files: Files
    """Where checkpoints are."""
    lock: Lock | None = None

    def lines(self, device: str) -> Lines:
        """Return the sentences on this node."""
        cache = cache_folder(self.settings.cache)
        if self.states is not None:
            return CachedLines(self.states, self.content["dimension"], cache)
        found: BackboneSettings = confirmed_backbone(self.teacher.one_layer(), self.content["backbone"])
        split = self.teacher.split(self.content)
        return OnlineLines(split.corpus, split, Backbone(found, device), identity(self.content), cache)


@dataclass
class Losses:
    """The mean losses of stretches of steps; `step` is the last of each."""

    rows: list[dict[str, float]] = field(default_factory=list)
    every: int = _LOG_STEPS
    """Steps of a stretch."""
    _since: list[StepLoss] = field(default_factory=list)

    def add(self, step: int, loss: StepLoss, is_last: bool) -> None:
        """Record the losses of a step."""
        self._since.append(loss)
        if step % self.every == 0 or is_last:
            self.close(step)

    def close(self, step: int) -> None:
        """End a stretch: a checkpoint follows."""
        if self._since:
            names = ("targets", "negatives")
            terms = {name: sum(getattr(one, name) for one in self._since) / len(self._since) for name in names}
            self.rows.append({"step": step, "loss": sum(terms.values()), **terms})
        self._since = []

    def table(self) -> bytes:
        """Return them as CSV."""
        lines = [f"{row['step']},{row['loss']!r},{row['targets']!r},{row['negatives']!r}" for row in self.rows]
        return "\n".join(["step,loss,targets,negatives", *lines, ""]).encode()


def checkpoints(files: Files) -> list[str]:
    """Return the paths of checkpoints, the newest first."""
    return sorted((info.path for info in files.list("checkpoints") if _CHECKPOINT.fullmatch(info.path)), reverse=True)


def newest(files: Files, say: Say = lambda line: None) -> str | None:
    """Return the path of the newest checkpoint that is not damaged; None if there is none."""
    for path in checkpoints(files):
        try:
            unpacked(files.read(path))
        except DamagedCheckpointError as error:
            say(f"{files.url}/{path} is damaged ({error}); using the one before it")
        else:
            return path
    return None


def save(files: Files, trainer: SkipgramTrainer, losses: Losses) -> None:
    """Write a checkpoint, then remove those that are no longer needed."""
    state = {**trainer.state(), "losses": losses.rows}
    files.write(f"checkpoints/{trainer.steps:012}.pt", packed(state))
    files.write(LOSSES, losses.table())
    for path in checkpoints(files)[_KEPT:]:
        files.delete(path)


def train_part(config: dict[str, Any]) -> CorpusgenError | None:
    """Train in a worker of Ray Train; return the error that a retry would not help."""
    import ray.train
    from ray.train.torch import get_device

    context = ray.train.get_context()
    try:
        rank, workers = context.get_world_rank(), context.get_world_size()
        train(config["task"], rank, workers, str(get_device()), print, config["board"].show.remote)
    except EndedTogetherError as end:
        return end.problem
    except ConfigError as error:  # all workers raise the same
        return error
    return None


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: the last bits of its sums depend on their number, and so would those of a restart."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def train(task: Task, rank: int, workers: int, device: str, say: Say, show: Show) -> None:
    """Train to the end from the last checkpoint on, in step with other workers of the process group, if any."""
    settings = task.settings
    assert settings.checkpoint_steps is not None
    _, counts = read_vocabulary(task.teacher.corpus)
    trainer = SkipgramTrainer(settings, counts[: task.words], task.lines(device), rank, workers, device)
    every = max(_LOG_STEPS, trainer.last_step // _ROWS)
    losses = Losses(every=every)
    if path := by_first(rank, workers, task.files.url, lambda: newest(task.files, say)):
        state = unpacked(task.files.read(path))
        losses = Losses(list(state["losses"]), every)
        trainer.load_state(state)
        del state  # a second table

    def saved() -> None:
        if task.lock:
            task.lock.check()
        save(task.files, trainer, losses)

    began, shown, words = trainer.steps, time.monotonic(), 0
    if began and rank == 0:
        say(f"resuming from the checkpoint at step {began:,}")
    for step, loss in _steps(trainer):
        is_last = step == trainer.last_step
        losses.add(step, loss, is_last)
        words += loss.words
        now = time.monotonic()
        if rank == 0 and (now - shown > _SHOW_SECONDS or is_last) and losses.rows:
            terms = {name: losses.rows[-1][name] for name in ("targets", "negatives")}
            epoch, rate = step / trainer.steps_per_epoch, words / max(1e-9, now - shown)
            news = {"step": step, "last_step": trainer.last_step, "epoch": epoch, "terms": terms, "rate": rate}
            show({**news, "counted": "words", "validation": {}})
            shown, words = now, 0
        if is_last or step % settings.checkpoint_steps == 0:
            losses.close(step)
            by_first(rank, workers, task.files.url, saved)


def _steps(trainer: SkipgramTrainer) -> Iterator[tuple[int, StepLoss]]:
    """Do all steps that are left; a thread prepares the next batches meanwhile."""
    for batch in prefetched(trainer.batch(step) for step in range(trainer.steps, trainer.last_step)):
        loss = trainer.train(batch)
        yield trainer.steps, loss


def finished(files: Files) -> dict[str, Any]:
    """Return the state of the final checkpoint."""
    path = newest(files)
    assert path is not None
    return unpacked(files.read(path))
