"""Copies of data on a node's own disk: made once for all workers of the node, read by each.

A copy is a folder whose list of files, sizes and hashes, written last, is there and right; one that a crash left
unfinished, or whose files are not what they were, is made again. Whoever uses a copy holds a lock, and copies that
nobody uses make way for a new one: a cache that only grows would fill the disk with the layer states of every training
there ever was.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from corpusgen.errors import StageError
from corpusgen.io.hashing import short_hash

_COMPLETE = "complete.json"
_NAME = re.compile("[0-9a-f]{16}")
_in_use: dict[Path, IO[str]] = {}  # locks, held as long as the process lives


def cache_folder(chosen: str | None = None) -> Path:
    """Where copies go: the chosen folder, or that of the user's caches."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen).expanduser() if chosen else Path(base) / "wicdistil"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Of all processes of a machine that come here one at a time; the system takes the lock from one that dies."""
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def local_copy(
    cache: str | Path,
    fingerprint: str,
    make: Callable[[Path], None],
    keep_others: bool = False,
    hashed: Collection[str] = (),
) -> Path:
    """The folder with the copy of what `fingerprint` names; `make` fills it if it is not there.

    Of all workers of a node one makes it while the others wait. With `keep_others` no copy ever makes way. The content
    of the files named in `hashed` is compared each time with what it was; of the others only the size is.
    """
    copy = Path(cache) / short_hash(fingerprint)
    copy.parent.mkdir(parents=True, exist_ok=True)
    with locked(copy.with_suffix(".lock")):
        if not _is_whole(copy, fingerprint, hashed):
            if not keep_others:
                _remove_unused(copy)
            _fill(copy, fingerprint, make, hashed)
        if copy not in _in_use:
            used = open(copy.with_suffix(".used"), "w")  # noqa: SIM115 (held as long as the process lives)
            fcntl.flock(used, fcntl.LOCK_SH)
            _in_use[copy] = used
    return copy


def discard(copy: Path) -> None:
    """Have a copy that is damaged made again by the next that asks for it; who uses it now may go on."""
    with locked(copy.with_suffix(".lock")):
        (copy / _COMPLETE).unlink(missing_ok=True)


def _fill(copy: Path, fingerprint: str, make: Callable[[Path], None], hashed: Collection[str]) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    try:
        make(copy)
        sizes = {path.relative_to(copy).as_posix(): path.stat().st_size for path in _files_in(copy)}
        for name in sizes:
            with open(copy / name, "rb") as file:
                os.fsync(file.fileno())
        partial = copy / "partial"
        partial.write_text(json.dumps({"of": fingerprint, "sizes": sizes, "sha256": _hashes(copy, hashed)}))
        os.replace(partial, copy / _COMPLETE)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        written = sum(path.stat().st_size for path in _files_in(copy))
        raise StageError(
            f"no room in {copy.parent} for a local copy (full after {written / 1e9:.1f} GB): free some space or "
            "choose a folder on a larger local disk, with the setting `cache` or with XDG_CACHE_HOME"
        ) from error
    finally:
        if not (copy / _COMPLETE).exists():
            shutil.rmtree(copy, ignore_errors=True)


def _files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _hashes(copy: Path, names: Collection[str]) -> dict[str, str]:
    hashes = {}
    for name in names:
        with open(copy / name, "rb") as file:
            hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def _is_whole(copy: Path, fingerprint: str, hashed: Collection[str]) -> bool:
    try:
        described = json.loads((copy / _COMPLETE).read_text())
        sizes = {name: (copy / name).stat().st_size for name in described["sizes"]}
        if described["of"] != fingerprint or described["sizes"] != sizes:
            return False
        return not hashed or bool(described["sha256"] == _hashes(copy, hashed))
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _remove_unused(wanted: Path) -> None:
    """Remove the copies that nobody makes or uses, and nothing else: the folder may be one that the user named.

    A copy is known by its locks. They stay: two workers must never hold different ones.
    """
    for used_lock in wanted.parent.glob("*.used"):
        other = used_lock.with_suffix("")
        if other == wanted or not _NAME.fullmatch(other.name) or not other.with_suffix(".lock").exists():
            continue
        with open(other.with_suffix(".lock"), "w") as making, open(other.with_suffix(".used"), "w") as used:
            try:
                for lock in (making, used):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(other, ignore_errors=True)
