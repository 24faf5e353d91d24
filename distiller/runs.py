"""The folder of a run: its settings, the last and the best checkpoint, the logs, and in the end the model.

Every file is put in place whole or not at all, so that whatever is killed whenever, the run can go on.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from corpusgen.errors import ConfigError, StoreError
from corpusgen.store.files import open_files
from distiller.saved import CONFIG, IN_A_RUN
from distiller.settings import TrainSettings
from distiller.training import Training, Validation

_SETTINGS, _LAST, _BEST = "settings.json", "checkpoints/last.pt", "checkpoints/best.pt"
_STEPS, _VALIDATIONS, _PROGRESS = "steps.csv", "validations.csv", "progress.json"
_MAY_CHANGE = {"output", "workers", "max_failures", "checkpoint_steps", "cache", "log_steps"}

Columns = dict[str, npt.NDArray[np.float64]]
"""The columns of a table."""


@dataclass
class History:
    """What a run has said of itself so far."""

    steps: list[dict[str, float]] = field(default_factory=list)
    """Rows of mean losses, each of some steps; `step` is the last of them."""
    validations: list[dict[str, Any]] = field(default_factory=list)
    stretches: list[list[tuple[int, float]]] = field(default_factory=list)
    """Work without a break: the step and the time at its beginning and at each of its checkpoints."""
    _since: dict[str, float] = field(default_factory=dict)
    """Sums since the last row, and how many steps they are of."""
    _unread: list[Mapping[str, float]] = field(default_factory=list)
    """Losses of the last steps, not looked at yet."""

    def add(self, step: int, terms: Mapping[str, float], validation: Validation | None, every: int) -> None:
        """Take note of a step."""
        self._unread.append(terms)
        if step % every == 0 or validation:
            self._read()
            count = self._since.pop("steps")
            self.steps.append({"step": step, **{name: value / count for name, value in self._since.items()}})
            self._since = {}
        if validation:
            self.validations.append(asdict(validation))

    def _read(self) -> None:
        for terms in self._unread:
            values = {"steps": 1.0, "loss": sum(terms.values()), **terms}
            self._since = {name: self._since.get(name, 0.0) + value for name, value in values.items()}
        self._unread = []

    def begin(self, step: int) -> None:
        """Take note of when work begins, or goes on after a break."""
        self.stretches.append([(step, time.time())])

    def mark(self, step: int) -> None:
        """Take note of when a step was done, with all that is known of it: a checkpoint follows."""
        self._read()
        self.stretches[-1].append((step, time.time()))

    def validation_of(self, step: int) -> dict[str, Any]:
        """What held-out triples said after a step."""
        return next(validation for validation in self.validations if validation["step"] == step)


class RunFolder:
    """A run on disk or S3."""

    def __init__(self, output: str) -> None:
        self.files = open_files(output)
        self.url = self.files.url

    def ensure_same(self, settings: TrainSettings, data: Mapping[str, Any]) -> None:
        """Start a run, or see that the one that is here was started with the same settings on the same data."""
        content = {**settings.model_dump(mode="json", exclude=_MAY_CHANGE), **data}
        if self.files.create(_SETTINGS, json.dumps(content, indent=1).encode()):
            return
        stored = self.started_with()
        different = sorted(name for name in {*stored, *content} if stored.get(name) != content.get(name))
        if different:
            raise ConfigError(
                f"{self.url} holds a run with other settings or data:\n"
                + "\n".join(f"  {name}: {stored.get(name)} there, {content.get(name)} now" for name in different)
                + "\nuse these again to go on, or give another output"
            )

    def started_with(self) -> dict[str, Any]:
        """The settings, and what it is made of."""
        try:
            stored: dict[str, Any] = json.loads(self.files.read(_SETTINGS))
        except FileNotFoundError:
            raise ConfigError(f"{self.url} holds no run: give the `output` of a training") from None
        except ValueError:
            raise StoreError(f"{self.url}/{_SETTINGS} is damaged: give another output, or mend it by hand") from None
        return stored

    def tables(self) -> tuple[Columns, Columns]:
        """The losses of training and what held-out triples said, up to the last checkpoint."""
        steps, validations = (
            _columns(self.files.read(name)) if self.files.exists(name) else {} for name in (_STEPS, _VALIDATIONS)
        )
        return steps, validations

    def progress(self) -> dict[str, Any]:
        """How far it was at the last checkpoint; nothing before the first."""
        progress: dict[str, Any] = json.loads(self.files.read(_PROGRESS)) if self.files.exists(_PROGRESS) else {}
        return progress

    @property
    def trained(self) -> bool:
        """Whether the model is there."""
        return self.files.exists(f"{IN_A_RUN}/{CONFIG}")

    def save(self, training: Training, history: History, best: bool) -> None:
        """Write the checkpoint to go on from; first, if this is the best so far, its weights."""
        if best:
            self.files.write(_BEST, _packed({"step": training.progress.step, "model": training.model.state_dict()}))
        history.mark(training.progress.step)
        self.files.write(_LAST, _packed({**training.state(), "history": asdict(history)}))
        for name, rows in ((_STEPS, history.steps), (_VALIDATIONS, history.validations)):
            if rows:
                self.files.write(name, to_csv(rows))
        self.files.write(_PROGRESS, json.dumps(_progress(training, history)).encode())

    def last(self) -> bytes | None:
        """The checkpoint to go on from, as it was written."""
        return self.files.read(_LAST) if self.files.exists(_LAST) else None

    def best(self) -> tuple[int, dict[str, torch.Tensor]]:
        """The step of the best checkpoint and its weights."""
        best = unpacked(self.files.read(_BEST))
        return best["step"], best["model"]


def _progress(training: Training, history: History) -> dict[str, Any]:
    """What the tables do not tell."""
    progress = asdict(training.progress)
    del progress["best_loss"]  # infinite at first, which is no JSON; the table of validations has it
    return {
        **progress,
        "last_step": training.last_step,
        "steps_per_epoch": training.steps_per_epoch,
        **training.sizes,
        "workers": training.workers,
        "stretches": history.stretches,
    }


def _packed(state: Mapping[str, Any]) -> bytes:
    data = io.BytesIO()
    torch.save(state, data)
    return data.getvalue()


def unpacked(data: bytes) -> dict[str, Any]:
    """What a checkpoint holds."""
    state: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return state


class TensorBoard:
    """The same figures for TensorBoard: `tensorboard --logdir RUN/tensorboard`."""

    def __init__(self, output: str, first_step: int) -> None:
        from tensorboardX import SummaryWriter

        self._files = open_files(output)
        self._remote = "://" in self._files.url
        self._temporary = tempfile.TemporaryDirectory() if self._remote else None
        self._folder = Path(self._temporary.name if self._temporary else f"{self._files.url}/tensorboard")
        # What a killed run wrote after the checkpoint that this one goes on from is hidden.
        self._writer = SummaryWriter(str(self._folder), purge_step=first_step + 1)
        self._written = first_step

    def write(self, history: History, validation: Validation | None) -> None:
        """Write what is new in the history."""
        for row in itertools.takewhile(lambda row: row["step"] > self._written, reversed(history.steps)):
            self._scalars("training", row, int(row["step"]))
        self._written = int(history.steps[-1]["step"]) if history.steps else self._written
        if validation:
            self._scalars("held_out", {**asdict(validation), **validation.terms}, validation.step)

    def _scalars(self, group: str, values: Mapping[str, Any], step: int) -> None:
        for name, value in values.items():
            if isinstance(value, float):
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def flush(self) -> None:
        """Make it visible."""
        self._writer.flush()
        if self._remote:
            for path in self._folder.iterdir():
                self._files.write(f"tensorboard/{path.name}", path.read_bytes())


def to_csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A table, the terms of a validation as columns of their own."""
    flat = [{**row, **row.get("terms", {})} for row in rows]
    text = io.StringIO()
    names = [name for name in flat[0] if name != "terms"]
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue().encode()


def _columns(table: bytes) -> Columns:
    names, *rows = table.decode().splitlines()
    return dict(zip(names.split(","), np.loadtxt(rows, delimiter=",", ndmin=2).T, strict=True))


def loss_curve(history: History, best: Mapping[str, Any]) -> bytes:
    """A picture of the losses."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="step", ylabel="loss", yscale="log")
    for rows, label in ((history.steps, "training"), (history.validations, "held out")):
        axes.plot([row["step"] for row in rows], [row["loss"] for row in rows], label=label)
    axes.plot(best["step"], best["loss"], "o", color="black", markersize=4, label="best")
    axes.legend()
    return png(figure)


def png(figure: Any) -> bytes:
    """A figure of matplotlib as a PNG file."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()
