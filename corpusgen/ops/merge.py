"""Merging of stores: their committed units become the units of a new pass `generate`.

A unit of the new plan stands for one unit of a source. It names that unit with the hashes of its parts, so that its id
follows from the exact bytes that go into it. Its commit has the stages of the source, followed by the stage `merge`,
whose rejects are the triples that an earlier unit has too. So the counts of the new store add up as in any other, and
the same command resumes a merge that was killed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.corpus.stored_settings import open_store
from corpusgen.errors import CorpusgenError
from corpusgen.io.hashing import content_hash
from corpusgen.store import Commit, Plan, StageCount, Store, Totals, Unit
from corpusgen.store.parts import read_part
from corpusgen.store.products import WORDS, check_holds_triples
from corpusgen.store.status import PassStatus
from corpusgen.tables import PARAPHRASES_TABLE

DUPLICATE = "same sentence and target as another"
_PASS = WORDS.pass_name
_STAGE = "merge"
_VERSION = 1
_KEY_BYTES = 16  # for each row in memory while searching for duplicates

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Source:
    """A store, and what it had committed when the merge read it."""

    store: Store
    plan: Plan
    commits: Sequence[Commit]

    @classmethod
    def at(cls, root: str) -> _Source:
        store = open_store(root)
        check_holds_triples(store)
        pass_store = store.pass_store(_PASS)
        return cls(store, pass_store.plan(), list(pass_store.commits()))

    @property
    def complete(self) -> bool:
        return len(self.commits) == len(self.plan.units)

    @property
    def tables(self) -> dict[str, pa.Schema]:
        """Return the tables to merge, without the one kept only for building again, which older stores do not have."""
        return {name: schema for name, schema in self.plan.tables.items() if name != PARAPHRASES_TABLE}


def merge(output: str, roots: Sequence[str], say: Say = lambda line: None) -> Totals:
    """Merge the triples and rejects of several stores into one, or resume; return its totals."""
    sources = [_Source.at(root) for root in roots]
    target = Store.at(output)
    _check(target, sources)
    for source in sources:
        if not source.complete:
            some = f"{len(source.commits):,} of {len(source.plan.units):,} units"
            say(f"{source.store.url} is not finished: {some} are taken, the others never will be")
    target.ensure_corpus(_corpus(sources))
    commits = [(source, commit) for source in sources for commit in source.commits]
    fingerprint = content_hash({"pass": _PASS, "stage": _STAGE, "version": _VERSION})
    plan = Plan.of(fingerprint, [[_record(*pair)] for pair in commits], sources[0].tables)
    pass_store = target.pass_store(_PASS)
    pass_store.ensure_plan(plan)
    done = pass_store.committed()
    repeated = _repeated(commits)
    for (source, commit), unit, twice in zip(commits, plan.units, repeated, strict=True):
        if unit.id not in done:
            _copy(target, plan, source.store, commit, unit, twice)
    return PassStatus(pass_store).refresh()


def merged_units(store: Store) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the origin of each unit of a merged store: `store`, `unit`, who made it, when; None for other stores."""
    if "merged" not in store.corpus():
        return None
    return {unit.id: unit.records[0] for unit in store.pass_store(_PASS).plan().units}


def _check(target: Store, sources: Sequence[_Source]) -> None:
    urls = [source.store.url for source in sources]
    twice = sorted({url for url in urls if urls.count(url) > 1})
    if twice:
        raise CorpusgenError(f"given twice: {', '.join(twice)}")
    if target.url in urls:
        raise CorpusgenError(f"{target.url} cannot be merged into itself; give a new store as OUTPUT")
    first = sources[0]
    for source in sources[1:]:
        if source.tables != first.tables:
            raise CorpusgenError(
                f"{source.store.url} has other columns than {first.store.url}: {_columns(source, first)}"
            )


def _columns(one: _Source, other: _Source) -> str:
    for table in one.tables.keys() | other.tables.keys():
        ours, theirs = (set(side.tables.get(table, pa.schema([]))) for side in (one, other))
        if ours != theirs:
            names = sorted({column.name for column in ours ^ theirs})
            return f"{', '.join(names)} of table {table!r}"
    return "they come in another order"


def _corpus(sources: Sequence[_Source]) -> dict[str, Any]:
    """Return the new corpus.json: what the sources have in common, as in any store, and all of each source's own."""
    corpora = [source.store.corpus() for source in sources]
    of_each = [corpus.get("settings", {}) for corpus in corpora]
    settings = _common(of_each)
    # Even if their units have different sizes, readers ask how positives were made.
    settings.setdefault("generate", _common([section.get("generate", {}) for section in of_each]))
    return {
        "passes": [_PASS],
        "settings": settings,
        "models": _common([corpus.get("models", {}) for corpus in corpora]),
        "merged": [
            {"store": source.store.url, "corpus": corpus} for source, corpus in zip(sources, corpora, strict=True)
        ],
    }


def _common(sections: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries that are equal in all. A section that differs is left out: half would be read as whole."""
    first, *others = sections
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


def _record(source: _Source, commit: Commit) -> dict[str, Any]:
    """Return which unit of which store this is, who made it and when, since a source may disappear one day."""
    facts = {name: getattr(commit, name) for name in ("unit", "attempt", "worker", "committed_at")}
    parts = {name: part.sha256 for name, part in sorted(commit.parts.items())}
    return {"store": source.store.url, **facts, "parts": parts}


def _repeated(commits: Sequence[tuple[_Source, Commit]]) -> list[npt.NDArray[np.bool_]]:
    """Return, for each unit, which of its triples an earlier unit or an earlier row already has."""
    keys = [_keys(source.store, commit) for source, commit in commits]
    together = np.concatenate([np.zeros(0, f"S{_KEY_BYTES}"), *keys])
    repeated = np.ones(len(together), bool)
    repeated[np.unique(together, return_index=True)[1]] = False  # the index of the first occurrence
    return np.split(repeated, np.cumsum([len(some) for some in keys])[:-1]) if keys else []


def _keys(store: Store, commit: Commit) -> npt.NDArray[np.bytes_]:
    if WORDS.table not in commit.parts:
        return np.zeros(0, f"S{_KEY_BYTES}")
    table = WORDS.open(store)
    digests = [
        hashlib.blake2b(f"{id_} {target}".encode(), digest_size=_KEY_BYTES).digest()
        for batch in table.part_batches(commit.parts[WORDS.table], ["id", "target"])
        for id_, target in zip(batch["id"].to_pylist(), batch["target"].to_pylist(), strict=True)
    ]
    return np.array(digests, f"S{_KEY_BYTES}")


def _copy(
    target: Store, plan: Plan, source: Store, commit: Commit, unit: Unit, repeated: npt.NDArray[np.bool_]
) -> None:
    schemas = plan.tables
    parts = {name: part for name, part in commit.parts.items() if name in schemas}
    tables = {
        name: pq.read_table(pa.BufferReader(read_part(source.files, part, thorough=True)))
        for name, part in parts.items()
    }
    kept = len(repeated) - int(repeated.sum())
    if repeated.any():
        triples = tables[WORDS.table]
        tables[WORDS.table] = triples.filter(pa.array(~repeated))
        if WORDS.rejects in schemas:
            lost = _as_rejects(triples.filter(pa.array(repeated)), schemas[WORDS.rejects])
            before = tables.get(WORDS.rejects, schemas[WORDS.rejects].empty_table())
            tables[WORDS.rejects] = pa.concat_tables([before, lost])
    tables = {name: _of_unit(table, unit.id) for name, table in tables.items()}
    quarantined = list(_quarantined(source, commit))
    stages = [*commit.stages]
    count = StageCount(_STAGE, len(repeated), kept, {DUPLICATE: len(repeated) - kept} if repeated.any() else {})
    if stages and stages[-1].name == _STAGE:  # a merged store merged again: stage names are unique
        last = stages.pop()
        count = replace(last + count, rows_in=last.rows_in, rows_out=kept)
    now = time.time()
    target.pass_store(_PASS).commit(unit.id, f"merge-{unit.id[:8]}", tables, quarantined, [*stages, count], _STAGE, now)


def _quarantined(store: Store, commit: Commit) -> Iterator[dict[str, Any]]:
    if commit.quarantine:
        for line in read_part(store.files, commit.quarantine).splitlines():
            yield json.loads(line)


def _as_rejects(triples: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the triples that are left out, with the columns of rejects."""
    columns = []
    for field in schema:
        if field.name == "reason":
            columns.append(pa.array([DUPLICATE] * triples.num_rows, field.type))
        elif field.name in triples.column_names:
            columns.append(triples[field.name])
        else:
            columns.append(pa.nulls(triples.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _of_unit(table: pa.Table, unit: str) -> pa.Table:
    """Assign the rows to the new unit; the plan records the unit that they come from."""
    place = table.schema.get_field_index("unit")
    if place < 0:
        return table
    return table.set_column(place, table.schema.field(place), pa.array([unit] * table.num_rows, pa.string()))
