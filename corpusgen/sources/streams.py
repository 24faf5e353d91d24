"""Records out of byte streams: compressed or not, by range, surviving whatever is wrong with the bytes.

A record belongs to the range in which it begins, and is read to its end even if that lies beyond. So the ranges of
a file give every record exactly once, wherever they are cut.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import pyarrow as pa

from corpusgen.sources.locate import SourceFile, open_binary

TO_THE_END = 1 << 62
LONGEST_RECORD = 32 << 20
BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowInvalid, UnicodeError)
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
# Of a compressed file it is not known how long the text is. Units are planned for this ratio; those beyond the end
# are empty, and the last one takes whatever is left.
_EXPANSION = 12


@dataclass(frozen=True)
class Problem:
    """A piece of a file that cannot be used."""

    offset: int
    error: str


def byte_ranges(file: SourceFile, unit_bytes: int) -> list[tuple[int, int]]:
    """Ranges of the uncompressed bytes, about `unit_bytes` each; the last one goes to the end."""
    sequential = file.path.endswith(COMPRESSED)
    expected = file.size * (_EXPANSION if sequential else 1)
    starts = list(range(0, max(expected, 1), unit_bytes))
    if sequential and expected <= 2 * unit_bytes:
        starts = [0]
    return list(zip(starts, [*starts[1:], TO_THE_END], strict=True))


def read_records(
    path: str, start: int, stop: int, begins: bytes = b"", ends: bytes = b""
) -> Iterator[tuple[int, bytes] | Problem]:
    """The records that begin in [start, stop) with their offsets.

    A record is a line, or, if `begins` is given, the lines from one that begins so (spaces aside) to the first that
    ends with `ends`.
    """
    stream = _at(path, start)
    record: list[bytes] = []
    began = 0
    while record or stream.offset < stop or not stream.line_start:
        line = _next_line(stream)
        if line is None:
            if record:
                yield Problem(began, "the file ends inside this record")
            break
        if isinstance(line, Problem):
            yield line
            continue
        offset, data = line
        if not record:
            if offset < start or offset >= stop or (begins and not data.lstrip().startswith(begins)):
                continue
            began = offset
        record.append(data)
        if not begins or data.rstrip().endswith(ends):
            yield began, b"".join(record)
            record = []
        elif offset - began > LONGEST_RECORD:
            yield Problem(began, f"a record of more than {LONGEST_RECORD >> 20} MB")
            record = []
    stream.answered = stop


def decompressed(file: BinaryIO, name: str) -> BinaryIO:
    """The bytes behind a compression that the name tells."""
    if name.endswith(".gz"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if name.endswith(".bz2"):
        return cast(BinaryIO, bz2.BZ2File(file))
    if name.endswith(".xz"):
        return cast(BinaryIO, lzma.LZMAFile(file))
    if name.endswith(".zst"):
        return io.BufferedReader(cast(Any, pa.CompressedInputStream(pa.PythonFile(file), "zstd")))
    return file


@dataclass
class _Stream:
    """An open file and where it stands, in uncompressed bytes. `line_start` tells whether a line begins there.

    All records that begin before `answered` were read; the last of them may have ended beyond it.
    """

    path: str
    file: BinaryIO
    can_seek: bool
    offset: int = 0
    line_start: bool = True
    ended: bool = False
    answered: int | None = None


_kept: list[_Stream] = []  # the last one read: its next range is often wanted next, and not decompressed again


def _at(path: str, start: int) -> _Stream:
    """A stream that stands at `start` or, if a line is under way there, at the beginning of the next one."""
    kept = _kept.pop() if _kept else None
    # What lies between has to be decompressed; of a file that can be entered anywhere it need not even be read.
    goes_on = kept and (kept.answered == start or (kept.offset <= start and not kept.can_seek))
    if kept and kept.path == path and goes_on:
        stream = kept
        stream.answered = None
    else:
        raw = open_binary(path)
        file = _as_utf8(decompressed(raw, path))
        stream = _Stream(path, file, can_seek=file is raw)
        if stream.can_seek and start:
            raw.seek(start - 1)  # one byte back: if it ends a line, a record may begin exactly at `start`
            stream.offset = start - 1
            stream.line_start = False
    _kept.append(stream)
    return stream


def _as_utf8(file: BinaryIO) -> BinaryIO:
    """Dumps in UTF-16 exist."""
    head = file.peek(2)[:2] if hasattr(file, "peek") else b""
    if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return cast(BinaryIO, codecs.EncodedFile(file, "utf-8", "utf-16", errors="replace"))
    return file


def _next_line(stream: _Stream) -> tuple[int, bytes] | Problem | None:
    """The next whole line with its offset; None at the end. Rests of lines are passed over."""
    while not stream.ended:
        offset, whole = stream.offset, stream.line_start
        try:
            line = stream.file.readline(LONGEST_RECORD)
        except BROKEN as error:
            stream.ended = True
            return Problem(offset, f"the file is damaged or cut off from here: {error}")
        stream.ended = not line
        stream.offset += len(line)
        stream.line_start = line.endswith(b"\n")
        if not whole or not line:
            continue
        if not stream.line_start and len(line) >= LONGEST_RECORD:
            return Problem(offset, f"a line of more than {LONGEST_RECORD >> 20} MB")
        return offset, line
    return None
