"""Lookup of plug-ins from other packages, which settings name as `package.module:NAME`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Mapping
from typing import TypeVar

from corpusgen.errors import ConfigError, did_you_mean

Part = TypeVar("Part")
_IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_import_path(name: str) -> bool:
    """Return whether a name has the form of an import path, `package.module:NAME`."""
    return _IMPORT_PATH.fullmatch(name) is not None


def check_name(name: str, known: Collection[str]) -> str:
    """Return the name if it is known or an import path; otherwise raise ValueError listing the known names."""
    if name in known or is_import_path(name):
        return name
    raise ValueError(f"{name!r} is unknown; {did_you_mean(name, known)}; to use your own, give package.module:NAME")


def find_part(name: str, known: Mapping[str, Part], kind: type[Part], setting: str) -> Part:
    """Return the part that a setting names: a known one, or an object imported from another package.

    Raise ConfigError, which names the setting, if there is no such part or it is not of type `kind`.
    """
    if name in known:
        return known[name]
    if not is_import_path(name):
        raise ConfigError(f"{setting}: {name!r} is unknown; {did_you_mean(name, known)}")
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{setting}: cannot import {name}: {error}; install its package on every machine that takes part"
        ) from error
    if not isinstance(found, kind):
        raise ConfigError(f"{setting}: {name} is a {type(found).__name__}, not a {kind.__module__}.{kind.__name__}")
    return found
