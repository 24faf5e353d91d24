"""What the suite runs on: the text and the models of the quickstart, all from packages, so that anyone can run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.models.encoders import model_path
from corpusgen.store import CommittedTable, Store
from distiller.quickstart import settings

Span = tuple[int, int]


@dataclass
class Parts:
    """A store with targets, and the models to make triples of them."""

    config: BuildConfig
    store: Store
    targets: list[dict[str, Any]]

    @property
    def texts(self) -> list[str]:
        """The sentences of the targets."""
        return [target["text"] for target in self.targets]

    @property
    def spans(self) -> list[Span]:
        """Where the targets stand in them."""
        return [(target["target_start"], target["target_end"]) for target in self.targets]

    @property
    def model(self) -> str:
        """The folder of the masked language model, which is the frozen model too."""
        assert self.config.masked
        return model_path(self.config.masked.model, "masked language model")


def prepare(folder: str, targets: int, **sections: dict[str, Any]) -> Parts:
    """A store in the folder with so many targets; `sections` replace values of the settings' sections."""
    torch.set_num_threads(1)
    given = settings(folder, targets)[0].model_dump(mode="json")
    changed = {name: {**given[name], **values} for name, values in sections.items()}
    config = BuildConfig.model_validate({**given, **changed})
    store = build(config, LocalExecutor(), until="sample")
    rows = CommittedTable(store, "sample", "targets").to_table().to_pylist()
    return Parts(config, store, rows)
