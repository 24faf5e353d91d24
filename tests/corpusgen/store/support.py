"""A pass small enough to reason about: numbers in, squares out, multiples of seven rejected; and what is in a store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from corpusgen.io.files import Files
from corpusgen.store import CommittedTable, PassStore, Plan, StageCount, Store, Totals, Unit
from corpusgen.store.status import PassStatus

SQUARES = pa.schema([("number", pa.int64()), ("square", pa.int64()), ("text", pa.string())])
REJECTS = pa.schema([("number", pa.int64()), ("reason", pa.string())])
TABLES = {"squares": SQUARES, "rejects": REJECTS}
CORPUS = {"language": "en", "passes": ["demo"]}


def make_plan(units: int = 3, numbers_each: int = 5, fingerprint: str = "demo-1") -> Plan:
    slices = [[{"start": i * numbers_each, "stop": (i + 1) * numbers_each}] for i in range(units)]
    return Plan.of(fingerprint, slices, TABLES)


def start(root: str | Store, plan: Plan | None = None) -> tuple[Store, PassStore, Sequence[Unit]]:
    """A corpus whose pass `demo` is planned and not begun."""
    store = root if isinstance(root, Store) else Store.at(root)
    store.ensure_corpus(CORPUS)
    demo = store.pass_store("demo")
    plan = plan or make_plan()
    demo.ensure_plan(plan)
    return store, demo, plan.units


def results(
    unit: Unit, text: str = "", bad: Collection[int] = ()
) -> tuple[dict[str, pa.Table], list[dict[str, Any]], list[StageCount]]:
    """What the stages make of a unit; `text` is what attempts can differ in, `bad` numbers are quarantined."""
    numbers = [n for record in unit.records for n in range(record["start"], record["stop"])]
    good = [n for n in numbers if n % 7 and n not in bad]
    rejected = [n for n in numbers if n % 7 == 0 and n not in bad]
    quarantined = [{"unit": unit.id, "stage": "square", "number": n} for n in numbers if n in bad]
    tables = {
        "squares": pa.table([good, [n * n for n in good], [f"{n}{text}" for n in good]], schema=SQUARES),
        "rejects": pa.table([rejected, ["multiple"] * len(rejected)], schema=REJECTS),
    }
    counts = {"multiple": len(rejected)} if rejected else {}
    stages = [
        StageCount("count", rows_in=len(unit.records), rows_out=len(numbers), expands=True),
        StageCount("square", len(numbers), len(good), counts, len(quarantined)),
    ]
    return tables, quarantined, stages


def commit(
    demo: PassStore,
    unit: Unit,
    attempt: str = "run-1",
    text: str = "",
    bad: Collection[int] = (),
    now: float = 1.0,
) -> bool:
    """Do a unit and commit it, as a worker does."""
    tables, quarantined, stages = results(unit, text, bad)
    return demo.commit(unit.id, attempt, tables, quarantined, stages, worker="host:1", now=now)


def commit_all(demo: PassStore, units: Sequence[Unit], **settings: Any) -> None:
    for unit in units:
        assert commit(demo, unit, **settings)


def paths(demo: PassStore, folder: str) -> list[str]:
    return [info.path for info in demo.files.list(f"{demo.name}/{folder}")]


def numbers(store: Store, table: str = "squares") -> list[int]:
    return CommittedTable(store, "demo", table).to_table()["number"].to_pylist()


def totals(demo: PassStore) -> Totals:
    return PassStatus(demo).refresh()


def names(files: Files, folder: str) -> list[str]:
    return [info.path for info in files.list(folder)]


def unfinished(files: Files, folder: str) -> list[str]:
    return [info.path for info in files.list_unfinished(folder)]
