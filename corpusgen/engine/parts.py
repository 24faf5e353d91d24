"""Building blocks of passes over committed parts: records that name parts, and stages that read them.

The records of such a unit name parts by path and hash, so that the unit's id depends on the exact bytes it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.config.run import Resources
from corpusgen.engine.stage import Stage
from corpusgen.store import CommittedTable, Part, Store
from corpusgen.store.parts import read_parts

PartRecord = dict[str, Any]


def part_records(table: CommittedTable) -> list[PartRecord]:
    """Return a record for each part of a table, in reading order."""
    return [
        {"part": part.path, "sha256": part.sha256, "rows": part.rows}
        | ({} if part.crc32 is None else {"crc32": part.crc32})
        for part in table.parts
    ]


def grouped(records: Sequence[PartRecord], rows: int) -> list[list[PartRecord]]:
    """Group whole neighbouring parts into units of about `rows` rows."""
    groups: list[list[PartRecord]] = []
    size = 0
    for record in records:
        if not groups or size >= rows:
            groups.append([])
            size = 0
        groups[-1].append(record)
        size += record["rows"]
    return groups


def row_slices(parts: Sequence[PartRecord], rows: int) -> list[list[PartRecord]]:
    """Split parts into units of exactly `rows` rows, for `ReadRows`: small parts are joined, large ones cut."""
    units: list[list[PartRecord]] = []
    room = 0
    for part in parts:
        first = 0
        while first < part["rows"]:
            if not room:
                units.append([])
                room = rows
            count = min(room, part["rows"] - first)
            units[-1].append({**part, "first": first, "rows": count})
            first, room = first + count, room - count
    return units


@dataclass
class OverParts(Stage):
    """A stage that reads parts of a store."""

    needs: ClassVar[tuple[str, ...]] = ("part", "sha256", "rows")
    expands: ClassVar[bool] = True
    rows_may_fail: ClassVar[bool] = False

    store: Store = field(kw_only=True, metadata={"content": False})

    def _tables(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Yield the parts that the records name; raise DamagedPartError if one has changed since the plan was made."""
        parts = [
            Part(record["part"], record["sha256"], record["rows"], 0, record.get("crc32"))
            for record in rows.to_pylist()
        ]
        for data in read_parts(self.store.files, parts):
            yield pq.read_table(pa.BufferReader(data))

    def _committed(self, pass_name: str, table: str) -> pa.Table:
        return CommittedTable(self.store, pass_name, table, finished=True).to_table()


@dataclass
class ReadRows(OverParts):
    """A stage that reads the rows of a unit of `row_slices`; subclasses name the columns in `adds`."""

    name: ClassVar[str] = "read"
    needs: ClassVar[tuple[str, ...]] = ("part", "sha256", "first", "rows")
    resources: Resources = field(default=Resources(cpus=0.05), kw_only=True, metadata={"content": False})

    def process(self, rows: pa.Table) -> pa.Table:
        """Read each part and return the rows of its range."""
        ranges = zip(rows["first"].to_pylist(), rows["rows"].to_pylist(), strict=True)
        return pa.concat_tables(
            table.select(self.adds).slice(first, count)
            for table, (first, count) in zip(self._tables(rows), ranges, strict=True)
        )
