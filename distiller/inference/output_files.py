"""The files that commands write. Whether they can be written is seen before hours of work, not after."""

from __future__ import annotations

import os
from pathlib import Path

from corpusgen.errors import ConfigError, CorpusgenError


def check_target(path: str) -> None:
    """ConfigError unless it can be a file, in a folder that is there."""
    target = Path(path)
    if target.is_dir() or path.endswith("/"):
        raise ConfigError(f"{path} is a folder: give the name of a file in it")
    if not target.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {target.parent}; make it first")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise ConfigError(f"{path}: no permission to write there")


def write_text(path: str, text: str) -> None:
    """Write a file."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CorpusgenError(f"{path}: {error.strerror or error}") from error
