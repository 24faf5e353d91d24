"""What the JSON files of models and runs must say. They come from anywhere, and may be damaged or edited by hand."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator

from corpusgen.store.records import from_json

_Count = Annotated[int, Field(ge=0, le=10**15)]
_Number = Annotated[int, Field(ge=1, le=10**15)]
_Layer = Annotated[int, Field(ge=0, le=1000)]
_Time = Annotated[float, Field(ge=0, le=1e11)]  # seconds since the epoch, of a date that can be written
_Text = Annotated[str, Field(min_length=1)]


class _Described(BaseModel):
    """Keys that are not known stay unread: other versions have others."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())


class _FrozenModel(_Described):
    model: _Text
    revision: _Text | None = None
    sha256: _Text | None = None


class _TrainedWith(_Described):
    corpus: str
    negatives: bool
    standardise: bool = False


class _Validated(_Described):
    step: _Count
    epoch: FiniteFloat
    loss: FiniteFloat
    cosine_positive: FiniteFloat
    cosine_negative: FiniteFloat
    ordered: FiniteFloat
    cosine_unrelated: FiniteFloat


class ModelConfig(_Described):
    """The `config.json` of a word model."""

    format: _Number
    backbone: _FrozenModel
    layers: tuple[_Layer, _Layer]
    """The first and the last of the frozen model's."""
    dimension: Annotated[int, Field(ge=1, le=1 << 20)]
    heads: Annotated[int, Field(ge=1, le=1 << 20)]
    dropout: Annotated[float, Field(ge=0, lt=1)]
    training: _TrainedWith
    validation: _Validated
    weights_sha256: _Text | None = None
    """Of the file with the weights; models of earlier versions have none."""

    @field_validator("layers")
    @classmethod
    def _in_order(cls, layers: tuple[int, int]) -> tuple[int, int]:
        if layers[0] > layers[1]:
            raise ValueError(f"the first layer, {layers[0]}, is above the last, {layers[1]}")
        return layers


class _Backbone(_Described):
    sha256: str | None = None
    revision: str | None = None


class _Triples(_Described):
    parts: str
    rows: _Count
    complete: bool


class MadeOf(_Described):
    """What the `settings.json` of a run says of the data."""

    backbone: _Backbone = _Backbone()
    layers: Annotated[list[_Layer], Field(min_length=1)] | None = None
    triples: _Triples | None = None


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
    workers: _Number
    stretches: list[Annotated[list[tuple[_Count, _Time]], Field(min_length=1)]]


Kind = TypeVar("Kind", bound=BaseModel)


def described(data: bytes, kind: type[Kind]) -> Kind:
    """Read a file; ValueError names the first key that does not fit."""
    return from_json(data, kind)


def as_mapping(data: bytes) -> dict[str, Any]:
    """Read a file with keys of any kind; ValueError if there are none."""
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("not a mapping of keys to values")
    return content
