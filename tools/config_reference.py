"""Write docs/configuration.md from the types of the settings; `--check` only says whether it is up to date.

python tools/config_reference.py [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from corpusgen.config.build import BuildConfig
from distiller.settings import TrainSettings
from distiller.static.output import MAY_CHANGE as MAY_CHANGE_IN_STATIC
from distiller.static.settings import StaticSettings
from distiller.training.run_folder import _MAY_CHANGE

TARGET = Path(__file__).parents[1] / "docs" / "configuration.md"
INTRODUCTION = """\
# Configuration

<!-- Made by tools/config_reference.py from the types of the settings: change them there, then run it again. -->

Every key of the three kinds of YAML files, with its type, its default and its meaning. `--set key.path=value` changes
any of them on the command line, and `--show-config` prints those that a command would use. An unknown key, or a value
of the wrong type, is an error that names the key before anything is started. How to choose them:
[how-to.md](how-to.md).
"""
SIMPLE = {str: "string", int: "integer", float: "number", bool: "`true` or `false`"}
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def reference() -> str:
    """The whole document."""
    minimal = BuildConfig.model_validate({"store": ".", "source": {"kind": "text", "paths": ["."]}})
    later = {f"{path}.{name}" for path, section in _sections(BuildConfig) for name in section.added_later}
    # A corpus also records its recipe, and a section that only other recipes use as soon as it is not the default.
    of_others = {name: getattr(minimal, name).content() for name in ("discourse", "paragraphs")}
    recorded = {"recipe": minimal.recipe, **of_others, **minimal.content()}
    left_out = _left_out(minimal.model_dump(mode="json"), recorded)
    where_and_how = ", ".join(f"`{path}`" for path in left_out if path not in later)
    may_change = ", ".join(f"`{name}`" for name in TrainSettings.model_fields if name in _MAY_CHANGE)
    return "\n".join(
        [
            INTRODUCTION,
            "## Builds: `corpusgen build CONFIG`\n",
            f"{_docstring(BuildConfig)} To resume a build, give the same settings; only these may have changed: "
            f"{where_and_how}.\n",
            *_tables(BuildConfig),
            "## Trainings: `distiller train CONFIG`\n",
            f"{_docstring(TrainSettings)} To resume a training, give the same settings; only these may have changed: "
            f"{may_change}.\n",
            *_tables(TrainSettings),
            "## Static vectors: `distiller static CONFIG`\n",
            f"{_docstring(StaticSettings)} To resume, give the same settings; only these may have changed: "
            f"{', '.join(f'`{name}`' for name in StaticSettings.model_fields if name in MAY_CHANGE_IN_STATIC)}, "
            "and the place of the frozen model.\n",
            *_tables(StaticSettings),
        ]
    )


def _tables(model: type[BaseModel]) -> Iterator[str]:
    """The table of a model, and those of the sections below it, each model once."""
    yield _table(model)
    sections: dict[type[BaseModel], list[str]] = {}
    for path, section in _sections(model):
        sections.setdefault(section, []).append(path)
    for section, paths in sections.items():
        yield f"### {', '.join(f'`{path}`' for path in paths)}\n"
        yield f"{_docstring(section)}\n"
        yield _table(section)


def _sections(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        if section := _model_in(field.annotation):
            below = f"{path}{name}" + (".STAGE" if get_origin(field.annotation) is dict else "")
            yield below, section
            yield from _sections(section, f"{below}.")


def _table(model: type[BaseModel]) -> str:
    rows = ["| key | type | default | |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        section = _model_in(field.annotation)
        description = field.description or (_docstring(section) if section else "")
        if not description:
            raise SystemExit(f"{model.__name__}.{name} has no description")
        cells = (f"`{name}`", _type(field), _default(model, name, field), description.replace("<", r"\<"))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _docstring(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _type(field: FieldInfo) -> str:
    bounds = [f"{sign} {getattr(m, name)}" for m in field.metadata for name, sign in BOUNDS.items() if hasattr(m, name)]
    name, *rest = _name(field.annotation).partition(" or `null`")
    return f"{name} {', '.join(bounds)}".strip() + "".join(rest)


def _name(annotation: Any) -> str:
    arguments = get_args(annotation)
    match get_origin(annotation):
        case None:
            return SIMPLE.get(annotation, "section")
        case origin if origin is Literal:
            return ", ".join(f"`{value}`" for value in arguments)
        case origin if origin in (Union, types.UnionType):
            return " or ".join("`null`" if kind is types.NoneType else _name(kind) for kind in arguments)
        case origin if origin is list:
            return f"list of {_name(arguments[0])}s"
        case _:
            return f"{_name(arguments[1])} for each name"


def _default(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined:
        return ""
    others = [
        f" ({preset}: `{json.dumps(value)}`)"
        for preset, values in _presets(model).items()
        if (value := values[name]) != field.default and name != "preset"
    ]
    return f"`{json.dumps(field.default)}`" + "".join(others)


def _presets(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """The defaults by the key `preset`, if there is one."""
    preset = model.model_fields.get("preset")
    has_defaults = not any(field.is_required() for field in model.model_fields.values())
    names = get_args(preset.annotation) if preset and has_defaults else ()
    return {name: model.model_validate({"preset": name}).model_dump(mode="json") for name in names}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The section behind `Section`, `Section | None` or `dict[str, Section]`."""
    kinds = get_args(annotation) or (annotation,)
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _left_out(whole: Mapping[str, Any], content: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in whole.items():
        if name not in content:
            yield path + name
        elif isinstance(value, dict):
            yield from _left_out(value, content[name], f"{path}{name}.")


def main() -> None:
    """Write the document, or exit with 1 if it should be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if it is out of date")
    wanted = reference()
    if not parser.parse_args().check:
        TARGET.write_text(wanted, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != wanted:
        sys.exit("docs/configuration.md is out of date: python tools/config_reference.py")


if __name__ == "__main__":
    main()
