"""Passes: stages over units, and the tables they leave in the store."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from corpusgen.config.run import RunSettings
from corpusgen.engine.batch import Batch
from corpusgen.engine.counters import Tally, check_failure_limit
from corpusgen.engine.stage import Stage, check_columns
from corpusgen.errors import StageError
from corpusgen.io.hashing import content_hash
from corpusgen.store import PassStore, Plan, Totals, Unit

REJECTS = "rejects"
_HOST = socket.gethostname()


@dataclass(frozen=True)
class Pass:
    """A pass: its stages, the inputs of its units (`slices`, one sequence of records each) and its tables.

    The first of `tables` takes the rows that leave the last stage. A table named `rejects`, if there is one, takes
    the rejected rows; without it they are only counted. A column `unit` is filled with the unit's id. `derived` tables
    are made from all rows of a unit at once, when it is committed.
    """

    name: str
    stages: Sequence[Stage]
    slices: Sequence[Sequence[Mapping[str, Any]]]
    tables: Mapping[str, pa.Schema]
    derived: Mapping[str, Callable[[pa.Table], pa.Table]] = field(default_factory=dict)

    def plan(self) -> Plan:
        """Return the plan; raise StageError if the stages do not fit together."""
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise StageError(f"pass {self.name!r}: two stages have the same name ({', '.join(names)})")
        if self.slices:
            problem = check_columns(self.stages, set(self.slices[0][0]))
            if problem:
                raise StageError(f"pass {self.name!r}: {problem}")
        fingerprint = content_hash({"pass": self.name, "stages": [stage.identity() for stage in self.stages]})
        return Plan.of(fingerprint, self.slices, self.tables)


def first_batch(records: Sequence[Mapping[str, Any]]) -> Batch:
    """Return the records of a unit as rows for its first stage."""
    return Batch(pa.Table.from_pylist([dict(record) for record in records]))


@dataclass(frozen=True)
class Sink:
    """The destination of finished batches. It can be pickled: each worker of the last stage has its own."""

    store: PassStore
    tables: Mapping[str, pa.Schema]
    derived: Mapping[str, Callable[[pa.Table], pa.Table]] = field(default_factory=dict)

    def commit(self, unit: str, attempt: str, batch: Batch) -> bool:
        """Write and commit a batch; return False if another attempt has committed the unit."""
        main = next(iter(self.tables))
        tables = {main: batch.rows, REJECTS: batch.rejects}
        if batch.rows is not None:
            tables |= {name: derive(batch.rows) for name, derive in self.derived.items()}
        return self.store.commit(
            unit,
            attempt,
            {
                name: self._conform(name, table, unit)
                for name, table in tables.items()
                if name in self.tables and table is not None
            },
            batch.quarantined,
            list(batch.stages.values()),
            worker=f"{_HOST}:{os.getpid()}",
            now=time.time(),
        )

    def _conform(self, name: str, table: pa.Table, unit: str) -> pa.Table:
        """Return the rows with the columns of the stored table. A reject lacks those of the stages it did not reach."""
        schema = self.tables[name]
        for column in schema:
            if column.name == "unit" and "unit" not in table.column_names:
                table = table.append_column(column, pa.array([unit] * table.num_rows, column.type))
            elif name == REJECTS and column.name not in table.column_names:
                table = table.append_column(column, pa.nulls(table.num_rows, column.type))
        try:
            return table.select(schema.names).cast(schema)
        except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise StageError(f"the rows for table {name!r} do not have its columns: {error}") from error


class Executor(Protocol):
    """A runner that processes and commits units, and keeps the tally."""

    def run(self, pass_: Pass, store: PassStore, units: Sequence[Unit], tally: Tally) -> None:
        """Process units until all are committed; raise a CorpusgenError if that fails."""


def run_pass(pass_: Pass, store: PassStore, executor: Executor, settings: RunSettings) -> Totals:
    """Run the units of a pass that are not committed yet, and return the totals of the whole pass."""
    plan = pass_.plan()
    store.ensure_plan(plan)
    done = set(store.done_units(plan))
    units = [unit for unit in plan.units if unit.id not in done]
    if units:
        executor.run(pass_, store, units, Tally.of(pass_.name, pass_.stages, len(plan.units), len(done)))
    totals = Totals(len(plan.units), rows=dict.fromkeys(plan.tables, 0))
    for commit in store.all_commits(plan):
        totals.add(commit)
    check_failure_limit(list(totals.stages.values()), settings.failure_limit)
    return totals
