"""Reading YAML strictly, and comparing a manifest with the description in kuberay_fields.yaml."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FIELDS = yaml.safe_load((Path(__file__).parent / "kuberay_fields.yaml").read_text(encoding="utf-8"))
_KINDS = {"string": str, "boolean": bool, "integer": int, "number": (int, float)}
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|[KMGT]i?)?")


class StrictLoader(yaml.SafeLoader):
    """YAML in which a key that is there twice is an error: others take the last and say nothing."""


def _mapping(loader: StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise yaml.constructor.ConstructorError(None, None, f"{key!r} is there twice", node.start_mark)
    return loader.construct_mapping(node, deep=True)


StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(encoding="utf-8"), StrictLoader)


def problems(value: Any, expected: Any, path: str = "") -> Iterator[str]:
    """What a manifest has that the description does not, and the other way round."""
    if isinstance(expected, str) and expected.startswith("<"):
        expected = FIELDS[expected.strip("<>")]
    if isinstance(expected, list):
        if not isinstance(value, list):
            yield f"{path}: not a list"
            return
        for number, item in enumerate(value):
            yield from problems(item, expected[0], f"{path}[{number}]")
    elif isinstance(expected, dict):
        yield from _problems_of_mapping(value, expected, path)
    elif expected == "map":
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            yield f"{path}: not a mapping to strings"
    elif expected == "quantity":
        if not _QUANTITY.fullmatch(str(value)):
            yield f"{path}: {value!r} is not a quantity"
    elif not isinstance(value, _KINDS[expected]) or (isinstance(value, bool) and expected != "boolean"):
        yield f"{path}: {value!r} is not a {expected}"


def _problems_of_mapping(value: Any, expected: dict[str, Any], path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: not a mapping"
        return
    known = {name.rstrip("!"): kind for name, kind in expected.items()}
    for name in value:
        if name not in known:
            yield f"{path}.{name}: no such field"
        else:
            yield from problems(value[name], known[name], f"{path}.{name}")
    for name in expected:
        if name.endswith("!") and name.rstrip("!") not in value:
            yield f"{path}.{name.rstrip('!')}: missing"
