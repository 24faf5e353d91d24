"""Reading committed tables: Arrow batches, only the columns asked for, always in the same order."""

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
    """A table of a pass as it was committed when this object was made.

    Rows come in the order of the plan, whatever the order in which the units were done. A build may go on
    meanwhile: what it commits later is not seen; make a new object to see it. With `finished` the pass must be
    complete, and is waited for if its last commits do not show yet: for what is made from all of its rows.

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
        """Whether every unit of the plan was committed."""

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of this table in reading order; units without rows have none."""
        commits = self._known or self._pass.commits(self._done)
        return [commit.parts[self.name] for commit in commits if self.name in commit.parts]

    @property
    def num_rows(self) -> int:
        """How many rows there are; no part is opened for it."""
        return sum(part.rows for part in self.parts)

    def batches(self, columns: Sequence[str] | None = None, batch_size: int = 8192) -> Iterator[pa.RecordBatch]:
        """All rows as record batches of at most `batch_size` rows; a batch never spans two parts."""
        return self._batches(self.parts, columns, batch_size)

    def part_batches(
        self, part: Part, columns: Sequence[str] | None = None, batch_size: int = 8192
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        return self._batches([part], columns, batch_size)

    def _batches(
        self, parts: Sequence[Part], columns: Sequence[str] | None, batch_size: int
    ) -> Iterator[pa.RecordBatch]:
        unknown = [name for name in columns or () if name not in self.schema.names]
        if unknown:
            raise StoreError(
                f"table {self.name!r} has no column {', '.join(unknown)}; it has {', '.join(self.schema.names)}"
            )
        # All bytes of a part, also for some of its columns: only the whole has a hash that tells whether it is damaged.
        for data in read_parts(self._pass.files, parts):
            with pq.ParquetFile(pa.BufferReader(data)) as file:
                yield from file.iter_batches(batch_size, columns=columns)

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Everything in memory: for small tables."""
        batches = list(self.batches(columns))
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        return pa.Table.from_batches(batches, schema)


class TripleStore(CommittedTable):
    """The triples of a corpus."""

    def __init__(self, root: str | Store) -> None:
        super().__init__(root, "generate", "triples")
