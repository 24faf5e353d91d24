"""The interface to disks and object stores; no other code deals with them directly.

All other code works with a `Files` object and relative paths. The whole store rests on three guarantees:

- `write` is atomic: a reader sees the old bytes, the new bytes or no file, never half of one;
- `write` is durable: once it has returned, a power cut does not undo it, so files created later can rely on it;
- `create` never overwrites: of any number of concurrent callers, exactly one gets True. A power cut may undo it, but
  never leaves half a file.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from corpusgen.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    import pyarrow as pa

TEMPORARY_PREFIX = ".tmp-"
_UNSUPPORTED = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}  # for operations a file system lacks
_NO_HARD_LINKS = {errno.EPERM, errno.EMLINK, errno.EXDEV} | _UNSUPPORTED


@dataclass(frozen=True)
class FileInfo:
    """A stored file: its path below the root, its size, and when it was written (seconds since the epoch)."""

    path: str
    size: int
    modified: float


class Files(Protocol):
    """A folder or bucket that holds files. Implementations can be pickled, so that workers can get a copy."""

    @property
    def url(self) -> str:
        """Return the root, as the user would write it."""

    def read(self, path: str) -> bytes:
        """Return all bytes of a file; raise FileNotFoundError if it does not exist."""

    def read_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Yield the bytes of many small files, in the given order, as fast as the storage allows."""

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a whole file atomically, replacing any old one."""

    def write_blocks(self, path: str, blocks: Iterable[bytes]) -> None:
        """Write a whole file atomically, like `write`, from blocks that need not be in memory together."""

    def create(self, path: str, data: bytes) -> bool:
        """Create a whole file atomically; return False, without writing, if one exists."""

    def copy(self, source: str, target: str) -> None:
        """Copy a file atomically, replacing any old one; raise FileNotFoundError if there is no source."""

    def exists(self, path: str) -> bool:
        """Return whether a file exists."""

    def list(self, folder: str) -> Iterator[FileInfo]:
        """Yield the finished files directly in a folder, sorted by name; none if it does not exist."""

    def folders(self, folder: str) -> Iterator[str]:
        """Yield the names of the folders directly in a folder; none if it does not exist."""

    def list_unfinished(self, folder: str) -> Iterator[FileInfo]:
        """Yield what interrupted writes left behind in a folder."""

    def delete(self, path: str) -> None:
        """Remove a file, or an entry from `list_unfinished`; do nothing if it is already gone."""

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for random reads, so that Parquet can fetch only the requested columns."""


def inside(path: str) -> str:
    """Return the path unchanged; raise StoreError if it leads out of the root. Names in a store are not trusted."""
    if path.startswith("/") or ".." in path.split("/"):
        raise StoreError(
            f"{path!r} points outside the store: the store is damaged or malicious; do not trust anything in it"
        )
    return path


def open_files(root: str | os.PathLike[str]) -> Files:
    """Return the `Files` at a root: `s3://bucket/prefix` or a local folder."""
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
        """Return the folder's absolute path."""
        return self._root

    def _full(self, path: str) -> str:
        """Return the path on disk; refuse any link below the root, because it may lead anywhere."""
        full = self._root
        for step in inside(path).split("/"):
            full = f"{full}/{step}"
            if os.path.islink(full):
                raise StoreError(f"{full} is a link, and stores must not contain links: put the files themselves there")
        return full

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""
        try:
            with open(self._full(path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise
        except NotADirectoryError as error:  # the root is a file, so it holds no store
            raise FileNotFoundError(error.filename) from None
        except OSError as error:
            raise _explained(error, "read", f"{self._root}/{path}") from error

    def read_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Read the files one after the other: threads would cost more than they save."""
        return map(self.read, paths)

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a temporary file, fsync it, rename it, then fsync the folder."""
        self.write_blocks(path, [data])

    def write_blocks(self, path: str, blocks: Iterable[bytes | pa.Buffer]) -> None:
        """Write block by block to a temporary file, and put it in place as `write` does."""
        target = self._full(path)
        folder = os.path.dirname(target)
        with _temporary_file(folder, blocks) as temporary:
            os.replace(temporary, target)
            _sync_folder(folder)

    def create(self, path: str, data: bytes) -> bool:
        """Write and fsync a temporary file, then hard-link it: a link never replaces a file or shows half of one."""
        target = self._full(path)
        with _temporary_file(os.path.dirname(target), [data]) as temporary:
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
        """Hard-link the file to a temporary name and rename that; copy data only if the disk has no links."""
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
            with suppress(OSError):  # it remains if both names were already links to one file
                os.unlink(temporary)

    def exists(self, path: str) -> bool:
        """Return whether a file exists."""
        return os.path.isfile(self._full(path))

    def list(self, folder: str) -> Iterator[FileInfo]:
        """Yield the finished files of a folder, sorted by name."""
        return (info for info in self._entries(folder) if not _is_temporary(info.path))

    def folders(self, folder: str) -> Iterator[str]:
        """Yield the names of the folders in a folder, sorted."""
        try:
            yield from sorted(entry.name for entry in os.scandir(self._full(folder)) if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _explained(error, "list", f"{self._root}/{folder}") from error

    def list_unfinished(self, folder: str) -> Iterator[FileInfo]:
        """Yield the temporary files of a folder."""
        return (info for info in self._entries(folder) if _is_temporary(info.path))

    def _entries(self, folder: str) -> Iterator[FileInfo]:
        try:
            full = self._full(folder)
            names = sorted(entry.name for entry in os.scandir(full) if entry.is_file(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _explained(error, "list", f"{self._root}/{folder}") from error
        for name in names:
            path = f"{folder}/{name}".lstrip("/")
            try:
                status = os.stat(f"{full}/{name}")
            except FileNotFoundError:  # a temporary file that its writer has since finished
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
        """Open a file as a memory map, whose pages workers on one machine share."""
        import pyarrow as pa  # not needed to load a model

        return pa.memory_map(self._full(path))


@contextmanager
def _temporary_file(folder: str, blocks: Iterable[bytes | pa.Buffer]) -> Iterator[str]:
    """Yield the name of a complete, durable temporary file; remove it at the end unless it was renamed."""
    temporary = f"{folder}/{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        try:
            descriptor = os.open(temporary, flags, 0o644)
        except FileNotFoundError:
            _make_folder(folder)
            descriptor = os.open(temporary, flags, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(blocks)
            file.flush()
            _sync(descriptor, folder)
        yield temporary
    except OSError as error:
        raise _explained(error, "write to", folder) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _make_folder(folder: str) -> None:
    """Create a folder that survives a power cut."""
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
            f"{folder}: this file system cannot guarantee that files survive a power failure (fsync: "
            f"{error.strerror}); use another disk or S3"
        ) from error


def _explained(error: OSError, what: str, path: str) -> StoreError:
    """Turn the error of a system call into one that says what to do."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return StoreError(
                f"no space left to write {path}; free some and run the same command again: "
                "everything committed so far is safe"
            )
        case errno.ENOENT:
            return StoreError(f"cannot {what} {path}: no files can be created there; choose another folder")
        case errno.ENOTDIR | errno.EEXIST | errno.EISDIR | errno.ENOTEMPTY:
            return StoreError(
                f"cannot {what} {path}: a file or folder with that name is in the way; remove it or choose another path"
            )
        case errno.EIO | errno.ESTALE | errno.ETIMEDOUT:
            return StoreUnavailableError(f"{path} does not answer: {error.strerror}")
        case _:
            return StoreError(f"cannot {what} {path}: {error.strerror or error}")
