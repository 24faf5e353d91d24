"""The vectors of words in context that ASE takes the mean of.

Shapes: N words in context, T tables, L layers, D dimensions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusgen.errors import ConfigError, StageError
from corpusgen.models.identity import describe_hub_model
from distiller.inference.vectors import VectorMaker
from distiller.settings import BackboneSettings
from distiller.static.settings import AseSettings, StaticSettings
from distiller.words.backbone import Backbone, States, confirmed_backbone, shape_of
from distiller.words.saved import SavedModel, load_saved

VECTORS = "vectors"
"""The name of a single table."""


class Read(NamedTuple):
    """Vectors (N, T, D), and for each word the reason why it has none; such a word has zeros."""

    vectors: npt.NDArray[np.float32]
    reasons: list[str | None]


@dataclass(frozen=True)
class ReadOut:
    """Which vectors to read, checked; `open` loads the models."""

    settings: AseSettings
    backbone: BackboneSettings
    """The frozen model, with the first and the last layer to compute."""
    dimension: int
    content: Mapping[str, Any]
    """What determines the vectors: the models by their content."""

    @property
    def tables(self) -> list[str]:
        """Return the names of the tables."""
        layers = self.settings.layers
        return [VECTORS] if layers == "mean" else [f"layer_{layer}" for layer in layers]

    def open(self, device: str, threads: int | None = None) -> Reader:
        """Load the models; raise StageError if they are not those that were checked."""
        return Reader(self, device, threads)


def read_out(settings: StaticSettings) -> ReadOut:
    """Check which vectors to read, from the models' configurations alone.

    Raises:
        ConfigError: If a layer does not exist, or `backbone` is not the frozen model of the word model.
    """
    ase, backbone = settings.ase, settings.backbone
    depth = shape_of(backbone.model_copy(update={"first_layer": 0, "last_layer": None})).layers[-1]
    extra: dict[str, Any] = {}
    if ase.model is not None:
        saved = load_saved(ase.model)
        located = saved.backbone_settings(backbone.model, backbone.dtype, backbone.batch_tokens)
        backbone = saved.check_backbone(located).model_copy(update={"revision": backbone.revision})
        extra = {"model": _hash_of(saved)}
        path = os.path.expanduser(ase.model)
        if os.path.isdir(path):  # workers have their own working directory
            ase = ase.model_copy(update={"model": os.path.abspath(path)})
    elif ase.layers == "mean":
        first = 0 if backbone.first_layer is None else backbone.first_layer
        last = max(first, depth // 2) if backbone.last_layer is None else backbone.last_layer
        backbone = backbone.model_copy(update={"first_layer": first, "last_layer": last})
    else:
        wrong = [layer for layer in ase.layers if not 0 <= layer <= depth]
        if wrong:
            raise ConfigError(
                f"ase.layers: {settings.backbone.model} has no layer {wrong[0]}; it has 0, the embeddings, to {depth}"
            )
        backbone = backbone.model_copy(update={"first_layer": min(ase.layers), "last_layer": max(ase.layers)})
    layers, dimension = shape_of(backbone)
    model = describe_hub_model(backbone.model, backbone.revision)
    if "sha256" in model:
        model["id"] = Path(model["id"]).name  # a folder may move
    content = {"backbone": {**model, "dtype": backbone.dtype}, "layers": list(layers), "dimension": dimension, **extra}
    return ReadOut(ase, backbone, dimension, content)


class Reader:
    """The loaded models."""

    def __init__(self, read: ReadOut, device: str, threads: int | None) -> None:
        self._settings = read.settings
        confirmed = confirmed_backbone(read.backbone, read.content["backbone"])
        self._backbone = Backbone(confirmed, device, threads)
        self._maker = None
        if read.settings.model is not None:
            saved = load_saved(read.settings.model)
            if _hash_of(saved) != read.content["model"]:
                raise StageError(
                    f"{read.settings.model} is not the model that the run began with; give all nodes the same files"
                )
            model = saved.word_model().to(self._backbone.device).eval().requires_grad_(False)
            self._maker = VectorMaker(self._backbone, model)

    def read(self, texts: Sequence[str], spans: Sequence[tuple[int, int]]) -> Read:
        """Return the vectors of the word at each text's span. Each distinct text is read once."""
        states, reasons = self._backbone.states(texts, spans, pooling=self._settings.pieces)
        return Read(self._tables(states), reasons)

    def _tables(self, states: States) -> npt.NDArray[np.float32]:
        """Turn states (N, L, D) into vectors (N, T, D)."""
        if self._maker is not None:
            (vectors,) = self._maker.distil(states, [self._settings.of])
            return vectors[:, None]
        if self._settings.layers == "mean":
            mean: npt.NDArray[np.float32] = states.mean(axis=1, keepdims=True)
            return mean
        first = self._backbone.layers[0]
        return states[:, [layer - first for layer in self._settings.layers]]


def _hash_of(saved: SavedModel) -> str:
    return sha256(saved.weights).hexdigest()
