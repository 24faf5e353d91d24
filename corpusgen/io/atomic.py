"""Functions that write files and folders so that they appear under their name only when complete.

Data is written under a temporary name beside the target, on the same disk, so that one rename puts it in place: a
reader sees either the old content or the new one. `LocalFiles` has its own, stricter protocol.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from corpusgen.io.files import TEMPORARY_PREFIX


@contextmanager
def temporary_path(target: Path) -> Iterator[Path]:
    """Yield an unused name beside the target for a file or folder; remove whatever still has that name at the end."""
    temporary = _beside(target)
    try:
        yield temporary
    finally:
        _remove(temporary)


@contextmanager
def replacing(target: Path, durable: bool = False) -> Iterator[Path]:
    """Yield a temporary name for a file that replaces the target at the end of the block.

    If the block fails, the target stays unchanged. With `durable`, the content is on disk before the rename, so that a
    power cut leaves no empty file.
    """
    with temporary_path(target) as temporary:
        yield temporary
        if durable:
            _sync(temporary)
        os.replace(temporary, target)


def write_bytes(target: Path, data: bytes, durable: bool = False) -> None:
    """Write a whole file, replacing any old one."""
    with replacing(target, durable) as temporary:
        temporary.write_bytes(data)


def write_text(target: Path, text: str, durable: bool = False) -> None:
    """Write a whole file of UTF-8 text, replacing any old one."""
    write_bytes(target, text.encode(), durable)


def replace_folder(finished: Path, target: Path) -> None:
    """Rename a finished folder to the target's name and remove the old folder.

    A folder cannot be replaced in one step, so the old one gets a temporary name first. If the finished folder cannot
    take its place, the old one is renamed back; if that fails too, it keeps its temporary name.
    """
    before = _beside(target)
    try:
        if target.exists():
            os.rename(target, before)
        os.rename(finished, target)
    except BaseException:
        with suppress(OSError):
            os.rename(before, target)
        raise
    _remove(before)


def _beside(target: Path) -> Path:
    """Return a unique name in the target's folder, hidden because a killed process leaves its file behind."""
    return target.absolute().parent / f"{TEMPORARY_PREFIX}{target.name}-{secrets.token_hex(6)}"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _sync(path: Path) -> None:
    with path.open("r+b") as file:  # some systems sync only files open for writing
        os.fsync(file.fileno())
