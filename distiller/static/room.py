"""Whether a disk has room for what a method is about to write."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from corpusgen.errors import StoreError


def check_room(url: str, needed: float, what: str, remedy: str) -> None:
    """Raise StoreError if a store on a local disk needs more bytes than are free; other stores are not checked."""
    if "://" in url:
        return
    free = shutil.disk_usage(_existing(url)).free
    if free < needed:
        raise StoreError(
            f"{url}: {what} may need {needed / 1e9:,.2f} GB, but only {free / 1e9:,.2f} GB are free on this disk; free "
            f"some space, or {remedy}"
        )


def on_one_disk(url: str, other: str) -> bool:
    """Return whether two folders, which need not exist yet, are on one local disk."""
    return "://" not in url + other and os.stat(_existing(url)).st_dev == os.stat(_existing(other)).st_dev


def _existing(path: str) -> Path:
    return next(folder for folder in (Path(path).absolute(), *Path(path).absolute().parents) if folder.exists())
