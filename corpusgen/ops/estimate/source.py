"""The pieces of the source that an estimate reads: ranges of bytes, spread evenly over all files.

The bytes of all files, one after the other, are cut into as many strata as there will be pieces. Each stratum gives
one piece, at a random position. A compressed file that can only be read from its beginning gives its pieces there.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from corpusgen.sources.locate import open_binary
from corpusgen.sources.streams import COMPRESSED, TO_THE_END, decompressed

PIECES = 64
PIECE_BYTES = 1 << 18  # of text: some seconds of work for all pieces, and a meaningful vocabulary
_STREAM = b"BZh91AY&SY"  # the beginning of a bz2 stream
_TEXT_PER_BZ2 = 4  # bytes of text per byte of bz2

Record = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """A unit to read, and the number of bytes on disk that it stands for."""

    record: Record
    bytes: float


@dataclass(frozen=True)
class SourceSample:
    """The pieces; `bytes` is the size of all files, `units` the number of units that a build makes, without empty ones.

    `heads` is true if some files can only be read from their beginning, and were not read to their end.
    """

    pieces: Sequence[Piece]
    bytes: int
    files: int
    units: int
    heads: bool

    @property
    def share(self) -> float:
        """Return the share of the source that is read."""
        return min(1.0, sum(piece.bytes for piece in self.pieces) / self.bytes) if self.bytes else 1.0


def sample_source(
    slices: Sequence[Sequence[Mapping[str, Any]]], cut_at: str, unit_bytes: int, seed: int
) -> SourceSample:
    """Choose pieces of what a build would read; `slices` are the inputs of its units."""
    files: dict[str, list[Record]] = {}
    for (record,) in slices:
        files.setdefault(record["path"], []).append(dict(record))
    ends = np.cumsum([records[0]["size"] for records in files.values()])
    total = int(ends[-1]) if len(ends) else 0
    chance = np.random.default_rng(seed)
    points = (np.arange(PIECES) + chance.random(PIECES)) / PIECES * total
    pieces: list[Piece] = []
    compressed: list[list[Record]] = []
    heads: list[Piece] = []
    for (path, records), end in zip(files.items(), ends.tolist(), strict=True):
        size = records[0]["size"]
        inside = points[(points >= end - size) & (points < end)] - (end - size)
        if cut_at == "row groups":
            pieces += _row_groups(records, inside)
        elif records[0]["multistream"]:
            pieces += _streams(records, inside)
        elif path.endswith(COMPRESSED):
            compressed.append(records)
            heads += _heads(records[0], len(inside))
        else:
            pieces += _ranges(records[0], inside, total <= PIECES * PIECE_BYTES)
    # How much text compressed files hold is unknown: more units are planned than there will be.
    ratio = len(heads) * PIECE_BYTES / sum(piece.bytes for piece in heads) if heads else _TEXT_PER_BZ2
    empty = sum(max(0, len(records) - math.ceil(records[0]["size"] * ratio / unit_bytes)) for records in compressed)
    partly = sum(piece.bytes for piece in heads) < sum(records[0]["size"] for records in compressed)
    return SourceSample([*pieces, *heads], total, len(files), len(slices) - empty, partly)


def _ranges(record: Record, points: Any, all_of_it: bool) -> Iterator[Piece]:
    size = record["size"]
    numbers = range(math.ceil(size / PIECE_BYTES)) if all_of_it else np.unique(points // PIECE_BYTES).astype(int)
    for number in numbers:
        start, stop = int(number) * PIECE_BYTES, (int(number) + 1) * PIECE_BYTES
        last = stop >= size
        yield Piece({**record, "start": start, "stop": TO_THE_END if last else stop}, min(stop, size) - start)


def _heads(record: Record, number: int) -> Iterator[Piece]:
    """Yield the first pieces of a file that must be read from its beginning, with the bytes of the file they take."""
    if not number:
        return
    with open_binary(record["path"]) as raw:
        text = decompressed(raw, record["path"])
        offsets = [0]
        while len(offsets) <= number and offsets[-1] < record["size"]:
            ended = len(_read(text, PIECE_BYTES)) < PIECE_BYTES
            offsets.append(record["size"] if ended else min(raw.tell(), record["size"]))
    for index, (before, after) in enumerate(pairwise(offsets)):
        if after > before:
            stop = TO_THE_END if after == record["size"] else (index + 1) * PIECE_BYTES
            yield Piece({**record, "start": index * PIECE_BYTES, "stop": stop}, after - before)


def _read(stream: Any, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end; nothing if the file is damaged, which the build will report."""
    try:
        data: bytes = stream.read(size)
        while data and len(data) < size and (more := stream.read(size - len(data))):
            data += more
    except (OSError, EOFError):
        return b""
    return data


def _streams(records: Sequence[Record], points: Any) -> Iterator[Piece]:
    """Yield the first streams of each chosen unit of a multistream dump."""
    starts = [record["start"] for record in records]
    for unit in sorted({max(0, bisect(starts, point) - 1) for point in points}):
        record = records[unit]
        with open_binary(record["path"]) as file:
            file.seek(record["start"])
            data = file.read(record["stop"] - record["start"])
        end = data.find(_STREAM, PIECE_BYTES // _TEXT_PER_BZ2)
        size = end if end > 0 else len(data)
        yield Piece({**record, "stop": record["start"] + size}, size)


def _row_groups(records: Sequence[Record], points: Any) -> Iterator[Piece]:
    groups, size = records[-1]["stop"], records[0]["size"]
    for group in sorted({min(groups - 1, int(point / size * groups)) for point in points}):
        yield Piece({**records[0], "start": group, "stop": group + 1}, size / groups)
