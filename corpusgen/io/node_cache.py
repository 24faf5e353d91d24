"""A cache of data on a node's own disk: each copy is made once for all workers of the node.

A copy is a folder with a list of its files, sizes and hashes, written last. A copy that a crash left unfinished, or
whose files have changed, is made again. Each user of a copy holds a lock, and unused copies make way for a new one: a
cache that only grows would fill the disk with the layer states of every past training.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import portalocker
from portalocker import LockFlags

from corpusgen.errors import StageError
from corpusgen.io.atomic import write_text
from corpusgen.io.hashing import short_hash

_COMPLETE = "complete.json"
_NAME = re.compile("[0-9a-f]{16}")
_in_use: dict[Path, IO[bytes]] = {}  # locks, held as long as the process lives


def cache_folder(chosen: str | None = None) -> Path:
    """Return the folder for copies: the chosen one, or one in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen).expanduser() if chosen else Path(base) / "wicdistil"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Admit one process of this machine at a time to the block; the system releases the lock if it dies."""
    with open(path, "ab") as lock:
        _lock(lock, LockFlags.EXCLUSIVE)
        yield


def _lock(file: IO[bytes], flags: LockFlags) -> None:
    """Lock an open file; raise BlockingIOError if a NON_BLOCKING lock is taken, OSError if it cannot be locked."""
    while True:
        try:
            portalocker.lock(file, flags)
            return
        except portalocker.AlreadyLocked as error:
            if flags & LockFlags.NON_BLOCKING:
                raise BlockingIOError(errno.EAGAIN, str(error), file.name) from error
            # Windows waits for ten seconds only: wait again.
        except portalocker.LockException as error:
            raise OSError(errno.ENOLCK, str(error), file.name) from error


def local_copy(
    cache: str | Path,
    fingerprint: str,
    make: Callable[[Path], None],
    keep_others: bool = False,
    hashed: Collection[str] = (),
) -> Path:
    """Return the folder with the copy of what `fingerprint` names; call `make` to fill it if it does not exist.

    One worker of a node makes the copy while the others wait. With `keep_others`, no other copy is removed for it. Each
    call checks the content of the files named in `hashed`, and only the size of the others.
    """
    copy = Path(cache) / short_hash(fingerprint)
    copy.parent.mkdir(parents=True, exist_ok=True)
    with locked(copy.with_suffix(".lock")):
        if not _is_whole(copy, fingerprint, hashed):
            if not keep_others:
                _remove_unused(copy)
            _fill(copy, fingerprint, make, hashed)
        if copy not in _in_use:
            used = open(copy.with_suffix(".used"), "ab")  # noqa: SIM115 (held as long as the process lives)
            _lock(used, LockFlags.SHARED)
            _in_use[copy] = used
    return copy


def discard(copy: Path) -> None:
    """Mark a copy as damaged: the next request makes it again, and current users may go on."""
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
        described = {"of": fingerprint, "sizes": sizes, "sha256": _hashes(copy, hashed)}
        write_text(copy / _COMPLETE, json.dumps(described))
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
    """Remove the copies that no process makes or uses, and nothing else: the user may have chosen the folder.

    A copy is recognised by its lock files. They stay, because two workers must never hold different ones.
    """
    for used_lock in wanted.parent.glob("*.used"):
        other = used_lock.with_suffix("")
        if other == wanted or not _NAME.fullmatch(other.name) or not other.with_suffix(".lock").exists():
            continue
        with open(other.with_suffix(".lock"), "ab") as making, open(other.with_suffix(".used"), "ab") as used:
            try:
                for lock in (making, used):
                    _lock(lock, LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING)
            except BlockingIOError:
                continue
            shutil.rmtree(other, ignore_errors=True)
