"""The settings that a store remembers, judged by the types of today's: a damaged file must not confuse its readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from corpusgen.config.build import BuildConfig
from corpusgen.config.loading import model_in
from corpusgen.errors import StoreError
from corpusgen.store import Store


def open_store(root: str) -> Store:
    """The store there; StoreError if there is no corpus, or if what it says of itself makes no sense."""
    store = Store.at(root)
    problem = _problem(BuildConfig, store.corpus().get("settings", {}), "settings")
    if problem:
        raise StoreError(f"{store.url}/corpus.json is damaged, or of another version: {problem}")
    return store


def _problem(model: type[BaseModel], values: Mapping[str, Any], path: str) -> str | None:
    """The first value of a kind that this setting cannot have. Settings that are missing or unknown are none."""
    for name, value in values.items():
        field = model.model_fields.get(name)
        if field is None:
            continue
        place, section = f"{path}.{name}", model_in(field.annotation)
        if isinstance(value, dict) and isinstance(section, type) and issubclass(section, BaseModel):
            problem = _problem(section, value, place)
        else:
            problem = None if _fits(field, value) else f"{place}: {json.dumps(value)[:80]}"
        if problem:
            return problem
    return None


def _fits(field: FieldInfo, value: Any) -> bool:
    try:
        kind: Any = Annotated[field.annotation, field]  # with its bounds
        TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        # A word that this version does not know is of the right kind.
        return isinstance(value, str) and all(problem["type"] == "literal_error" for problem in error.errors())
    return True
