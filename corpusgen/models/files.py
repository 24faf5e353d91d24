"""Find the files of models on this machine, fetch them first if they are on S3, and hash their content.

Each node fetches and hashes once for all its workers, and keeps the results in its cache: `~/.cache/wicdistil`, or
`wicdistil` in `XDG_CACHE_HOME`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from corpusgen.errors import StageError
from corpusgen.io.atomic import write_text
from corpusgen.io.files import inside
from corpusgen.io.hashing import short_hash
from corpusgen.io.node_cache import cache_folder, local_copy, locked

if TYPE_CHECKING:
    from corpusgen.io.s3 import S3Files

S3 = "s3://"
_WHOLE = 1 << 30  # a larger file is hashed by its size and by blocks spread over it: seconds, not minutes
_BLOCK = 1 << 22
_BLOCKS = 64


def local_path(name: str) -> str:
    """Return where a file or folder is on this machine; fetch an object or a prefix of S3 if no worker here has it.

    A copy is identified by the current names, sizes and times of the objects: what has changed is fetched again.
    Copies stay until somebody removes them, like those of the model hub.
    """
    if not name.startswith(S3):
        return os.path.expanduser(name)
    files = _s3(name)
    found = sorted((info.path, info.size, info.modified) for info in files.tree())
    if not found:
        raise StageError(f"{name}: no such object, and nothing under this prefix")
    if found[0][0] == "":  # the object itself: others merely begin with the same name
        found = found[:1]
    last_step = inside(files.url.rpartition("/")[2])

    def fetch(folder: Path) -> None:
        for path, _, _ in found:
            target = folder / last_step / inside(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            files.download(path, target)

    fingerprint = json.dumps([files.url, found])
    try:
        return str(local_copy(cache_folder() / "models", fingerprint, fetch, keep_others=True) / last_step)
    except OSError as error:
        raise StageError(
            f"cannot download {name} to {cache_folder()}: {error}; choose another folder with XDG_CACHE_HOME"
        ) from error


def is_on_s3(name: str) -> bool:
    """Return whether an object or prefix exists, without fetching anything."""
    return any(True for _ in _s3(name).tree())


def _s3(name: str) -> S3Files:
    from corpusgen.io.s3 import S3Files

    return S3Files.from_url(name)


def content_hash_of(path: Path) -> str:
    """Return the hash of a file, or of all files in a folder with their names.

    It is computed once per machine, until the size or time of a file changes.
    """
    name, state = os.path.realpath(path), short_hash(json.dumps([_state(path, file) for file in _files_of(path)]))
    notes = cache_folder() / "hashes.json"
    try:
        notes.parent.mkdir(parents=True, exist_ok=True)
        with locked(notes.with_suffix(".lock")):
            known = _noted(notes)
            if name not in known or known[name]["state"] != state:
                known = {other: note for other, note in known.items() if os.path.exists(other)}
                known[name] = {"state": state, "sha256": hash_files(path)}
                write_text(notes, json.dumps(known, indent=1))
            return known[name]["sha256"]
    except OSError:  # the cache cannot be written: each worker computes the hash for itself
        return hash_files(path)


def hash_files(path: Path) -> str:
    """Compute the hash of `content_hash_of` without the cache."""
    if path.is_file():
        return _hash_of_file(path)
    digest = hashlib.sha256()
    for file in _files_of(path):
        digest.update(f"{file.relative_to(path).as_posix()} {_hash_of_file(file)}\n".encode())
    return digest.hexdigest()


def _files_of(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file, path))


def _hidden(file: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(root).parts)


def _state(root: Path, file: Path) -> tuple[str, int, int, int]:
    status = file.stat()
    return file.relative_to(root).as_posix(), status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _noted(notes: Path) -> dict[str, dict[str, str]]:
    try:
        known: dict[str, dict[str, str]] = json.loads(notes.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return known


def _hash_of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in _blocks(file, path.stat().st_size):
            digest.update(block)
    return digest.hexdigest()


def _blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    if size <= _WHOLE:
        yield from iter(partial(file.read, _BLOCK), b"")
        return
    yield str(size).encode()
    for number in range(_BLOCKS):
        file.seek(number * (size - _BLOCK) // (_BLOCKS - 1))
        yield file.read(_BLOCK)
