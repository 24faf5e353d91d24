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
from corpusgen.store.products import Member

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


def words_in(batch: pa.RecordBatch, member: Member) -> list[str | None]:
    """Return the word of a member in each row; None where the member is null."""
    if member.word:
        words: list[str | None] = batch[member.word].to_pylist()
        return words
    spans = zip(*(batch[name].to_pylist() for name in member.columns), strict=True)
    return [None if start is None else text[start:end] for text, start, end in spans]


def random_rows(
    table: CommittedTable, number: int, seed: int = 0, word: str | None = None, column: str | None = "target"
) -> list[Row]:
    """Return random rows of a table with `id`: the same for a seed, whatever the order of the units.

    The rows with the lowest hash of seed, id and word are taken, so that one pass and memory for `number` rows are
    enough. `column` has the word, if there is one; with `word`, only rows with this word are taken, ignoring case.
    """
    chosen = heapq.nsmallest(number, _priorities(table, seed, word, column))
    return rows_at(table, [position for _, position in chosen])


class RowPosition(NamedTuple):
    """Where a row is: the number of its part, and its number within the part."""

    part: int
    row: int


def find_rows(table: CommittedTable, id_: str, word: str | None = None, column: str | None = "target") -> list[Row]:
    """Return the rows with this id and, if given, this word in `column`."""
    return rows_at(table, list(_positions(table, id_, word, column)))


def rows_at(table: CommittedTable, positions: Sequence[RowPosition]) -> list[Row]:
    """Return the rows at these positions, in order; of each part, only the wanted rows are kept."""
    wanted: Mapping[int, list[int]] = defaultdict(list)
    for position in positions:
        wanted[position.part].append(position.row)
    found: dict[RowPosition, Row] = {}
    for part, rows in wanted.items():
        for first, batch in _numbered(table, table.parts[part]):
            inside = [row for row in rows if first <= row < first + batch.num_rows]
            taken = plain_rows(batch.take(pa.array([row - first for row in inside], pa.int64())))
            found |= {RowPosition(part, row): values for row, values in zip(inside, taken, strict=True)}
    return [found[position] for position in positions]


def _priorities(
    table: CommittedTable, seed: int, word: str | None, column: str | None
) -> Iterator[tuple[bytes, RowPosition]]:
    columns = ["id"] if column is None else ["id", column]
    for number, part in enumerate(table.parts):
        for first, batch in _numbered(table, part, columns):
            rows = range(batch.num_rows) if word is None else _rows_of_word(batch, word, column)
            keys = list(zip(*(batch[name].to_pylist() for name in columns), strict=True))
            for row in rows:
                key = hashlib.blake2b(" ".join(map(str, (seed, *keys[row]))).encode(), digest_size=12).digest()
                yield key, RowPosition(number, first + row)


def _positions(table: CommittedTable, id_: str, word: str | None, column: str | None) -> Iterator[RowPosition]:
    columns = ["id"] if word is None or column is None else ["id", column]
    for number, part in enumerate(table.parts):
        for first, batch in _numbered(table, part, columns):
            same = pc.equal(batch["id"], id_)
            if len(columns) > 1:
                same = pc.and_(same, pc.equal(batch[column], word))
            for row in pc.indices_nonzero(same).to_pylist():
                yield RowPosition(number, first + row)


def _rows_of_word(batch: pa.RecordBatch, word: str, column: str | None) -> list[int]:
    rows: list[int] = pc.indices_nonzero(pc.equal(pc.utf8_lower(batch[column]), word.lower())).to_pylist()
    return rows


def _numbered(
    table: CommittedTable, part: Part, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches of a part, each with the number of its first row."""
    first = 0
    for batch in table.part_batches(part, columns):
        yield first, batch
        first += batch.num_rows
