"""Read compressed and UTF-16 text in memory that does not grow with it, and never skip damage silently.

Python's own readers of bz2 and xz take the end of a stream for the end of the file unless another good one begins
there, and all its readers return data that a checksum has not verified yet.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol, cast

import pyarrow as pa

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
HELD_BACK = 2 << 20
"""Bytes of text that wait for the checksum after them: more than a bz2 block has, except for very long runs."""
ARCHIVE = re.compile(rb"\x1f\x8b\x08|BZh[1-9]1AY&SY|\xfd7zXZ\x00|\x28\xb5\x2f\xfd|7z\xbc\xaf\x27\x1c|PK\x03\x04")
"""The first bytes of archives, including kinds that cannot be read."""
_PIECE = 1 << 15
_CHUNK = 1 << 13  # of compressed bytes; an estimate measures how far a file was read
_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowInvalid)
_CUT_OFF = "Compressed file ended before the end-of-stream marker was reached"


class DamagedError(OSError):
    """A damaged or cut-off archive: the bytes after `offset` cannot be read. It has no errno."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


class Readable(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, fewer only at the end."""


class Decompressor(Protocol):
    """A decompressor like those of bz2 and lzma: it takes any piece of one stream."""

    @property
    def eof(self) -> bool:
        """Return whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Return whether more text needs more bytes."""

    @property
    def unused_data(self) -> bytes:
        """Return the bytes found after the end of the stream."""

    def decompress(self, data: bytes, /, max_length: int) -> bytes:
        """Return at most `max_length` bytes of text."""


class _GzipDecompressor:
    """A decompressor for one member of a gzip file, with its header and its checksum."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS + 16)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, /, max_length: int) -> bytes:
        try:
            return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        except zlib.error as error:
            if "data check" not in str(error) and "length check" not in str(error):
                raise
            doubt = "earlier lines may be wrong, too: download the file again and build into a new store"
            raise zlib.error(f"{error}; {doubt}") from error


_DECOMPRESSORS: dict[str, Callable[[], Decompressor]] = {
    ".gz": _GzipDecompressor,
    ".bz2": bz2.BZ2Decompressor,
    ".xz": lzma.LZMADecompressor,
}


class Pieces(io.RawIOBase):
    """A file over an iterator of bytes. After an error every further read fails too: a failure never looks like an end.

    Where it fails depends on the pieces alone, not on how they are read.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")
        self._given = 0
        self._error: BaseException | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read some bytes, at most one piece; none at the end."""
        if not self._piece:
            self._piece = memoryview(self._next())
        size = min(len(buffer), len(self._piece))
        buffer[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        self._given += size
        return size

    def _next(self) -> bytes:
        if self._error:
            raise self._error
        try:
            return next(filter(None, self._pieces), b"")
        except _BROKEN as error:
            own = isinstance(error, OSError) and error.errno is not None  # the machine's, not the archive's
            self._error = error if own else DamagedError(self._given, str(error))
        except BaseException as error:
            self._error = error
        raise self._error


def decompressed(file: BinaryIO, name: str, held_back: int = 0) -> BinaryIO:
    """Decompress a file by its suffix; return the last `held_back` bytes only once they are verified."""
    if name.endswith(".zst"):
        return buffered(_zstd_pieces(file))
    for suffix, new in _DECOMPRESSORS.items():
        if name.endswith(suffix):
            return buffered(stream_pieces(file, new, held_back))
    return file


def buffered(pieces: Iterator[bytes]) -> io.BufferedReader:
    """Return pieces of bytes as a file to read line by line."""
    return io.BufferedReader(Pieces(_with_a_head(pieces)), 2 * _PIECE)


def _with_a_head(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the first two bytes together, which tell UTF-16, however small the pieces are; then the rest."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) > 1:
            break
    yield head
    yield from pieces


def stream_pieces(
    file: Readable,
    new: Callable[[], Decompressor],
    held_back: int = 0,
    stream_starts: list[tuple[int, int]] | None = None,
) -> Iterator[bytes]:
    """Yield the text of compressed streams, one after the other; NULs may follow each, and nothing else.

    `stream_starts` is filled with where each stream begins, in the text and in the file.
    """
    data = file.read(_CHUNK)
    read, text = len(data), 0
    held: deque[bytes] = deque()
    size = 0
    while True:
        if stream_starts is not None:
            stream_starts.append((text, read - len(data)))
        stream = new()
        while not stream.eof:
            ended = False
            if stream.needs_input and not data:
                data = file.read(_CHUNK)
                read += len(data)
                ended = not data
            piece, data = stream.decompress(data, _PIECE), b""
            if ended and not piece and not stream.eof:
                yield from held  # the text before the cut is good
                raise EOFError(_CUT_OFF)
            held.append(piece)
            text += len(piece)
            size += len(piece)
            while held and size - len(held[0]) >= held_back:
                size -= len(held[0])
                yield held.popleft()
        yield from held
        held.clear()
        size = 0
        data = stream.unused_data.lstrip(b"\0")
        while not data:
            data = file.read(_CHUNK)
            if not data:
                return
            read += len(data)
            data = data.lstrip(b"\0")


def _zstd_pieces(file: BinaryIO) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
    while piece := stream.read(_PIECE):
        yield piece


def as_utf8(file: BinaryIO) -> BinaryIO:
    """Return the same text in UTF-8: some dumps are in UTF-16, which their first bytes tell."""
    try:
        head = cast(io.BufferedReader, file).peek(2)[:2]
    except DamagedError:  # the next read raises it again
        return file
    return buffered(_utf8_pieces(file)) if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else file


def _utf8_pieces(file: BinaryIO) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    while data := cast(io.BufferedReader, file).read1(_PIECE):
        if piece := decoder.decode(data).encode():
            yield piece
    yield decoder.decode(b"", final=True).encode()
