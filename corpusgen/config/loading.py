"""Functions that load settings from YAML and `--set` and report each mistake by the path of its key."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from corpusgen.config.bounded_yaml import DEEPEST, LARGEST, Refused, parse
from corpusgen.errors import ConfigError, closest, did_you_mean

Settings = TypeVar("Settings", bound=BaseModel)
_MOST_PROBLEMS = 20  # shown in one message


def load_settings(kind: type[Settings], path: str | Path, overrides: Iterable[str] = ()) -> Settings:
    """Read a YAML file and apply `key.path=value` overrides; raise ConfigError if either is wrong."""
    settings = _read_yaml(Path(path))
    for override in overrides:
        _override(settings, override)
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        found = error.errors()
        problems = [_explained(kind, problem) for problem in found[:_MOST_PROBLEMS]]
        problems += [f"and {len(found) - _MOST_PROBLEMS:,} more"] if len(found) > _MOST_PROBLEMS else []
        raise ConfigError(f"{path}:\n" + "\n".join(f"  {problem}" for problem in problems)) from None


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ConfigError(f"{path}: larger than {LARGEST:,} bytes; is this a file of settings?")
        settings = parse(data.decode())
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file{_similar_file(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    except Refused as refused:
        raise ConfigError(f"{path}: {refused}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {_shortened(str(error), 1000)}") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{path}: expected `key: value` lines, found {type(settings).__name__}")
    return settings


def _similar_file(path: Path) -> str:
    found = [str(candidate) for folder in {path.parent, Path("configs")} for candidate in folder.glob("*.yaml")]
    close = closest(str(path), found, likeness=0.4)
    return f"; did you mean {close[0]}?" if close else ""


def _override(settings: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    given = f"--set {_shortened(override)}"
    if not equals or not key:
        raise ConfigError(f"{given}: expected key.path=value, for example --set run.failure_limit=0.1")
    try:
        value = parse(text)
    except Refused as refused:
        raise ConfigError(f"{given}: {refused}") from None
    except yaml.YAMLError:
        value = text
    *parents, last = key.split(".")
    if len(parents) >= DEEPEST:
        raise ConfigError(f"{given}: more than {DEEPEST} levels deep")
    for parent in parents:
        settings = settings.setdefault(parent, {})
        if not isinstance(settings, dict):
            raise ConfigError(f"{given}: {_shortened(parent)!r} is a single value, not a section")
    settings[last] = value


def _shortened(text: str, longest: int = 200) -> str:
    """Shorten text that the user gave, to quote it in a message."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def _explained(kind: type[BaseModel], problem: Mapping[str, Any]) -> str:
    """Format a problem from pydantic as `path.of.key: what is wrong and what would be right`."""
    location = [str(step) for step in problem["loc"]]
    path = ".".join(location)
    match problem["type"]:
        case "extra_forbidden":
            known = _known_keys(kind, location[:-1])
            return f"{path}: unknown key; {did_you_mean(location[-1], known)}"
        case "missing":
            return f"{path}: missing; set it in the file or with --set {path}=…"
        case "value_error":  # raised by our own validators, with a complete message
            return f"{path}: {problem['ctx']['error']}" if path else str(problem["ctx"]["error"])
        case _:
            return f"{path}: {problem['msg'][0].lower()}{problem['msg'][1:]}, not {_shortened(repr(problem['input']))}"


def _known_keys(kind: type[BaseModel], location: Iterable[str]) -> list[str]:
    model: Any = kind
    for step in location:
        if step in getattr(model, "model_fields", {}):  # else a key in a mapping whose model is already found
            model = model_in(model.model_fields[step].annotation)
    return sorted(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []


def model_in(annotation: Any) -> Any:
    """Return the model behind `Model | None`, `dict[str, Model]` or `list[Model]`."""
    if get_origin(annotation) in (Union, types.UnionType, dict, list):
        models = [model_in(argument) for argument in get_args(annotation)]
        return next((model for model in models if isinstance(model, type) and issubclass(model, BaseModel)), None)
    return annotation
