"""Find input files by path or glob, on disk or S3, and open them for reading."""

from __future__ import annotations

import errno
import fnmatch
import functools
import glob
import hashlib
import io
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from corpusgen.errors import ConfigError, CorpusgenError, SourceChangedError, StoreUnavailableError
from corpusgen.io.files import open_files

_RAYS_COPIES = "/runtime_resources/working_dir_files/"
_REFUSED = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP)
_SECOND = 1_000_000_000
_HEAD_PRECISION = _SECOND  # a listing may give a more precise time than the answer to HEAD
_LOCAL_BUFFER = 1 << 16
_REMOTE_BUFFER = 1 << 20  # each is a request


@dataclass(frozen=True)
class SourceFile:
    """A file as it was when the build was planned. Size and time of change are part of a unit's identity."""

    path: str
    size: int
    modified: int

    def record(self, **what: Any) -> dict[str, Any]:
        """Return the record of a unit that reads some of this file."""
        return {"path": self.path, "size": self.size, "modified": self.modified, **what}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> SourceFile:
        """Return the file that a unit's record is about."""
        return cls(record["path"], record["size"], record["modified"])


def find_files(patterns: Sequence[str]) -> list[SourceFile]:
    """Return the files that the patterns name, each once, in the order of the patterns and then of their names."""
    found: dict[str, SourceFile] = {}
    for pattern in patterns:
        files = _find_s3(pattern) if pattern.startswith("s3://") else _find_local(pattern)
        if not files:
            raise ConfigError(f"source.paths: {pattern}: no such file")
        for file in files:
            # `a.txt` and `./a.txt` are one file.
            found.setdefault(file.path if "://" in file.path else os.path.abspath(file.path), file)
    return list(found.values())


def _find_local(pattern: str) -> list[SourceFile]:
    paths = sorted(path for path in glob.glob(os.path.expanduser(pattern), recursive=True) if os.path.isfile(path))
    for path in paths:
        try:
            path.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"source.paths: {path!a}: the name is not UTF-8; rename the file") from error
    return [SourceFile(path, os.stat(path).st_size, _changed(path)) for path in paths]


def _changed(path: str) -> int:
    """Return when a file changed; for a file shipped with a Ray job, a number that changes with its content.

    Each time Ray unpacks a job's folder, on a new head or for a job that is submitted again, its files get the time
    of unpacking. They are few and small: a job ships no large ones.
    """
    status = os.stat(path)
    if _RAYS_COPIES not in os.path.realpath(path):
        return status.st_mtime_ns
    return _content_number(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=1000)
def _content_number(path: str, size: int, modified: int) -> int:
    """Return a number made from the content; a file of the same size and time is not read again."""
    with open(path, "rb") as file:
        return int.from_bytes(hashlib.file_digest(file, "sha256").digest()[:7])


def _find_s3(pattern: str) -> list[SourceFile]:
    folder, _, name = pattern.rpartition("/")
    return [
        SourceFile(f"{folder}/{info.path}", info.size, int(info.modified * _SECOND))
        for info in open_files(folder).list("")
        if fnmatch.fnmatchcase(info.path, name)
    ]


def open_binary(path: str) -> io.BufferedReader:
    """Open a file as seekable bytes. Failed reads raise StoreUnavailableError or SourceChangedError, not OSError."""
    if not path.startswith("s3://"):
        return io.BufferedReader(_Bytes(open(path, "rb", buffering=0), path), _LOCAL_BUFFER)
    folder, _, name = path.rpartition("/")
    return io.BufferedReader(_Bytes(open_files(folder).open(name), path), _REMOTE_BUFFER)


class _Bytes(io.RawIOBase):
    """A file whose errors, from the disk or the network, cannot be mistaken for those of a damaged archive."""

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
            return int(self._file.readinto(buffer))
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def close(self) -> None:
        self._file.close()
        super().close()


class OpenSource:
    """A file that a unit reads, with checks that it is the planned one from beginning to end."""

    def __init__(self, planned: SourceFile) -> None:
        self.planned = planned
        self._tag: str | None = None
        self.check()
        try:
            self.file = open_binary(planned.path)
        except OSError as error:
            raise _unreadable(planned.path, error) from error

    def check(self) -> None:
        """Raise SourceChangedError unless the file is as the plan says and as it was when it was opened."""
        planned = self.planned
        try:
            size, modified, tag = self._remote_state() if self._is_remote else self._local_state()
        except OSError as error:
            raise _unreadable(planned.path, error) from error
        moved = abs(modified - planned.modified) >= (_HEAD_PRECISION if self._is_remote else 1)
        if size != planned.size:
            problem = f"it has {size:,} bytes and had {planned.size:,} before"
        elif moved:
            problem = "it was rewritten or touched: its modification time has changed"
        elif self._tag not in (None, tag):
            problem = "it was rewritten while it was being read"
        else:
            self._tag = tag
            return
        raise SourceChangedError(f"{planned.path} has changed since this build was planned: {problem}; {_REMEDY}")

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def _is_remote(self) -> bool:
        return self.planned.path.startswith("s3://")

    def _local_state(self) -> tuple[int, int, str]:
        return os.stat(self.planned.path).st_size, _changed(self.planned.path), ""

    def _remote_state(self) -> tuple[int, int, str]:
        info, tag = self._folder.describe(self.planned.path.rpartition("/")[2])
        return info.size, int(info.modified * _SECOND), tag

    @functools.cached_property
    def _folder(self) -> Any:
        return open_files(self.planned.path.rpartition("/")[0])


@contextmanager
def opened(planned: SourceFile) -> Iterator[io.BufferedReader]:
    """Open a planned file; raise SourceChangedError, at the beginning or at the end, if it is not that file."""
    source = OpenSource(planned)
    try:
        yield source.file
        source.check()
    finally:
        source.close()


_REMEDY = "put the file back as it was and run the same command again, or build into a new store"


def _unreadable(path: str, error: OSError) -> CorpusgenError:
    """Return the error for a failed read: the machine is at fault, not the bytes.

    A file that is gone or refused stops a build; anything else may pass.
    """
    where = "" if path.startswith("s3://") else f" on {socket.gethostname()}"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return SourceChangedError(f"{path} no longer exists{where}; {_REMEDY}")
    if error.errno in _REFUSED:
        remedy = "make it readable and run the same command again: everything committed is safe"
        return SourceChangedError(f"cannot read {path}{where}: {error.strerror}; {remedy}")
    return StoreUnavailableError(f"cannot read {path}{where}: {error}")
