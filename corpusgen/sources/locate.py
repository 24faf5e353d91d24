"""Input files: finding them by path or glob, on disk or S3, and opening them for reading."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corpusgen.errors import ConfigError, StoreUnavailableError
from corpusgen.store.files import open_files

_RAYS_COPIES = "/runtime_resources/working_dir_files/"


@dataclass(frozen=True)
class SourceFile:
    """A file as it was when the build was planned. Size and time of change are part of a unit's identity."""

    path: str
    size: int
    modified: int

    def record(self, **what: Any) -> dict[str, Any]:
        """The record of a unit that reads some of this file."""
        return {"path": self.path, "size": self.size, "modified": self.modified, **what}


def find_files(patterns: Sequence[str]) -> list[SourceFile]:
    """The files that the patterns name, each once, in the order of the patterns and then of their names."""
    found: dict[str, SourceFile] = {}
    for pattern in patterns:
        files = _find_s3(pattern) if pattern.startswith("s3://") else _find_local(pattern)
        if not files:
            raise ConfigError(f"source.paths: {pattern}: no such file")
        for file in files:
            found.setdefault(file.path, file)
    return list(found.values())


def _find_local(pattern: str) -> list[SourceFile]:
    paths = sorted(path for path in glob.glob(os.path.expanduser(pattern), recursive=True) if os.path.isfile(path))
    return [SourceFile(path, os.stat(path).st_size, _changed(path)) for path in paths]


def _changed(path: str) -> int:
    """When a file changed; of one that went with a Ray job, a number that is another one if its content is.

    Each time Ray unpacks a job's folder, on a new head or for the job that is submitted again, its files have the time
    of the unpacking. They are few and small: a job takes no large ones.
    """
    if _RAYS_COPIES not in os.path.realpath(path):
        return os.stat(path).st_mtime_ns
    with open(path, "rb") as file:
        return int.from_bytes(hashlib.file_digest(file, "sha256").digest()[:7])


def _find_s3(pattern: str) -> list[SourceFile]:
    folder, _, name = pattern.rpartition("/")
    return [
        SourceFile(f"{folder}/{info.path}", info.size, int(info.modified * 1e9))
        for info in open_files(folder).list("")
        if fnmatch.fnmatchcase(info.path, name)
    ]


def open_binary(path: str) -> io.BufferedReader:
    """The bytes of a file, seekable."""
    if not path.startswith("s3://"):
        return open(path, "rb")
    folder, _, name = path.rpartition("/")
    return io.BufferedReader(_RemoteFile(open_files(folder).open(name), path), 1 << 20)


class _RemoteFile(io.RawIOBase):
    """A remote file whose network errors cannot be mistaken for a damaged archive."""

    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self._path = path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any, /) -> int:
        try:
            data = self._file.read(len(buffer))
        except OSError as error:
            raise StoreUnavailableError(f"{self._path} cannot be read: {error}") from error
        buffer[: len(data)] = data
        return len(data)
