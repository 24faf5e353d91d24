"""Proof that a store is whole (`verify`) and removal of what no commit names (`gc`)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

from corpusgen.errors import StoreError
from corpusgen.store.records import Commit, Part, Plan, Totals
from corpusgen.store.store import PassStore, Store

_HASHERS = 8  # hashlib and file reads release the interpreter lock
_UNFINISHED_AFTER = 24 * 3600.0  # no single write of a part takes a day


@dataclass
class PassCheck:
    """What `verify` found in one pass. `damaged` are the committed units with something wrong."""

    name: str
    totals: Totals
    problems: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Complete and sound."""
        return self.totals.complete and not self.problems


def verify(store: Store) -> Iterator[PassCheck]:
    """Check every pass: each unit of the plan committed once, each part there with its hash, the counts closed."""
    for pass_store in store.passes():
        yield _verify_pass(pass_store)


def _verify_pass(store: PassStore) -> PassCheck:
    plan = store.plan()
    planned = [unit.id for unit in plan.units]
    done = store.committed()
    check = PassCheck(store.name, Totals(len(planned), rows=dict.fromkeys(plan.tables, 0)))
    check.problems += [f"commit of a unit that is not in the plan: {unit}" for unit in sorted(done - set(planned))]
    if len(set(planned)) != len(planned):
        check.problems.append("the plan names a unit twice")
    with ThreadPoolExecutor(_HASHERS) as pool:
        committed = [unit for unit in planned if unit in done]
        for unit, (commit, problems) in zip(
            committed, pool.map(lambda unit: _check_unit(store, plan, unit), committed), strict=True
        ):
            if problems:
                check.damaged.append(unit)
                check.problems += problems
            if commit:
                check.totals.add(commit)
    return check


def _check_unit(store: PassStore, plan: Plan, unit: str) -> tuple[Commit | None, list[str]]:
    try:
        commit = store.read_commit(unit)
    except (StoreError, FileNotFoundError) as error:
        return None, [f"unit {unit}: {error}"]
    problems = [] if commit.unit == unit else [f"the commit of {unit} speaks of {commit.unit}"]
    files = [*commit.parts.values(), *([commit.quarantine] if commit.quarantine else [])]
    problems += [problem for part in files if (problem := _check_part(store, part))]
    problems += [f"table {name!r} is not in the plan" for name in commit.parts if name not in plan.tables]
    problems += _check_counts(plan, commit)
    return commit, [f"unit {unit}: {problem}" for problem in problems]


def _check_part(store: PassStore, part: Part) -> str | None:
    try:
        data = store.files.read(part.path)
    except FileNotFoundError:
        return f"{part.path} is missing"
    if hashlib.sha256(data).hexdigest() != part.sha256:
        return f"{part.path} is corrupt: its bytes do not have the committed sha256"
    return None


def _check_counts(plan: Plan, commit: Commit) -> Iterator[str]:
    """What entered a stage left it, as a row, a reject or a quarantined record, and entered the next."""
    stages = commit.stages
    for stage in stages:
        left = stage.rows_out + sum(stage.rejected.values()) + stage.quarantined
        if not stage.expands and stage.rows_in != left:
            yield f"stage {stage.name!r}: {stage.rows_in} rows entered, {left} are accounted for"
    for before, after in pairwise(stages):
        if before.rows_out != after.rows_in:
            yield f"{before.rows_out} rows left {before.name!r}, {after.rows_in} entered {after.name!r}"
    main = next(iter(plan.tables))
    rows = commit.parts[main].rows if main in commit.parts else 0
    if stages and stages[-1].rows_out != rows:
        yield f"{stages[-1].rows_out} rows left {stages[-1].name!r}, {rows} were written to {main!r}"
    quarantined = sum(stage.quarantined for stage in stages)
    if quarantined != (commit.quarantine.rows if commit.quarantine else 0):
        yield f"{quarantined} records were quarantined, but not all are in the quarantine file"


def repair(store: Store, checks: list[PassCheck]) -> int:
    """Remove the commits that `verify` found damaged, so that the next build does their units again."""
    for check in checks:
        for unit in check.damaged:
            store.files.delete(f"{check.name}/commits/{unit}.json")
    return sum(len(check.damaged) for check in checks)


def gc(store: Store, dry_run: bool = False) -> tuple[int, int]:
    """Remove what no commit names; return how many files and bytes.

    Safe while builds run. A part of a unit that is not committed yet is left alone: an attempt may be about to
    commit it. Once the unit is committed no other part of it can ever become real.
    """
    files = bytes_ = 0
    for pass_store in store.passes():
        for path, size in _garbage(pass_store):
            files += 1
            bytes_ += size
            if not dry_run:
                store.files.delete(path)
    return files, bytes_


def _garbage(store: PassStore) -> Iterator[tuple[str, int]]:
    folders = [f"{store.name}/{folder}" for folder in ("parts", "quarantine", "commits")]
    # List first, then read the commits: a part seen here whose unit is committed by then was written before.
    listed = [info for folder in folders[:2] for info in store.files.list(folder)]
    named: set[str] = set()
    committed: set[str] = set()
    for commit in store.commits():
        committed.add(commit.unit)
        named.update(part.path for part in commit.parts.values())
        if commit.quarantine:
            named.add(commit.quarantine.path)
    for info in listed:
        unit = info.path.rpartition("/")[2].partition("-")[0]
        if info.path not in named and unit in committed:
            yield info.path, info.size
    for folder in (store.name, *folders):
        for info in store.files.list_unfinished(folder):
            if time.time() - info.modified > _UNFINISHED_AFTER:
                yield info.path, info.size
