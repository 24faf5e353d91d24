"""Functions that pick rows of a committed table, at random or by id, and keep only those in memory."""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.store import CommittedTable, Part

Row = dict[str, Any]


def plain_rows(batch: pa.RecordBatch | pa.Table) -> list[Row]:
    """Return rows for people and JSON: a float32 is shown as 0.7, not as the 0.699999988079071 it equals."""
    columns = [
        # Convert by way of text, because the shortest decimals of a float32 are those that were stored.
        column.cast(pa.string()).cast(pa.float64()) if pa.types.is_float32(column.type) else column
        for column in batch.columns
    ]
    rows: list[Row] = pa.Table.from_arrays(columns, names=batch.schema.names).to_pylist()
    return rows


def random_rows(table: CommittedTable, number: int, seed: int = 0, word: str | None = None) -> list[Row]:
    """Return random rows of a table with `id` and `target`: the same for a seed, whatever the order of the units.

    The rows with the lowest hash of seed, id and target are taken, so that one pass and memory for `number` rows are
    enough. With `word`, only rows with this target are taken, ignoring case.
    """
    chosen = heapq.nsmallest(number, _priorities(table, seed, word))
    return rows_at(table, [place for _, place in chosen])


class RowPlace(NamedTuple):
    """The place of a row: the number of its part, and its number within the part."""

    part: int
    row: int


def find_rows(table: CommittedTable, id_: str, target: str | None = None) -> list[Row]:
    """Return the rows with this id and, if given, this target."""
    return rows_at(table, list(_places(table, id_, target)))


def rows_at(table: CommittedTable, places: Sequence[RowPlace]) -> list[Row]:
    """Return the rows at these places, in order; of each part, only the wanted rows are kept."""
    wanted: Mapping[int, list[int]] = defaultdict(list)
    for place in places:
        wanted[place.part].append(place.row)
    found: dict[RowPlace, Row] = {}
    for part, rows in wanted.items():
        for first, batch in _numbered(table, table.parts[part]):
            inside = [row for row in rows if first <= row < first + batch.num_rows]
            taken = plain_rows(batch.take(pa.array([row - first for row in inside], pa.int64())))
            found |= {RowPlace(part, row): values for row, values in zip(inside, taken, strict=True)}
    return [found[place] for place in places]


def _priorities(table: CommittedTable, seed: int, word: str | None) -> Iterator[tuple[bytes, RowPlace]]:
    for number, part in enumerate(table.parts):
        for first, batch in _numbered(table, part, ("id", "target")):
            rows = range(batch.num_rows) if word is None else _rows_of_word(batch, word)
            ids, targets = batch["id"].to_pylist(), batch["target"].to_pylist()
            for row in rows:
                key = hashlib.blake2b(f"{seed} {ids[row]} {targets[row]}".encode(), digest_size=12).digest()
                yield key, RowPlace(number, first + row)


def _places(table: CommittedTable, id_: str, target: str | None) -> Iterator[RowPlace]:
    for number, part in enumerate(table.parts):
        for first, batch in _numbered(table, part, ("id", "target")):
            same = pc.equal(batch["id"], id_)
            if target is not None:
                same = pc.and_(same, pc.equal(batch["target"], target))
            for row in pc.indices_nonzero(same).to_pylist():
                yield RowPlace(number, first + row)


def _rows_of_word(batch: pa.RecordBatch, word: str) -> list[int]:
    rows: list[int] = pc.indices_nonzero(pc.equal(pc.utf8_lower(batch["target"]), word.lower())).to_pylist()
    return rows


def _numbered(
    table: CommittedTable, part: Part, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches of a part, each with the number of its first row."""
    first = 0
    for batch in table.part_batches(part, columns):
        yield first, batch
        first += batch.num_rows
