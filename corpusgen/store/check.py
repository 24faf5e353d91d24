"""Proof that a store is whole (`verify`) or a place fit for one (`try_out`); removal of what no commit names (`gc`)."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

from corpusgen.errors import StoreError
from corpusgen.store.files import FileInfo, Files
from corpusgen.store.records import Commit, Part, Plan, Totals
from corpusgen.store.store import PassStore, Store, create_once

_HASHERS = 8  # hashlib and file reads release the interpreter lock
_UNFINISHED_AFTER = 24 * 3600.0  # no single write of a part takes a day


@dataclass
class PassCheck:
    """What `verify` found in one pass. `damaged` are the units whose commits must go for the store to be sound."""

    name: str
    totals: Totals
    missing: int = 0
    problems: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Complete and sound."""
        return not self.missing and not self.problems


def try_out(files: Files) -> float:
    """Do with a small file all that a store does, and remove it; how many seconds the clock there is ahead of ours.

    StoreError says what does not work. A store that is being written to is not disturbed.
    """
    path = f"try-{secrets.token_hex(8)}"
    before = time.time()
    try:
        create_once(files, path, b"created")
        after = time.time()
        modified = next(info.modified for info in files.list("") if info.path == path)
        files.write(path, b"written")
        if files.read(path) != b"written":
            raise StoreError(f"{files.url}: what is written there does not come back; use another place")
    finally:
        files.delete(path)
    # Object stores give whole seconds: within them, nothing is known.
    return min(0.0, modified + 1 - before) + max(0.0, modified - after)


def verify(store: Store) -> Iterator[PassCheck]:
    """Check every pass: each unit of the plan committed once, each part there with its hash, the counts closed."""
    for pass_store in store.passes():
        try:
            plan = pass_store.plan()
        except StoreError as error:
            yield PassCheck(pass_store.name, Totals(0), problems=[str(error)])
        else:
            yield _verify_pass(pass_store, plan)


def _verify_pass(store: PassStore, plan: Plan) -> PassCheck:
    done = store.committed()
    strangers = sorted(done - {unit.id for unit in plan.units})
    committed = [unit.id for unit in plan.units if unit.id in done]
    check = PassCheck(
        store.name,
        Totals(len(plan.units), rows=dict.fromkeys(plan.tables, 0)),
        missing=len(plan.units) - len(committed),
        problems=[f"commit of a unit that is not in the plan: {unit}" for unit in strangers],
        damaged=strangers,
    )
    with ThreadPoolExecutor(_HASHERS) as pool:
        results = pool.map(lambda unit: _check_unit(store, plan, unit), committed)
        for unit, (commit, problems) in zip(committed, results, strict=True):
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
    problems += [problem for part in commit.files() if (problem := _check_part(store, part))]
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
        became = stage.used if stage.expands else stage.rows_out
        if became is None:
            continue
        left = became + sum(stage.rejected.values()) + stage.quarantined
        if stage.rows_in != left:
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
    """Remove the commits that `verify` found damaged, so that the next build does their units again.

    Only while no build runs: an attempt that had already lost against a commit must not find it gone.
    """
    for check in checks:
        for unit in check.damaged:
            store.files.delete(f"{check.name}/commits/{unit}.json")
    return sum(len(check.damaged) for check in checks)


def gc(store: Store, dry_run: bool = False) -> tuple[int, int]:
    """Remove what no commit names; return how many files and bytes.

    Safe while builds run. A part of a unit that is not committed yet is left alone: an attempt may be about to
    commit it. Once the unit is committed no other part of it can ever become real.
    """
    garbage = list(_unfinished(store, ""))
    for pass_store in store.passes():
        garbage += _lost_parts(pass_store)
        for folder in ("", "/parts", "/quarantine", "/commits", "/events"):
            garbage += _unfinished(store, pass_store.name + folder)
    if not dry_run:
        for info in garbage:
            store.files.delete(info.path)
    return len(garbage), sum(info.size for info in garbage)


def _unfinished(store: Store, folder: str) -> Iterator[FileInfo]:
    for info in store.files.list_unfinished(folder):
        if time.time() - info.modified > _UNFINISHED_AFTER:
            yield info


def _lost_parts(store: PassStore) -> Iterator[FileInfo]:
    # List first, then read the commits: the other way round, a part written and committed in between would be lost.
    parts = list(store.files.list(f"{store.name}/parts"))  # <unit>-<table>-<hash>.parquet
    quarantines = list(store.files.list(f"{store.name}/quarantine"))  # <unit>-<hash>.jsonl
    committed = store.committed()
    named: set[str] = set()
    for commit in store.commits(sorted(committed)):
        named.update(part.path for part in commit.files())
    for infos, dashes in ((parts, 2), (quarantines, 1)):
        for info in infos:
            unit = info.path.rpartition("/")[2].rsplit("-", dashes)[0]
            if info.path not in named and unit in committed:
                yield info
