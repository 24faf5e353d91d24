"""Checks of the settings in a store against the types of this version, so that a damaged file confuses no reader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from corpusgen.config.build import BuildConfig
from corpusgen.config.loading import model_in
from corpusgen.errors import CorpusgenError, StoreError
from corpusgen.store import Store


def open_store(root: str) -> Store:
    """Open the store; raise StoreError if it holds no corpus, or if its settings make no sense."""
    store = Store.at(root)
    problem = _problem(BuildConfig, store.corpus().get("settings", {}), "settings")
    if problem:
        raise StoreError(f"{store.url}/corpus.json is damaged or was written by another version: {problem}")
    return store


def recorded_config(url: str, corpus: Mapping[str, Any]) -> BuildConfig:
    """Return the settings of a corpus; raise CorpusgenError if this version does not understand them."""
    try:
        return BuildConfig.model_validate({**corpus.get("settings", {}), "store": url})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CorpusgenError(f"{url}/corpus.json: settings of another version: {where}: {first['msg']}") from None


def _problem(model: type[BaseModel], values: Mapping[str, Any], path: str) -> str | None:
    """Return the first value that its setting cannot have; None if all fit. Missing and unknown settings pass."""
    for name, value in values.items():
        field = model.model_fields.get(name)
        if field is None:
            continue
        key, section = f"{path}.{name}", model_in(field.annotation)
        if isinstance(value, dict) and isinstance(section, type) and issubclass(section, BaseModel):
            problem = _problem(section, value, key)
        else:
            problem = None if _fits(field, value) else f"{key}: {json.dumps(value)[:80]}"
        if problem:
            return problem
    return None


def _fits(field: FieldInfo, value: Any) -> bool:
    try:
        kind: Any = Annotated[field.annotation, field]  # the type with its bounds
        TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        # A string that this version does not know as a choice is still of the right type.
        return isinstance(value, str) and all(problem["type"] == "literal_error" for problem in error.errors())
    return True
