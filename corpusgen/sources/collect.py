"""Collect what the reader of a unit finds, in bounded memory whatever the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from corpusgen.engine import Result
from corpusgen.errors import CorpusgenError
from corpusgen.tables import PROVENANCE, TEXT_REJECTS

MOST_ROWS = 1_000_000
MOST_BYTES = 256 << 20
_CHUNK_ROWS = 50_000
_CHUNK_BYTES = 32 << 20
_LONGEST_ERROR = 500
_COLUMNS = tuple(name for name, _ in PROVENANCE)

Provenance = tuple[str, str | None, str | None, str | None]
"""Source, article, title and revision."""


class UnitIsFullError(Exception):
    """The unit has as many rows or bytes as it may have."""


class Collected:
    """Rows, rejects and quarantined records. Columns become Arrow arrays as they grow, at a fraction of the memory.

    If it is `bounded`, it takes MOST_ROWS rows and MOST_BYTES bytes: those of the records, and the provenance of each
    record once for every line of it.
    """

    def __init__(self, schema: pa.Schema, bounded: bool = True) -> None:
        self.quarantined: list[dict[str, Any]] = []
        self._schema = schema
        self._bounded = bounded
        self._chunks: list[pa.Table] = []
        self._provenances: list[Provenance] = []
        self._counts: list[int] = []  # of texts, for each provenance
        self._texts: list[str] = []
        self._chunk_bytes = 0
        self._rejects: list[list[Any]] = [[] for _ in TEXT_REJECTS]
        self._rows = 0  # of all three kinds
        self._bytes = 0

    @property
    def rejected(self) -> int:
        """Return how many articles were rejected."""
        return len(self._rejects[0])

    def paragraphs(self, provenance: Provenance, texts: Sequence[str], size: int = 0) -> None:
        """Take the non-empty paragraphs of an article, numbered; its record has `size` bytes."""
        kept = [text for text in map(str.strip, texts) if text]
        if kept:
            self._add(provenance, kept, size, len(kept))

    def article(self, provenance: Provenance, text: str, size: int) -> None:
        """Take an article as a whole. It may become as many rows as it has lines."""
        self._add(provenance, [text], size, text.count("\n") + 1)

    def reject(self, source: str, article: str | None, reason: str) -> None:
        """Take a rejected article and the reason."""
        self._make_room(1, 0)
        for column, value in zip(self._rejects, (source, article, reason), strict=True):
            column.append(value)

    def problem(self, error: str, record: Mapping[str, Any]) -> None:
        """Take a record that cannot be used, named by where it is."""
        self._make_room(1, 0)
        self.problem_at_last(error, record)

    def problem_at_last(self, error: str, record: Mapping[str, Any]) -> None:
        """Take a record that cannot be used, even if the unit is full."""
        message = error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}…"
        self.quarantined.append({"error": message.encode(errors="backslashreplace").decode(), "record": dict(record)})

    def result(self, used: int | None = None) -> Result:
        """Return everything that was taken."""
        self._close_chunk()
        rows = pa.concat_tables(self._chunks) if self._chunks else self._schema.empty_table()
        rejects = pa.Table.from_arrays(self._rejects, schema=TEXT_REJECTS) if self.rejected else None
        return Result(rows, rejects, self.quarantined, used)

    def _add(self, provenance: Provenance, texts: list[str], size: int, lines: int) -> None:
        source, article, title, revision = provenance
        size += lines * (len(source) + len(article or "") + len(title or "") + len(revision or ""))
        self._make_room(len(texts), size)
        self._provenances.append(provenance)
        self._counts.append(len(texts))
        self._texts += texts
        self._chunk_bytes += size
        if len(self._texts) >= _CHUNK_ROWS or self._chunk_bytes >= _CHUNK_BYTES:
            self._close_chunk()

    def _make_room(self, rows: int, size: int) -> None:
        if not self._bounded:
            return
        if rows > MOST_ROWS or size > MOST_BYTES:
            raise ValueError(f"the record is too large: {rows:,} rows, {size >> 20:,} MB with the source of each")
        if self._rows + rows > MOST_ROWS or self._bytes + size > MOST_BYTES:
            raise UnitIsFullError
        self._rows += rows
        self._bytes += size

    def _close_chunk(self) -> None:
        if not self._texts:
            return
        counted = list(zip(self._provenances, self._counts, strict=True))
        columns: dict[str, list[Any]] = {
            name: [provenance[index] for provenance, count in counted for _ in range(count)]
            for index, name in enumerate(_COLUMNS)
        }
        columns["paragraph"] = [number for count in self._counts for number in range(count)]
        columns["text"] = self._texts
        self._chunks.append(pa.Table.from_arrays([columns[name] for name in self._schema.names], schema=self._schema))
        self._provenances, self._counts, self._texts, self._chunk_bytes = [], [], [], 0


def lines_of(text: str) -> list[str]:
    """Split a text into lines; raise ValueError if they alone are more than a unit may have."""
    if text.count("\n") >= MOST_ROWS:
        raise ValueError(f"the text has more than {MOST_ROWS:,} lines")
    return text.split("\n")


def encodable(text: str) -> str:
    """Return the text; raise ValueError if a table cannot hold it, as all other rows would be lost with it."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"half of a surrogate pair, {text[error.start]!a}, which is not a character") from error
    return text


def is_the_machines(error: Exception) -> bool:
    """Return whether an error is not a record's fault: then the unit must fail, and no record is blamed."""
    if isinstance(error, CorpusgenError | MemoryError | ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno is not None
