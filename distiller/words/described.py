"""Schemas of the JSON files of models and runs, which may be damaged, edited by hand, or from anywhere."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator

_Count = Annotated[int, Field(ge=0, le=10**15)]
_Number = Annotated[int, Field(ge=1, le=10**15)]
_Layer = Annotated[int, Field(ge=0, le=1000)]
_Time = Annotated[float, Field(ge=0, le=1e11)]  # seconds since the epoch, within the range of dates that can be written
_Text = Annotated[str, Field(min_length=1)]


class _Described(BaseModel):
    """Base of the schemas. It ignores unknown keys, because other versions have other keys."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())


class _FrozenModel(_Described):
    model: _Text
    revision: _Text | None = None
    sha256: _Text | None = None


class _TrainedWith(_Described):
    corpus: str
    negatives: bool
    standardise: bool = False
    table: _Text | None = None


class _Validated(_Described):
    step: _Count
    epoch: FiniteFloat
    loss: FiniteFloat
    cosine_positive: FiniteFloat
    cosine_negative: FiniteFloat | None
    ordered: FiniteFloat | None
    """None if no held-out row has another word as positive. Models without `differing` counted all rows."""
    cosine_unrelated: FiniteFloat
    ordered_frozen: FiniteFloat | None = None
    differing: _Count | None = None


class _Residual(_Described):
    head: Literal["linear", "transformer"]
    base_layers: Annotated[int, Field(ge=1, le=1001)]
    strength: Annotated[float, Field(ge=0, le=1)]


class ModelConfig(_Described):
    """The `config.json` of a word model."""

    format: _Number
    backbone: _FrozenModel
    layers: tuple[_Layer, _Layer]
    """The first and the last layer used of the frozen model."""
    dimension: Annotated[int, Field(ge=1, le=1 << 20)]
    heads: Annotated[int, Field(ge=1, le=1 << 20)]
    dropout: Annotated[float, Field(ge=0, lt=1)]
    residual: _Residual | None = None
    """How the distillers correct the frozen model's own vector; None if they replace it, as in the paper."""
    training: _TrainedWith
    validation: _Validated
    weights_sha256: _Text | None = None
    """Hash of the weights file; models of earlier versions have none."""

    @field_validator("layers")
    @classmethod
    def _in_order(cls, layers: tuple[int, int]) -> tuple[int, int]:
        if layers[0] > layers[1]:
            raise ValueError(f"the first layer, {layers[0]}, is above the last, {layers[1]}")
        return layers


class _Backbone(_Described):
    sha256: str | None = None
    revision: str | None = None


class _Rows(_Described):
    parts: str
    rows: _Count
    complete: bool


class MadeOf(_Described):
    """The part of a run's `settings.json` that describes the data."""

    backbone: _Backbone = _Backbone()
    layers: Annotated[list[_Layer], Field(min_length=1)] | None = None
    triples: _Rows | None = None
    """The rows of one table, of any kind; the key is from version 0.1, whose rows were all triples."""
    tables: dict[str, _Rows] = {}
    """The rows of each table of a training on several."""


class RunProgress(_Described):
    """The `progress.json` of a run."""

    step: _Count
    best_step: _Count
    waited: _Count
    finished: bool
    last_step: _Number
    steps_per_epoch: _Number
    trained_on: _Count
    held_out: _Count
    left_out: _Count = 0  # version 0.1 did not write it
    workers: _Number
    stretches: list[Annotated[list[tuple[_Count, _Time]], Field(min_length=1)]]


def as_mapping(data: bytes) -> dict[str, Any]:
    """Parse a file as a mapping with any keys; raise ValueError if it is not a mapping."""
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("not a mapping of keys to values")
    return content
