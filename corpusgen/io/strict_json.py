"""JSON of files that may be damaged, edited by hand, or from anywhere."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def to_json(value: Any) -> bytes:
    """Return readable JSON; it has escapes only if the text is not valid Unicode."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def from_json(data: bytes, kind: type[T]) -> T:
    """Read JSON as a value of this type; raise ValueError naming the first field that does not fit."""
    try:
        value: T = _adapter(cast(Any, kind)).validate_json(data, strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, problem["loc"]))
        raise ValueError(f"{key}: {problem['msg']}" if key else problem["msg"]) from None
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
