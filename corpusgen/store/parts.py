"""Functions that encode parts as Parquet and read them back, checking every byte against the commit."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.errors import DamagedPartError
from corpusgen.io.files import Files
from corpusgen.store.records import Part


def encoded(table: pa.Table) -> pa.Buffer:
    """Return the bytes of a part with these rows."""
    sink = pa.BufferOutputStream()
    # One chunk per column: the bytes must not depend on how the rows arrived.
    pq.write_table(table.combine_chunks(), sink, compression="zstd")
    return sink.getvalue()


def read_part(files: Files, part: Part, thorough: bool = False) -> bytes:
    """Return the bytes of a file that a commit names; raise DamagedPartError if they are not the committed ones.

    With `thorough`, check the sha256 even if there is a crc32, which is enough to detect faults of disks and memory.
    """
    try:
        data = files.read(part.path)
    except FileNotFoundError:
        problem = f"{part.path} is missing"
    else:
        if thorough or part.crc32 is None:
            sound, checksum = hashlib.sha256(data).hexdigest() == part.sha256, "sha256"
        else:
            sound, checksum = zlib.crc32(data) == part.crc32, "crc32"
        if sound:
            return data
        problem = f"{part.path} is damaged: its {checksum} is not the committed one"
    remedy = (
        f"run `corpusgen verify --repair {files.url}`, which removes it and what was made from it, then build again"
    )
    raise DamagedPartError(f"{files.url}/{problem}; {remedy}", problem)


def read_parts(files: Files, parts: Sequence[Part]) -> Iterator[bytes]:
    """Yield the bytes of parts in order, fetching and checking the next one while the caller works on this one."""
    if len(parts) < 2:
        yield from (read_part(files, part) for part in parts)
        return
    with ThreadPoolExecutor(1) as ahead:
        following: Future[bytes] | None = None
        for part in parts:
            current, following = following, ahead.submit(read_part, files, part)
            if current:
                yield current.result()
        if following:
            yield following.result()
