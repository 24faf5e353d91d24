"""The folder of a run: its settings, the last and the best checkpoint, the logs, and in the end the model.

Every file is put in place whole or not at all, so that whatever is killed whenever, the run can go on.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from corpusgen.errors import ConfigError, StoreError
from corpusgen.store.files import open_files
from distiller.saved import CONFIG, IN_A_RUN
from distiller.settings import TrainSettings
from distiller.training import Training, Validation

_SETTINGS, _LAST, _BEST = "settings.json", "checkpoints/last.pt", "checkpoints/best.pt"
_MAY_CHANGE = {"output", "workers", "max_failures", "checkpoint_steps", "cache", "log_steps"}


@dataclass
class History:
    """What a run has said of itself so far."""

    steps: list[dict[str, float]] = field(default_factory=list)
    """Rows of mean losses, each of some steps; `step` is the last of them."""
    validations: list[dict[str, Any]] = field(default_factory=list)
    _since: dict[str, float] = field(default_factory=dict)
    """Sums since the last row, and how many steps they are of."""

    def add(self, step: int, terms: Mapping[str, float], validation: Validation | None, every: int) -> None:
        """Take note of a step."""
        values = {"steps": 1.0, "loss": sum(terms.values()), **terms}
        self._since = {name: self._since.get(name, 0.0) + value for name, value in values.items()}
        if step % every == 0 or validation:
            count = self._since.pop("steps")
            self.steps.append({"step": step, **{name: value / count for name, value in self._since.items()}})
            self._since = {}
        if validation:
            self.validations.append(asdict(validation))

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
        try:
            stored = json.loads(self.files.read(_SETTINGS))
        except ValueError:
            raise StoreError(f"{self.url}/{_SETTINGS} is damaged: give another output, or mend it by hand") from None
        different = sorted(name for name in {*stored, *content} if stored.get(name) != content.get(name))
        if different:
            raise ConfigError(
                f"{self.url} holds a run with other settings or data:\n"
                + "\n".join(f"  {name}: {stored.get(name)} there, {content.get(name)} now" for name in different)
                + "\nuse these again to go on, or give another output"
            )

    @property
    def trained(self) -> bool:
        """Whether the model is there."""
        return self.files.exists(f"{IN_A_RUN}/{CONFIG}")

    def save(self, training: Training, history: History, best: bool) -> None:
        """Write the checkpoint to go on from; first, if this is the best so far, its weights."""
        if best:
            self.files.write(_BEST, _packed({"step": training.progress.step, "model": training.model.state_dict()}))
        self.files.write(_LAST, _packed({**training.state(), "history": asdict(history)}))
        for name, rows in (("steps", history.steps), ("validations", history.validations)):
            if rows:
                self.files.write(f"{name}.csv", to_csv(rows))

    def last(self) -> bytes | None:
        """The checkpoint to go on from, as it was written."""
        return self.files.read(_LAST) if self.files.exists(_LAST) else None

    def best(self) -> tuple[int, dict[str, torch.Tensor]]:
        """The step of the best checkpoint and its weights."""
        best = unpacked(self.files.read(_BEST))
        return best["step"], best["model"]


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
