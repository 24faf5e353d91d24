"""Replays: whether triples come out the same when made again from their sentences, with the recorded models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.ops.inspect.remake import Workshop
from corpusgen.ops.inspect.stored import Origins, Stored
from corpusgen.store.rows import Row, plain_rows
from corpusgen.tables import TRIPLE_REJECTS, TRIPLES

# Stored values are rounded to five decimals. Next to other sentences, a model's numbers differ in the seventh
# decimal, which can change the fifth by one: that is not counted as a difference.
_TOLERANCE = 1.5e-5
_AT_ONCE = 256


class ChangedColumn(NamedTuple):
    """A column whose value has changed."""

    column: str
    stored: Any
    now: Any


@dataclass(frozen=True)
class Remade:
    """The new outcome of a target: a triple, a reject with its reason, or a failure with its error."""

    outcome: str
    row: Row

    @staticmethod
    def of(batch: Batch) -> dict[str, Remade]:
        """Return the outcome of each row that went in, by its id."""
        found: dict[str, Remade] = {}
        for outcome, table in (("triple", batch.rows), ("reject", batch.rejects)):
            if table is not None:
                found |= {row["id"]: Remade(outcome, row) for row in plain_rows(table)}
        for failure in batch.quarantined:
            found[failure["record"]["id"]] = Remade("failure", {"error": failure["error"]})
        return found


@dataclass(frozen=True)
class Replayed:
    """A stored row compared with what it would be now; `same_code` and `note` are from the workshop."""

    id: str
    target: str
    outcome: str
    differences: Sequence[ChangedColumn] = field(default_factory=list)
    same_code: bool = True
    note: str | None = None

    @property
    def same(self) -> bool:
        """Return whether nothing differs."""
        return not self.differences


def compare(stored: Stored, now: Remade) -> list[ChangedColumn]:
    """Compare column by column; numbers are the same if they differ by no more than rounding does."""
    outcome = "triple" if stored.is_triple else "reject"
    if outcome != now.outcome:
        told = now.row.get("reason") or now.row.get("error") or now.row.get("positive_word")
        before = stored.row.get("reason") or stored.row.get("positive_word")
        return [ChangedColumn("outcome", f"{outcome}: {before}", f"{now.outcome}: {told}")]
    names = (TRIPLES if stored.is_triple else TRIPLE_REJECTS).names
    pairs = ((name, stored.row.get(name), now.row.get(name)) for name in names if name != "unit")
    return [ChangedColumn(*pair) for pair in pairs if not _same(*pair[1:])]


def _same(stored: Any, now: Any) -> bool:
    if isinstance(stored, float) and isinstance(now, float):
        return abs(stored - now) <= _TOLERANCE
    return bool(stored == now)


def replay(chosen: Sequence[Stored]) -> Iterator[Replayed]:
    """Make triples and rejects again, store by store, because each store may have its own models."""
    origins = Origins()
    by_store: dict[str, list[Stored]] = {}
    for stored in map(origins.of, chosen):
        by_store.setdefault(stored.store.url, []).append(stored)
    for group in by_store.values():
        workshop = Workshop(group[0].store)
        for first in range(0, len(group), _AT_ONCE):
            yield from replay_group(group[first : first + _AT_ONCE], workshop)


def replay_group(group: Sequence[Stored], workshop: Workshop) -> Iterator[Replayed]:
    """Make triples and rejects again with stages that are already set up."""
    batch = Batch(workshop.targets([stored.row for stored in group]))
    for stage in workshop.stages:
        batch = run_stage(stage, batch)
    remade: Mapping[str, Remade] = Remade.of(batch)
    for stored in group:
        now = remade[stored.row["id"]]
        yield Replayed(
            *(stored.row["id"], stored.row["target"], now.outcome, compare(stored, now)),
            same_code=workshop.same_code,
            note=workshop.note,
        )
