"""A reader of committed tables: Arrow batches of the requested columns, always in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.errors import StoreError
from corpusgen.store.parts import read_parts
from corpusgen.store.records import Part
from corpusgen.store.store import PassStore, Store


class CommittedTable:
    """A table of a pass as it was committed when this object was created.

    Rows come in the order of the plan, whatever the order in which units finished. A build may still be running: what
    it commits later is visible only to a new object. With `finished` the pass must be complete, for work that needs all
    of its rows; commits that do not show yet are waited for.

    >>> sentences = CommittedTable("corpora/en", "harvest", "sentences")   # doctest: +SKIP
    >>> for batch in sentences.batches(columns=["text"]): ...              # doctest: +SKIP
    """

    def __init__(self, root: str | Store, pass_name: str, table: str, *, finished: bool = False) -> None:
        store = root if isinstance(root, Store) else Store.at(root)
        self._pass: PassStore = store.pass_store(pass_name)
        plan = self._pass.plan(wait=finished)
        if table not in plan.tables:
            raise StoreError(
                f"{store.url}: the pass {pass_name!r} has no table {table!r}; it has {', '.join(plan.tables)}"
            )
        self.name = table
        self.schema: pa.Schema = plan.tables[table]
        self._known = self._pass.all_commits(plan) if finished else None
        self._done = [unit.id for unit in plan.units] if finished else self._pass.done_units(plan)
        self.complete = len(self._done) == len(plan.units)
        """Whether every unit of the plan is committed."""

    @cached_property
    def parts(self) -> list[Part]:
        """Return the parts of this table in reading order; units without rows have none."""
        commits = self._known or self._pass.commits(self._done)
        return [commit.parts[self.name] for commit in commits if self.name in commit.parts]

    @property
    def num_rows(self) -> int:
        """Return the number of rows, without opening any part."""
        return sum(part.rows for part in self.parts)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = 8192) -> Iterator[pa.RecordBatch]:
        """Read the rows in bounded memory, always in the same order.

        Args:
            columns: The columns to read; None for all.
            batch_size: The most rows in a batch; a batch never spans two parts.

        Returns:
            An iterator over record batches with all rows that were committed when this table was opened.

        Raises:
            StoreError: If there is no such column, or a part is damaged or cannot be read; raised by the iterator.
        """
        return self._batches(self.parts, columns, batch_size)

    def part_batches(
        self, part: Part, columns: Sequence[str] | None = None, batch_size: int = 8192
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part as record batches."""
        return self._batches([part], columns, batch_size)

    def _batches(
        self, parts: Sequence[Part], columns: Sequence[str] | None, batch_size: int
    ) -> Iterator[pa.RecordBatch]:
        unknown = [name for name in columns or () if name not in self.schema.names]
        if unknown:
            raise StoreError(
                f"table {self.name!r} has no column {', '.join(unknown)}; it has {', '.join(self.schema.names)}"
            )
        # Read all bytes of a part even for a few columns: only the whole part has a hash that reveals damage.
        for data in read_parts(self._pass.files, parts):
            with pq.ParquetFile(pa.BufferReader(data)) as file:
                yield from file.iter_batches(batch_size, columns=columns)

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Load the whole table into memory; for small tables."""
        batches = list(self.batches(columns))
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches(batches, schema)
