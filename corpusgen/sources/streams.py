"""Read records from byte streams, compressed or not, by range, and survive whatever is wrong with the bytes.

A record belongs to the range in which it begins, and is read to its end even if that is beyond the range. So the ranges
of a file give every record exactly once, wherever they are cut. For this, reading must be able to start anywhere:
each line alone tells whether a record begins in it.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from corpusgen.errors import ConfigError
from corpusgen.sources.archives import ARCHIVE, COMPRESSED, HELD_BACK, DamagedError, as_utf8, decompressed
from corpusgen.sources.locate import OpenSource, SourceFile

__all__ = ["COMPRESSED", "TO_THE_END", "Lines", "Problem", "byte_ranges", "decompressed", "read_records", "records_of"]

TO_THE_END = 1 << 62
LONGEST_RECORD = 32 << 20
_SKIPPED = 1 << 20  # bytes at a time
# The length of a compressed file's text is not known. Units are planned for this ratio; those beyond the end are
# empty, and the last one takes whatever is left.
_EXPANSION = 12
_CUT_OFF = "the text ends inside this record"


@dataclass(frozen=True)
class Problem:
    """A piece of a file that cannot be used. Like a record, it belongs to the range in which it begins."""

    offset: int
    error: str


Record = tuple[int, bytes]


def byte_ranges(file: SourceFile, unit_bytes: int) -> list[tuple[int, int]]:
    """Return ranges of the uncompressed bytes, about `unit_bytes` each; the last one goes to the end."""
    sequential = file.path.endswith(COMPRESSED)
    expected = file.size * (_EXPANSION if sequential else 1)
    starts = list(range(0, max(expected, 1), unit_bytes))
    if sequential and expected <= 2 * unit_bytes:
        starts = [0]
    return list(zip(starts, [*starts[1:], TO_THE_END], strict=True))


def read_records(
    file: SourceFile, start: int, stop: int, begins: bytes = b"", ends: bytes = b""
) -> Iterator[Record | Problem]:
    """Yield the records that begin in [start, stop) with their offsets.

    A record is a line or, if `begins` is given, the lines from one that begins so (spaces aside) to the first that
    ends with `ends`. Raise SourceChangedError if this is not the planned file.
    """
    stream = _take(file, start)
    whole = False
    try:
        stream.enter(start)
        yield from records_of(stream.lines, stop, begins, ends)
        damage = stream.lines.damage
        if damage and start <= damage.offset < stop:
            yield Problem(damage.offset, f"the file is damaged or cut off from here: {damage}")
        stream.source.check()
        whole = True
    finally:
        # After an error, or when the caller stops early, the position of the stream is unknown.
        if whole and stop < TO_THE_END:
            stream.answered = stop
            _keep(stream)
        else:
            stream.source.close()


class Lines:
    """The lines of a stream, read in bounded memory, and the position in it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offset = 0
        self._inside = False  # inside a line, of which only the rest is to come
        self._returned: Record | None = None
        self.damage: DamagedError | None = None
        self.cut_off: int | None = None
        """Where the damaged line begins, if any of it was read."""

    @property
    def offset(self) -> int:
        """Return where the next line begins or, inside a line, continues."""
        return self._returned[0] if self._returned else self._offset

    def next(self, stop: int) -> Record | None:
        """Return the next line with its offset, or the beginning of one that is too long; None at the end.

        The rest of a line is skipped first, but not beyond `stop`: None if it continues there.
        """
        if self._returned:
            line, self._returned = self._returned, None
            return line
        while self._inside:
            if self._offset < stop:
                self._readline(min(_SKIPPED, stop - self._offset))
            if self._offset >= stop:
                return None
        offset = self._offset
        data = self._readline(LONGEST_RECORD + 1 + (0 if offset else len(codecs.BOM_UTF8)))
        if not data:
            self.cut_off = offset if self._offset > offset else None
            return None
        return offset, data if offset else data.removeprefix(codecs.BOM_UTF8)

    def give_back(self, line: Record) -> None:
        """Put a line back, so that `next` returns it again."""
        self._returned = line

    def skip_to(self, offset: int) -> None:
        """Skip to the first line that begins at `offset` or later."""
        if self._returned and self._returned[0] < offset:
            self._returned = None
        # Stop at the byte before it: if that ends a line, a record may begin exactly at `offset`.
        while self._offset < offset - 1:
            try:
                data = self._file.read(min(_SKIPPED, offset - 1 - self._offset))
            except DamagedError as error:
                self._damaged(error)
                return
            if not data:
                return
            self._offset += len(data)
        if self._offset == offset - 1:
            self._inside = True

    def seek(self, offset: int) -> None:
        """Seek to the first line that begins at `offset` or later, in a seekable file."""
        self._offset = self._file.seek(max(0, offset - 1))
        self._inside = False
        self._returned = None
        self.skip_to(offset)

    def _readline(self, most: int) -> bytes:
        try:
            data = self._file.readline(most)
        except DamagedError as error:
            self._damaged(error)
            return b""
        self._offset += len(data)
        self._inside = bool(data) and not data.endswith(b"\n")
        return data

    def _damaged(self, error: DamagedError) -> None:
        self.damage = error
        self._offset = error.offset
        self._inside = False


def records_of(lines: Lines, stop: int, begins: bytes = b"", ends: bytes = b"") -> Iterator[Record | Problem]:
    """Yield the records that begin before `stop`; take no line that begins there or later unless a record is open."""
    return _marked(lines, stop, begins, ends) if begins else _single(lines, stop)


def _single(lines: Lines, stop: int) -> Iterator[Record | Problem]:
    while lines.offset < stop and (line := lines.next(stop)):
        yield line if len(line[1]) <= LONGEST_RECORD else Problem(line[0], _too_long("line"))
    if lines.cut_off is not None:
        yield Problem(lines.cut_off, _CUT_OFF)
        lines.cut_off = None


def _marked(lines: Lines, stop: int, begins: bytes, ends: bytes) -> Iterator[Record | Problem]:
    record = bytearray()
    began = 0
    while record or lines.offset < stop:
        line = lines.next(stop)
        if line is None:
            break
        offset, data = line
        if data.lstrip().startswith(begins):
            if record:
                yield Problem(began, "the record that starts here does not end before the next one starts")
                record.clear()
                if offset >= stop:
                    lines.give_back(line)
                    break
            began = offset
        elif not record:
            continue
        record += data
        if len(data) > LONGEST_RECORD:
            yield Problem(began, _too_long("line"))
        elif data.rstrip().endswith(ends):
            yield began, bytes(record)
        elif offset - began > LONGEST_RECORD:
            yield Problem(began, _too_long("record"))
        else:
            continue
        record.clear()
    if record:
        yield Problem(began, _CUT_OFF)


def _too_long(what: str) -> str:
    return f"a {what} of more than {LONGEST_RECORD >> 20} MB"


@dataclass
class _Stream:
    """An open file. All records that begin before `answered` were read; the last of them may have ended beyond it."""

    source: OpenSource
    lines: Lines
    can_seek: bool
    answered: int = 0

    @classmethod
    def open(cls, file: SourceFile) -> _Stream:
        source = OpenSource(file)
        try:
            text = as_utf8(decompressed(source.file, file.path, HELD_BACK))
            if text is source.file and ARCHIVE.match(source.file.peek(10)):
                raise ConfigError(
                    f"source.paths: {file.path} is an archive, although its name does not say so: unpack it, or rename "
                    f"it if it is one of {', '.join(COMPRESSED)}"
                )
        except BaseException:
            source.close()
            raise
        return cls(source, Lines(text), can_seek=text is source.file)

    def enter(self, start: int) -> None:
        """Go to the first line that begins at `start` or later. From `answered` to the position no record begins."""
        # A compressed file must be decompressed up to there; a seekable file need not even be read.
        if self.can_seek and not self.answered <= start <= self.lines.offset:
            self.lines.seek(start)
        else:
            self.lines.skip_to(start)


_kept: list[_Stream] = []  # the last one read: often its next range comes next, without decompressing again


def _take(file: SourceFile, start: int) -> _Stream:
    """Return the open stream if it reads this very file and has not gone too far, or a new one."""
    kept = _kept.pop() if _kept else None
    if kept and kept.source.planned == file and (kept.can_seek or kept.answered <= start):
        try:
            kept.source.check()
        except BaseException:
            kept.source.close()
            raise
        return kept
    if kept:
        kept.source.close()
    return _Stream.open(file)


def _keep(stream: _Stream) -> None:
    if _kept:
        _kept.pop().source.close()
    _kept.append(stream)
