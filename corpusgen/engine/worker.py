"""The Ray actor that runs one stage and, for the last stage, commits units."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import ray

from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import quarantine_all, run_stage
from corpusgen.engine.local import set_up
from corpusgen.engine.memory import FreedMemory
from corpusgen.engine.passes import Sink, first_batch
from corpusgen.engine.stage import Stage
from corpusgen.store import StageCount


@dataclass(frozen=True, slots=True)
class Order:
    """The instructions for a worker on the batches that come with them, one per unit."""

    units: Sequence[str]
    attempt: str
    records: Sequence[Sequence[Mapping[str, Any]]] | None = None
    """The units' records, for the first stage instead of batches."""
    rows: tuple[int, int] | None = None
    """The range of rows to process, when a unit that kills its workers is split."""
    process: bool = True
    deadly: str | None = None
    """The error with which to quarantine the rows instead of processing them."""
    commit: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome that a worker reports to the driver; the rows stay where they are."""

    rows: int
    nbytes: int
    seconds: float
    counts: Sequence[StageCount]
    """One per unit, if the stage was run."""
    won: Sequence[bool] = ()
    """One per unit, if it was to be committed."""


class StageWorker:
    """One worker of a stage."""

    def __init__(self, stage: Stage, sink: Sink | None) -> None:
        # As Ray does with OMP_NUM_THREADS: otherwise each worker's tokenizer starts a thread per core of the machine.
        os.environ.setdefault("RAYON_NUM_THREADS", str(max(1, int(stage.resources.cpus))))
        self._stage = stage
        self._sink = sink
        self._freed = FreedMemory()

    def locate(self) -> str:
        """Return the id of the node that this worker runs on."""
        return str(ray.get_runtime_context().get_node_id())

    def setup(self) -> None:
        """Load the stage's models."""
        set_up([self._stage])

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
    def run(self, order: Order, *inputs: Sequence[Batch]) -> tuple[Sequence[Batch], Report]:
        """Carry out an order. Each input holds a batch for every unit or, for a single unit, a piece of it."""
        started = time.perf_counter()
        if order.records is not None:
            batches = [first_batch(records) for records in order.records]
        else:
            batches = [Batch.concat(pieces) for pieces in zip(*inputs, strict=True)]
        if order.rows:
            batches = [batch.slice(*order.rows) for batch in batches]
        if order.deadly:
            batches = [quarantine_all(self._stage, batch, order.deadly) for batch in batches]
        elif order.process:
            batches = [run_stage(self._stage, batch) for batch in batches]
        counts = [batch.stages[self._stage.name] for batch in batches] if order.process else []
        rows, nbytes = sum(batch.num_rows for batch in batches), sum(batch.nbytes for batch in batches)
        won: list[bool] = []
        if order.commit:
            assert self._sink is not None
            won = list(map(self._sink.commit, order.units, repeat(order.attempt), batches))
            batches, nbytes = [], 0
        self._freed.give_back()
        return batches, Report(rows, nbytes, time.perf_counter() - started, counts, won)
