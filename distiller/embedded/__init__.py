"""Word models inside this package, named `embedded:NAME` wherever the folder or hub id of a saved model is accepted.

Each has a folder here, as `distiller train` writes it; its README.md says what it was trained on and how good it is.
"""

from __future__ import annotations

from pathlib import Path

from corpusgen.errors import ConfigError, did_you_mean
from corpusgen.models.embedded import PREFIX

HERE = Path(__file__).parent


def folder_of(name: str) -> str:
    """Return the folder of an embedded word model; raise ConfigError if there is none of this name."""
    known = sorted(PREFIX + config.parent.name for config in HERE.glob("*/config.json"))
    if name not in known:
        raise ConfigError(f"{name}: no such word model in this package; {did_you_mean(name, known)}")
    return str(HERE / name.removeprefix(PREFIX))
