"""Read dumps of many bz2 streams with an index, as Wikimedia makes them: a unit reads some neighbouring streams."""

from __future__ import annotations

import bz2
import functools
import io
import re
from bisect import bisect_right
from collections.abc import Iterator

from corpusgen.errors import ConfigError
from corpusgen.sources.archives import HELD_BACK, buffered, decompressed, stream_pieces
from corpusgen.sources.locate import SourceFile, find_files, open_binary, opened
from corpusgen.sources.streams import TO_THE_END, Lines, Problem, Record, records_of

_STREAM = re.compile(rb"BZh[1-9]\x31\x41\x59\x26\x53\x59")
_STREAM_BYTES = 10
_CHUNK = 1 << 16
_PAGE = (b"<page>", b"</page>")
_REMEDY = "download it again, or move it away: without an index the dump is read from start to end"


def multistream_records(
    dump: SourceFile, start: int, stop: int, begins: bytes, ends: bytes
) -> Iterator[Record | Problem]:
    """Yield the records of the streams in [start, stop) of the compressed bytes; the offset of each is its stream's.

    In a damaged stream, what comes before the damage is kept, and nothing of the streams after it is lost.
    """
    with opened(dump) as file:
        at: int | None = start
        while at is not None:
            starts: list[tuple[int, int]] = []  # where each stream begins, in the text and in the window
            lines = Lines(
                buffered(stream_pieces(_Window(file, at, stop), bz2.BZ2Decompressor, HELD_BACK, starts)),
            )
            for found in records_of(lines, TO_THE_END, begins, ends):
                offset = found.offset if isinstance(found, Problem) else found[0]
                stream = at + starts[bisect_right(starts, (offset, TO_THE_END)) - 1][1]
                yield Problem(stream, found.error) if isinstance(found, Problem) else (stream, found[1])
            if lines.damage is None:
                return
            damaged = at + starts[-1][1]
            yield Problem(damaged, f"the stream that starts here is damaged or cut off: {lines.damage}")
            at = _next_stream(file, damaged + 1, stop)


class _Window:
    """A range of the bytes of a file."""

    def __init__(self, file: io.BufferedReader, start: int, stop: int) -> None:
        file.seek(start)
        self._file = file
        self._left = stop - start

    def read(self, size: int, /) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def _next_stream(file: io.BufferedReader, start: int, stop: int) -> int | None:
    """Find where the next stream begins, by its first bytes; return None if there is none."""
    window = _Window(file, start, stop)
    seen = b""
    while data := window.read(_CHUNK):
        seen += data
        if found := _STREAM.search(seen):
            return start + found.start()
        start += max(0, len(seen) - _STREAM_BYTES)
        seen = seen[-_STREAM_BYTES:]
    return None


# ------------------------------------------------------------------------------------------------------- planning


def index_of(dump: SourceFile) -> SourceFile | None:
    """Return the index next to a multistream dump; None if there is none."""
    name, found = re.subn(r"multistream(\d*)\.xml", r"multistream-index\1.txt", dump.path)
    if not found:
        return None
    try:
        return find_files([name])[0]
    except ConfigError:  # no index: the dump is read from beginning to end
        return None


def stream_groups(dump: SourceFile, index: SourceFile, unit_bytes: int) -> list[tuple[int, int]]:
    """Return ranges of whole streams. Before the first page's stream there is only the header."""
    offsets = _stream_offsets(dump, index)
    if offsets[0] and any(isinstance(found, tuple) for found in multistream_records(dump, 0, offsets[0], *_PAGE)):
        raise ConfigError(f"source.paths: {index.path} does not name the first pages of {dump.path}; {_REMEDY}")
    groups: list[tuple[int, int]] = []
    start = offsets[0]
    for offset in [*offsets[1:], dump.size]:
        if (offset - start) * 4 >= unit_bytes or offset == dump.size:  # text is about four times as large as its bz2
            groups.append((start, offset))
            start = offset
    return groups


def _stream_offsets(dump: SourceFile, index: SourceFile) -> list[int]:
    """Return where streams begin, from an index whose lines are offset:id:title."""
    try:
        with open_binary(index.path) as file:
            readline = functools.partial(decompressed(file, index.path).readline, _CHUNK)
            offsets = sorted({int(offset) for offset, _, _ in (line.split(b":", 2) for line in iter(readline, b""))})
    except (OSError, ValueError) as error:
        raise ConfigError(f"source.paths: {index.path} is damaged or not an index: {error}; {_REMEDY}") from error
    if not offsets or not 0 <= offsets[0] <= offsets[-1] < dump.size:
        raise ConfigError(f"source.paths: {index.path} is empty, or not the index of {dump.path}; {_REMEDY}")
    return offsets
