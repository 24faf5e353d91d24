"""The batches that move between stages: the rows of a unit, with its rejects, failures and counts so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pickle import PickleBuffer
from typing import Any, SupportsIndex

import pyarrow as pa

from corpusgen.store import StageCount


@dataclass(frozen=True)
class Batch:
    """The rows of one unit (None when none are left), its rejects, its quarantined records, and a count per stage."""

    rows: pa.Table | None
    rejects: pa.Table | None = None
    quarantined: Sequence[Mapping[str, Any]] = ()
    stages: Mapping[str, StageCount] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        """Return how many rows are left."""
        return 0 if self.rows is None else int(self.rows.num_rows)

    @property
    def nbytes(self) -> int:
        """Return how many bytes of memory the tables take."""
        return sum(table.nbytes for table in (self.rows, self.rejects) if table is not None)

    def slice(self, start: int, stop: int) -> Batch:
        """Return a slice of the rows. Rejects, failures and counts go with the first slice, so none counts twice."""
        rows = None if self.rows is None else self.rows.slice(start, stop - start)
        if start == 0:
            return Batch(rows, self.rejects, self.quarantined, self.stages)
        return Batch(rows)

    @staticmethod
    def concat(batches: Sequence[Batch]) -> Batch:
        """Join batches: the inverse of `slice`."""
        if len(batches) == 1:
            return batches[0]
        stages: dict[str, StageCount] = {}
        for batch in batches:
            for name, count in batch.stages.items():
                stages[name] = stages[name] + count if name in stages else count
        return Batch(
            concat_tables(batch.rows for batch in batches),
            concat_tables(batch.rejects for batch in batches),
            [record for batch in batches for record in batch.quarantined],
            stages,
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        # Arrow's own stream format is several times cheaper than pickling small tables column by column, it cuts
        # slices down to their rows, and the reader maps the buffer without a copy.
        streams = [None if table is None else _to_stream(table) for table in (self.rows, self.rejects)]
        if protocol.__index__() < 5:  # no out-of-band buffers
            streams = [None if stream is None else stream.to_pybytes() for stream in streams]
        else:
            streams = [None if stream is None else PickleBuffer(stream) for stream in streams]
        return _rebuild, (*streams, self.quarantined, self.stages)


def concat_tables(tables: Iterable[pa.Table | None]) -> pa.Table | None:
    """Join the tables that have rows; return None if none has."""
    present = [table for table in tables if table is not None and table.num_rows]
    return pa.concat_tables(present, promote_options="default") if present else None


def _to_stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _rebuild(
    rows: Any, rejects: Any, quarantined: Sequence[Mapping[str, Any]], stages: Mapping[str, StageCount]
) -> Batch:
    return Batch(_from_stream(rows), _from_stream(rejects), quarantined, stages)


def _from_stream(stream: Any) -> pa.Table | None:
    return None if stream is None else pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
