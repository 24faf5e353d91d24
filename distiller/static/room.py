"""Whether a disk has room for what a method is about to write."""

from __future__ import annotations

import shutil
from pathlib import Path

from corpusgen.errors import StoreError


def check_room(url: str, needed: float, what: str, remedy: str) -> None:
    """Raise StoreError if a store on a local disk needs more bytes than are free; other stores are not checked."""
    if "://" in url:
        return
    free = shutil.disk_usage(next(folder for folder in (Path(url), *Path(url).parents) if folder.exists())).free
    if free < needed:
        raise StoreError(
            f"{url}: {what} may need {needed / 1e9:,.2f} GB, but only {free / 1e9:,.2f} GB are free on this disk; free "
            f"some space, or {remedy}"
        )
