"""Functions that write the output files of commands, and check before hours of work that this is possible."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.io.atomic import replacing


def check_target(path: str) -> None:
    """Raise ConfigError unless `path` can be written as a file in an existing folder."""
    target = Path(path)
    if target.is_dir() or path.endswith("/"):
        raise ConfigError(f"{path} is a folder; give a file name")
    if not target.parent.is_dir():
        raise ConfigError(f"{path}: no such folder: {target.parent}; create it first")
    written = [target] if target.exists() else []
    if not _is_special(target):  # the file is made beside it and renamed
        written.append(target.resolve().parent)
    if not all(os.access(changed, os.W_OK) for changed in written):
        raise ConfigError(f"{path}: no permission to write there")


@contextmanager
def output_file(path: str) -> Iterator[Path]:
    """Yield the name under which to write a file that appears at `path` once it is complete.

    It takes over the permissions of a file that it replaces. If `path` is a link, it replaces the file behind it. A
    pipe or a device is written to directly: a file must not replace it.
    """
    target = Path(path)
    try:
        if _is_special(target):
            yield target
            return
        target = target.resolve()
        with replacing(target) as temporary:
            if target.exists():
                temporary.touch()
                shutil.copymode(target, temporary)  # before it has any content to read
            yield temporary
    except OSError as error:
        raise CorpusgenError(f"{path}: {error.strerror or error}") from error


def write_text(path: str, text: str) -> None:
    """Write a file of UTF-8 text."""
    with output_file(path) as file:
        file.write_text(text, encoding="utf-8")


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()
