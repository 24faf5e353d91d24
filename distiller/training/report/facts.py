"""The facts on the page of a training, read from the small files in the folder of its run, not from weights."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusgen.errors import StoreError
from corpusgen.io.strict_json import from_json
from distiller.settings import TrainSettings
from distiller.training.run_folder import Columns, RunFolder
from distiller.words.described import MadeOf
from distiller.words.objective import objective_of
from distiller.words.saved import CARD, IN_A_RUN, evaluation_in

Numbers = npt.NDArray[np.float64]

_CHECKPOINTS_A_RATE = 4  # with fewer, the curve would show when validations ran rather than the speed
_MOST_RATES = 60
_STEPS = {"step", "loss"}
_VALIDATIONS = {"step", "epoch", "loss", "ordered", "cosine_positive", "cosine_negative", "cosine_unrelated"}


@dataclass(frozen=True)
class RunFacts:
    """The facts of a training as of its last checkpoint."""

    url: str
    settings: TrainSettings
    stored: Mapping[str, Any]
    """The settings in the folder of the run: only those that determine the result."""
    made_of: Mapping[str, Any]
    """The frozen model, layers and rows, identified by content."""
    steps: Columns
    validations: Columns
    progress: Mapping[str, Any]
    trained: bool
    """Whether the model has been written."""
    evaluation: str
    """The evaluation in the model's card, as Markdown."""
    made_at: float = field(default_factory=time.time)

    @classmethod
    def read(cls, run: RunFolder) -> RunFacts:
        """Read the facts of a run from its folder."""
        stored = run.started_with()
        made_of = stored.pop("made of", {})
        try:
            from_json(json.dumps(made_of).encode(), MadeOf)
            settings = from_json(json.dumps({**stored, "output": run.url}).encode(), TrainSettings)
        except ValueError as error:
            raise StoreError(
                f"another version of wicdistil made {run.url}, or its settings.json is damaged: {error}; use "
                "that version to write its report"
            ) from None
        card = f"{IN_A_RUN}/{CARD}"
        evaluation = evaluation_in(run.files.read(card).decode(errors="replace")) if run.files.exists(card) else ""
        steps, validations = run.tables()
        terms = set(objective_of(settings).term_names)
        for name, table, columns in (("steps", steps, _STEPS), ("validations", validations, _VALIDATIONS)):
            if table and (problem := _problem(table, terms | columns)):
                raise StoreError(f"{run.url}/{name}.csv is damaged: {problem}; remove it")
        return cls(run.url, settings, stored, made_of, steps, validations, run.progress(), run.trained, evaluation)

    @property
    def tables(self) -> Mapping[str, Any]:
        """Return the rows of each table that was trained on, by the name of the table."""
        one = self.made_of.get("triples")
        return self.made_of.get("tables") or ({self.settings.table or "rows": one} if one else {})

    @property
    def step(self) -> int:
        """Return the last step before the checkpoint."""
        return int(self.progress.get("step", 0) or (self.steps["step"][-1] if self.steps else 0))

    @property
    def best(self) -> dict[str, float]:
        """Return the validation after the best step so far; empty before the first validation."""
        steps: Numbers = self.validations.get("step", np.empty(0))
        rows = np.flatnonzero(steps == self.progress.get("best_step"))
        return {name: float(values[rows[0]]) for name, values in self.validations.items()} if len(rows) else {}

    @property
    def dates(self) -> tuple[float | None, float | None]:
        """Return the time of the start and the time of the last checkpoint."""
        stretches = self.progress.get("stretches")
        return (stretches[0][0][1], stretches[-1][-1][1]) if stretches else (None, None)

    @cached_property
    def rates(self) -> list[tuple[Numbers, Numbers]]:
        """Return times within each stretch, in seconds of work since the start, and rows/s between them."""
        found, worked = [], 0.0
        for stretch in self.progress.get("stretches", []):
            steps, times = np.array(stretch).T
            seconds = np.maximum.accumulate(times) - times[0]  # clocks may be set back
            if seconds[-1] > 0:
                count = int(np.clip(len(stretch) // _CHECKPOINTS_A_RATE, 1, _MOST_RATES))
                edges = np.linspace(0, seconds[-1], count + 1)
                epochs = np.diff(np.interp(edges, seconds, steps)) / self.progress["steps_per_epoch"]
                found.append((worked + edges, epochs * self.progress["trained_on"] / np.diff(edges)))
                worked += seconds[-1]
        return found

    @property
    def seconds(self) -> float:
        """Return the seconds of work."""
        return float(self.rates[-1][0][-1]) if self.rates else 0.0

    @property
    def mean_rate(self) -> float:
        """Return the mean rows/s over all seconds of work."""
        return sum(float(np.diff(edges) @ rates) for edges, rates in self.rates) / self.seconds


def _problem(table: Columns, columns: set[str]) -> str:
    """Return what is wrong with a table of a run; empty if nothing is."""
    if missing := sorted(columns - table.keys()):
        return f"it has no column {missing[0]}"
    increasing = np.isfinite(table["step"]) & (np.diff(table["step"], prepend=0) > 0)
    return "" if increasing.all() else f"steps do not increase after row {int(np.argmin(increasing))}"
