"""The folder of a run: its settings, the last two checkpoints, the logs, and finally the model.

Every file is written whole or not at all, so a run can resume whenever any process is killed.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from corpusgen.errors import ConfigError, StoreError
from corpusgen.io.files import open_files
from corpusgen.io.strict_json import from_json
from distiller.settings import TrainSettings
from distiller.training.checkpoints import DamagedCheckpointError, packed, unpacked
from distiller.training.loop import Training, Validation
from distiller.words.described import RunProgress, as_mapping
from distiller.words.saved import CONFIG, IN_A_RUN

_SETTINGS, _LAST, _PREVIOUS = "settings.json", "checkpoints/last.pt", "checkpoints/previous.pt"
_OLDER_BEST = "checkpoints/best.pt"  # from earlier versions, whose checkpoints did not hold the best weights
_STEPS, _VALIDATIONS, _PROGRESS = "steps.csv", "validations.csv", "progress.json"
_LARGEST = 1e30  # the largest number accepted in a table
_MAY_CHANGE = {"output", "workers", "max_failures", "checkpoint_steps", "cache", "log_steps"}

Columns = dict[str, npt.NDArray[np.float64]]
"""The columns of a table by name."""

log = logging.getLogger(__name__)


@dataclass
class History:
    """The history of a run: its losses, validations and times."""

    steps: list[dict[str, float]] = field(default_factory=list)
    """Rows of mean losses, each over several steps; `step` is the last of them."""
    validations: list[dict[str, Any]] = field(default_factory=list)
    stretches: list[list[tuple[int, float]]] = field(default_factory=list)
    """Stretches of uninterrupted work: the step and the time at its start and at each of its checkpoints."""
    _since: dict[str, float] = field(default_factory=dict)
    """Sums of losses since the last row, and the number of steps in them."""
    _unread: list[Mapping[str, float]] = field(default_factory=list)
    """Losses of the last steps that are not in the sums yet."""

    def add(self, step: int, terms: Mapping[str, float], validation: Validation | None, every: int) -> None:
        """Record a step."""
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
        """Record the time at which work begins, or resumes after a break."""
        self.stretches.append([(step, time.time())])

    def mark(self, step: int) -> None:
        """Record the time at which a step was done, and add up pending losses; a checkpoint follows."""
        self._read()
        self.stretches[-1].append((step, time.time()))

    def validation_of(self, step: int) -> dict[str, Any]:
        """Return the validation after a step."""
        return next(validation for validation in self.validations if validation["step"] == step)


def _defaults() -> dict[str, Any]:
    fields = {name: found for name, found in TrainSettings.model_fields.items() if name not in _MAY_CHANGE}
    optional = {name: found for name, found in fields.items() if not found.is_required()}
    values = {name: found.get_default(call_default_factory=True) for name, found in optional.items()}
    return {
        name: value.model_dump(mode="json") if isinstance(value, BaseModel) else value for name, value in values.items()
    }


def _completed(stored: Any, defaults: Any) -> Any:
    """Return stored settings; those that did not exist in the version that began the run have their defaults."""
    if not isinstance(stored, dict) or not isinstance(defaults, dict):
        return stored
    return defaults | {name: _completed(value, defaults.get(name)) for name, value in stored.items()}


def _as_begun(stored: dict[str, Any]) -> dict[str, Any]:
    """Return stored settings with those of which the default is not what earlier versions did."""
    contrast = stored.get("contrast")
    if stored.get("objective") == "contrast" and isinstance(contrast, dict):
        return {**stored, "contrast": {"sentence_temperature": None, **contrast}}
    return stored


class RunFolder:
    """A run on disk or S3."""

    def __init__(self, output: str) -> None:
        self.files = open_files(output)
        self.url = self.files.url

    def ensure_same(self, settings: TrainSettings, data: Mapping[str, Any]) -> None:
        """Start a run; raise ConfigError if the folder holds one with other settings or data."""
        content = {**settings.model_dump(mode="json", exclude=_MAY_CHANGE), **data}
        if self.files.create(_SETTINGS, json.dumps(content, indent=1).encode()):
            return
        stored = _completed(self.started_with(), _defaults())
        different = sorted(name for name in {*stored, *content} if stored.get(name) != content.get(name))
        if different:
            raise ConfigError(
                f"{self.url} holds a run with different settings or data:\n"
                + "\n".join(f"  {name}: {stored.get(name)} there, {content.get(name)} now" for name in different)
                + "\nuse the stored ones to resume, or choose another `output`"
            )

    def started_with(self) -> dict[str, Any]:
        """Return the settings of the run and what it is made from."""
        try:
            return _as_begun(as_mapping(self.files.read(_SETTINGS)))
        except FileNotFoundError:
            raise ConfigError(f"{self.url} does not hold a run; give the `output` of a training") from None
        except ValueError as error:
            raise StoreError(
                f"{self.url}/{_SETTINGS} is damaged ({error}); choose another `output`, or repair the file by hand"
            ) from None

    def tables(self) -> tuple[Columns, Columns]:
        """Return the tables of training losses and of validations, up to the last checkpoint."""
        return self._table(_STEPS), self._table(_VALIDATIONS)

    def _table(self, name: str) -> Columns:
        if not self.files.exists(name):
            return {}
        with self._damage_named(name):
            return _columns(self.files.read(name))

    def progress(self) -> dict[str, Any]:
        """Return the progress at the last checkpoint; empty before the first."""
        if not self.files.exists(_PROGRESS):
            return {}
        with self._damage_named(_PROGRESS):
            return from_json(self.files.read(_PROGRESS), RunProgress).model_dump()

    @contextmanager
    def _damage_named(self, name: str) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise StoreError(
                f"{self.url}/{name} is damaged: {error}; remove it: the next checkpoint writes it again"
            ) from None

    @property
    def trained(self) -> bool:
        """Return whether the model has been written."""
        return self.files.exists(f"{IN_A_RUN}/{CONFIG}")

    def save(self, training: Training, history: History) -> None:
        """Write a checkpoint to resume from. The one before it is kept, in case this one gets damaged."""
        history.mark(training.progress.step)
        checkpoint = packed({**training.state(), "history": asdict(history)})
        if self.files.exists(_LAST):
            self.files.copy(_LAST, _PREVIOUS)
        self.files.write(_LAST, checkpoint)
        for name, rows in ((_STEPS, history.steps), (_VALIDATIONS, history.validations)):
            if rows:
                self.files.write(name, to_csv(rows))
        self.files.write(_PROGRESS, json.dumps(_progress(training, history)).encode())

    def last(self, say: Callable[[str], None] = log.warning) -> bytes | None:
        """Return the checkpoint to resume from, for `unpacked`; None before the first.

        The one before it replaces a damaged or missing checkpoint, and `say` reports this.
        """
        damaged: list[str] = []
        for name in (_LAST, _PREVIOUS):
            try:
                data, state = self._checkpoint(name)
            except FileNotFoundError:
                continue
            except DamagedCheckpointError as error:
                damaged.append(f"{self.url}/{name} is damaged: {error}")
                continue
            if name == _PREVIOUS:
                lost = damaged[0] if damaged else f"{self.url}/{_LAST} is missing"
                say(f"{lost}; resuming from the previous checkpoint, at step {state['progress']['step']:,}")
                # Otherwise the next save would first overwrite the good checkpoint with the damaged one.
                self.files.copy(_PREVIOUS, _LAST)
            return data if "best" in state else packed({**state, "best": self._older_best(state, say)})
        if damaged:
            raise StoreError(
                "\n".join(damaged) + f"\nthere is no other checkpoint to resume from; remove {self.url}/checkpoints to "
                "train from the beginning"
            )
        return None

    def _checkpoint(self, name: str) -> tuple[bytes, dict[str, Any]]:
        """Return the bytes of a checkpoint and its state; raise DamagedCheckpointError if it cannot be read."""
        data = self.files.read(name)
        try:
            return data, unpacked(data)
        except DamagedCheckpointError:
            raise
        except Exception as error:
            raise DamagedCheckpointError(f"torch cannot read it ({type(error).__name__})") from error

    def _older_best(self, state: Mapping[str, Any], say: Callable[[str], None]) -> Any:
        """Return the best weights of a run that an earlier version began; None if there are none or they are lost."""
        step = state["progress"]["best_step"]
        if step == state["progress"]["step"]:
            return state["model"]
        try:
            _, best = self._checkpoint(_OLDER_BEST)
            if best["step"] == step:
                return best["model"]
            problem = f"of step {best['step']:,}, not of step {step:,}"
        except FileNotFoundError:
            problem = "missing"
        except DamagedCheckpointError as error:
            problem = f"damaged: {error}"
        if step:
            say(f"{self.url}/{_OLDER_BEST} is {problem}; looking for the best weights again from here on")
        return None


def _progress(training: Training, history: History) -> dict[str, Any]:
    """Return the progress that the tables do not contain."""
    progress = asdict(training.progress)
    del progress["best_loss"]  # infinite at first, which JSON cannot hold; the table of validations has it
    return {
        **progress,
        "last_step": training.last_step,
        "steps_per_epoch": training.steps_per_epoch,
        **training.sizes,
        "workers": training.workers,
        "stretches": history.stretches,
    }


def to_csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as a CSV table; the terms of a validation become columns."""
    flat = [{**row, **row.get("terms", {})} for row in rows]
    text = io.StringIO()
    # Rows of an earlier version, before a restart, may lack columns.
    names = [name for name in dict.fromkeys(name for row in flat for name in row) if name != "terms"]
    writer = csv.DictWriter(text, names, restval="nan", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue().encode()


def _columns(table: bytes) -> Columns:
    """Parse the columns of a table; raise ValueError if a training did not write it."""
    names, *rows = table.decode().splitlines() or [""]
    if not rows:
        raise ValueError("it has no rows")
    values = np.loadtxt(rows, delimiter=",", ndmin=2, comments=None)
    if (np.abs(values[np.isfinite(values)]) > _LARGEST).any():
        raise ValueError("it has numbers that no training can produce")
    return dict(zip(names.split(","), values.T, strict=True))
