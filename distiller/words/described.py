"""Schemas of the JSON files of models and runs, which may be damaged, edited by hand, or from anywhere."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, field_validator

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
    """The first and the last layer used of the frozen model."""
    dimension: Annotated[int, Field(ge=1, le=1 << 20)]
    heads: Annotated[int, Field(ge=1, le=1 << 20)]
    dropout: Annotated[float, Field(ge=0, lt=1)]
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


class _Triples(_Described):
    parts: str
    rows: _Count
    complete: bool


class MadeOf(_Described):
    """The part of a run's `settings.json` that describes the data."""

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
    """Parse a file as `kind`; raise ValueError naming the first key that does not fit."""
    try:
        return kind.model_validate_json(data, strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise ValueError(f"{place}: {problem['msg']}" if place else problem["msg"]) from None


def as_mapping(data: bytes) -> dict[str, Any]:
    """Parse a file as a mapping with any keys; raise ValueError if it is not a mapping."""
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("not a mapping of keys to values")
    return content
