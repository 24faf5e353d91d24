"""Where bytes live: the one place that knows about disks and object stores.

Everything above works with a `Files` object and relative paths. Three guarantees carry the whole store:

- `write` is atomic: a reader sees the old bytes, the new bytes or no file, never half of one;
- `write` is durable: once it has returned, a power cut does not undo it, so what is created later can rely on it;
- `create` is create-only: of any number of concurrent callers exactly one gets True. A power cut may undo it, but
  never leaves half a file.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from corpusgen.errors import StoreError, StoreUnavailableError

TEMPORARY_PREFIX = ".tmp-"
_UNSUPPORTED = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}  # what file systems say of what they lack
_NO_HARD_LINKS = {errno.EPERM, errno.EMLINK, errno.EXDEV} | _UNSUPPORTED


@dataclass(frozen=True)
class FileInfo:
    """A stored file: its path below the root, its size, and when it was written (seconds since the epoch)."""

    path: str
    size: int
    modified: float


class Files(Protocol):
    """The interface of a place for bytes. Implementations pickle, so that workers can be given one."""

    @property
    def url(self) -> str:
        """The root, as the user would write it."""

    def read(self, path: str) -> bytes:
        """All bytes of a file; FileNotFoundError where there is none."""

    def read_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        """All bytes of many small files, in this order, as fast as the place allows."""

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Put a whole file in place atomically, replacing what was there."""

    def create(self, path: str, data: bytes) -> bool:
        """Put a whole file in place atomically unless one is there; False if one is."""

    def copy(self, source: str, target: str) -> None:
        """Put a copy of a file in place atomically, replacing what was there; FileNotFoundError without a source."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""

    def list(self, folder: str) -> Iterator[FileInfo]:
        """The finished files directly in a folder, in the order of their names; none if it does not exist."""

    def folders(self, folder: str) -> Iterator[str]:
        """The names of the folders directly in a folder; none if it does not exist."""

    def list_unfinished(self, folder: str) -> Iterator[FileInfo]:
        """What interrupted writes left behind in a folder."""

    def delete(self, path: str) -> None:
        """Remove a file, or what `list_unfinished` named; no error if it is gone already."""

    def open(self, path: str) -> pa.NativeFile:
        """A file for random reads, so that Parquet can fetch only the columns asked for."""


def inside(path: str) -> str:
    """A path below a root, as it is; StoreError if it leads out. Names in a store may come from anybody."""
    if path.startswith("/") or ".." in path.split("/"):
        raise StoreError(f"{path!r} leads out of the store: it is damaged, or made to do harm; trust nothing in it")
    return path


def open_files(root: str | os.PathLike[str]) -> Files:
    """The place that `root` names: `s3://bucket/prefix` or a local folder."""
    url = os.fspath(root)
    if url.startswith("s3://"):
        from corpusgen.io.s3 import S3Files

        return S3Files.from_url(url)
    if "://" in url:
        raise StoreError(f"{url}: only local folders and s3:// are supported as a store")
    return LocalFiles(url)


class LocalFiles:
    """A folder on a disk (or a shared file system with hard links and atomic rename)."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(os.path.expanduser(root))

    @property
    def url(self) -> str:
        """The folder's absolute path."""
        return self._root

    def _full(self, path: str) -> str:
        """The path on the disk. A link below the root is refused: it may lead anywhere."""
        full = self._root
        for step in inside(path).split("/"):
            full = f"{full}/{step}"
            if os.path.islink(full):
                raise StoreError(f"{full} is a link, and a store has none: put the files themselves there")
        return full

    def read(self, path: str) -> bytes:
        """All bytes of a file."""
        try:
            with open(self._full(path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise
        except NotADirectoryError as error:  # the root is a file: whatever it is, it holds no store
            raise FileNotFoundError(error.filename) from None
        except OSError as error:
            raise _explained(error, "read", f"{self._root}/{path}") from error

    def read_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        """One after the other: threads would cost more than they save."""
        return map(self.read, paths)

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Temporary file, fsync, rename, fsync of the folder."""
        target = self._full(path)
        folder = os.path.dirname(target)
        with _temporary_file(folder, data) as temporary:
            os.replace(temporary, target)
            _sync_folder(folder)

    def create(self, path: str, data: bytes) -> bool:
        """Temporary file, fsync, hard link: linking fails if the name is taken, and never shows half a file."""
        target = self._full(path)
        with _temporary_file(os.path.dirname(target), data) as temporary:
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in _NO_HARD_LINKS:
                    raise StoreError(
                        f"{self.url}: this file system has no hard links, which the store needs to commit a unit "
                        "exactly once; put the store on another disk or on S3"
                    ) from error
                raise
        return True

    def copy(self, source: str, target: str) -> None:
        """A second hard link with a temporary name, renamed: no data is copied, unless the disk has no links."""
        origin, full = self._full(source), self._full(target)
        folder = os.path.dirname(full)
        temporary = f"{folder}/{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        if not os.path.isfile(origin):
            raise FileNotFoundError(origin)
        try:
            _make_folder(folder)
            try:
                os.link(origin, temporary)
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                self.write(target, self.read(source))
            else:
                os.replace(temporary, full)
                _sync_folder(folder)
        except OSError as error:
            raise _explained(error, "write to", folder) from error
        finally:
            with suppress(OSError):  # it is still there if both names were links to one file already
                os.unlink(temporary)

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(self._full(path))

    def list(self, folder: str) -> Iterator[FileInfo]:
        """The finished files of a folder, by name."""
        return (info for info in self._entries(folder) if not _is_temporary(info.path))

    def folders(self, folder: str) -> Iterator[str]:
        """The folders in a folder, by name."""
        try:
            yield from sorted(entry.name for entry in os.scandir(self._full(folder)) if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _explained(error, "list", f"{self._root}/{folder}") from error

    def list_unfinished(self, folder: str) -> Iterator[FileInfo]:
        """The temporary files of a folder."""
        return (info for info in self._entries(folder) if _is_temporary(info.path))

    def _entries(self, folder: str) -> Iterator[FileInfo]:
        try:
            place = self._full(folder)
            names = sorted(entry.name for entry in os.scandir(place) if entry.is_file(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _explained(error, "list", f"{self._root}/{folder}") from error
        for name in names:
            path = f"{folder}/{name}".lstrip("/")
            try:
                status = os.stat(f"{place}/{name}")
            except FileNotFoundError:  # a temporary file that its writer finished meanwhile
                continue
            yield FileInfo(path, status.st_size, status.st_mtime)

    def delete(self, path: str) -> None:
        """Remove a file."""
        try:
            os.unlink(self._full(path))
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            raise _explained(error, "remove", f"{self._root}/{path}") from error

    def open(self, path: str) -> pa.NativeFile:
        """A memory map: workers on one machine share its pages."""
        return pa.memory_map(self._full(path))


@contextmanager
def _temporary_file(folder: str, data: bytes | pa.Buffer) -> Iterator[str]:
    """A finished, durable file with a name of its own; gone at the end unless it was renamed."""
    temporary = f"{folder}/{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        try:
            descriptor = os.open(temporary, flags, 0o644)
        except FileNotFoundError:
            _make_folder(folder)
            descriptor = os.open(temporary, flags, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            _sync(descriptor, folder)
        yield temporary
    except OSError as error:
        raise _explained(error, "write to", folder) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _make_folder(folder: str) -> None:
    """Make a folder that survives a power cut."""
    if not os.path.isdir(folder):
        above = os.path.dirname(folder)
        _make_folder(above)
        with suppress(FileExistsError):
            os.mkdir(folder)
        _sync_folder(above)


def _is_temporary(path: str) -> bool:
    return path.rpartition("/")[2].startswith(TEMPORARY_PREFIX)


def _sync_folder(folder: str) -> None:
    """Make a rename or link in this folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _sync(descriptor, folder)
    finally:
        os.close(descriptor)


def _sync(descriptor: int, folder: str) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        raise StoreError(
            f"{folder}: this file system cannot promise that what was written survives a power cut (fsync: "
            f"{error.strerror}); use another disk or S3"
        ) from error


def _explained(error: OSError, what: str, path: str) -> StoreError:
    """The error of a system call as one that says what to do."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return StoreError(
                f"no space left for {path}; free some and run the same command again: "
                "everything committed so far is kept"
            )
        case errno.ENOENT:
            return StoreError(f"cannot {what} {path}: no file can be made there; give a folder on a disk")
        case errno.ENOTDIR | errno.EEXIST | errno.EISDIR | errno.ENOTEMPTY:
            return StoreError(f"cannot {what} {path}: a file or folder of that name is in the way")
        case errno.EIO | errno.ESTALE | errno.ETIMEDOUT:
            return StoreUnavailableError(f"{path} does not answer: {error.strerror}")
        case _:
            return StoreError(f"cannot {what} {path}: {error.strerror or error}")
