"""Checks that a store is complete and sound (`verify`), or that a location can hold one (`try_out`)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

from corpusgen.errors import DamagedPartError, StoreError, StoreUnavailableError
from corpusgen.io.files import Files
from corpusgen.store.parts import read_part
from corpusgen.store.records import Commit, Part, Plan, Reads, Totals, Unit, hash_of_parts
from corpusgen.store.store import PassStore, Store, create_once

_HASHERS = 8  # hashlib and file reads release the GIL
CORPUS = "corpus.json"


@dataclass
class PassCheck:
    """The findings of `verify` in one pass."""

    name: str
    totals: Totals
    missing: int = 0
    problems: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    """The units whose commits must be removed for the store to be sound."""
    bad_plan: bool = False
    """Whether the plan must be removed: it is damaged, or was made from other parts than those committed now."""
    left_over: int = 0
    """The number of commits of units not in the plan, left from an earlier plan. They do no harm; `gc` removes them."""

    @property
    def ok(self) -> bool:
        """Return whether the pass is complete and sound."""
        return not self.missing and not self.problems


def try_out(files: Files) -> float:
    """Try all operations of a store on a small file; return how many seconds the clock there is ahead of ours.

    Raise StoreError if one does not work. The file is removed, and a store that is being written to is not disturbed.
    """
    path = f"try-{secrets.token_hex(8)}"
    before = time.time()
    try:
        create_once(files, path, b"created")
        after = time.time()
        modified = next(info.modified for info in files.list("") if info.path == path)
        files.write(path, b"written")
        if files.read(path) != b"written":
            raise StoreError(f"{files.url}: what is written there cannot be read back; use another store")
    finally:
        files.delete(path)
    # Object stores give whole seconds, so a difference of less than one is unknown.
    return min(0.0, modified + 1 - before) + max(0.0, modified - after)


def verify(store: Store, reads: Mapping[str, Reads] | None = None, known: Iterable[str] = ()) -> Iterator[PassCheck]:
    """Check that in every pass each planned unit is committed, each part exists with its hash, and the counts add up.

    `reads` says what each pass is planned from; with it, plans are compared with what is committed now. Problems are
    reported, never raised, unless the store does not exist or cannot be reached. `known` are the names of passes to
    look for when corpus.json does not list them.
    """
    try:
        passes = store.passes()
    except StoreError as error:
        if isinstance(error, StoreUnavailableError) or not store.files.exists(CORPUS):
            raise
        yield PassCheck(CORPUS, Totals(0), problems=[str(error)], bad_plan=True)
        passes = [found for name in known if (found := store.pass_store(name)).started()]
    seen: dict[str, _Seen] = {}
    for pass_store in passes:
        try:
            plan = pass_store.plan()
        except StoreUnavailableError:
            raise
        except StoreError as error:
            there = pass_store.files.exists(f"{pass_store.name}/plan.json")
            yield PassCheck(pass_store.name, Totals(0), problems=[str(error)], bad_plan=there)
        else:
            yield _verify_pass(pass_store, plan, (reads or {}).get(pass_store.name), seen)


@dataclass
class _Seen:
    """A checked pass, kept to check the passes made from it."""

    check: PassCheck
    commits: list[Commit] = field(default_factory=list)

    def parts(self, table: str) -> list[Part]:
        return [commit.parts[table] for commit in self.commits if table in commit.parts]


def _verify_pass(store: PassStore, plan: Plan, reads: Reads | None, seen: dict[str, _Seen]) -> PassCheck:
    done = store.done_units(plan)
    check = PassCheck(
        store.name,
        Totals(len(plan.units), rows=dict.fromkeys(plan.tables, 0)),
        missing=len(plan.units) - len(done),
        left_over=len(store.committed() - {unit.id for unit in plan.units}),
    )
    seen[store.name] = now = _Seen(check)
    if wrong := plan.wrong_units():
        check.bad_plan = True
        check.problems.append(f"plan.json is damaged: {len(wrong):,} units do not match their records ({wrong[0]})")
    with ThreadPoolExecutor(_HASHERS) as pool:
        results = pool.map(lambda unit: _check_unit(store, plan, unit), done)
        for unit, (commit, problems) in zip(done, results, strict=True):
            if problems:
                check.damaged.append(unit)
                check.problems += problems
            if commit:
                check.totals.add(commit)
                now.commits.append(commit)
    if reads:
        _check_origin(store, plan, reads, seen)
    return check


def _check_unit(store: PassStore, plan: Plan, unit: str) -> tuple[Commit | None, list[str]]:
    try:
        commit = store.read_commit(unit)
    except (StoreError, FileNotFoundError) as error:
        return None, [f"unit {unit}: {error}"]
    problems = [problem for part in commit.files() if (problem := _check_part(store, part))]
    problems += [f"table {name!r} is not in the plan" for name in commit.parts if name not in plan.tables]
    problems += _check_counts(plan, commit)
    return commit, [f"unit {unit}: {problem}" for problem in problems]


def _check_part(store: PassStore, part: Part) -> str | None:
    try:
        read_part(store.files, part, thorough=True)
    except StoreUnavailableError:
        raise
    except DamagedPartError as error:
        return error.problem
    except StoreError as error:  # it cannot be read, or is not a file
        return str(error)
    return None


def _check_origin(store: PassStore, plan: Plan, reads: Reads, seen: Mapping[str, _Seen]) -> None:
    """Compare the inputs of the plan with what is committed now, and find units made from damaged ones."""
    check = seen[store.name].check
    stale = list(_stale(plan, reads, seen))
    check.problems += stale
    # A removed plan will be replaced by a different one, and so will everything made from it.
    sources = (seen.get(table[0]) for table in (reads.parts, reads.whole) if table)
    check.bad_plan |= bool(stale) or any(source.check.bad_plan for source in sources if source)
    suspects = _made_from_damaged(plan, reads, seen)
    for unit in (commit.unit for commit in seen[store.name].commits):
        if unit in suspects and unit not in check.damaged and not store.is_sealed(unit):
            check.damaged.append(unit)
            check.problems.append(f"unit {unit}: made from {suspects[unit]}, which is damaged")


def _stale(plan: Plan, reads: Reads, seen: Mapping[str, _Seen]) -> Iterator[str]:
    """Yield signs that the plan was made from other parts than those committed now; none while parts are missing."""
    remedy = "run `corpusgen verify --repair`, which removes the plan, then build again"
    source = seen.get(reads.parts[0])
    if source and not source.check.missing:
        now = {part.path: part.sha256 for part in source.parts(reads.parts[1])}
        then = {record.get("part"): record.get("sha256") for unit in plan.units for record in unit.records}
        if missed := [path for path in now if path not in then]:
            yield (
                f"it was planned without {len(missed):,} of the {len(now):,} parts of {'/'.join(reads.parts)} "
                f"(such as {missed[0]}); {remedy}"
            )
        if gone := [path for path in then if path not in now or now[path] != then[path]]:
            yield f"it was planned from {len(gone):,} parts that are no longer committed ({gone[0]}); {remedy}"
    source = seen.get(reads.whole[0]) if reads.whole else None
    if source and reads.whole and not source.check.missing:
        whole = hash_of_parts(source.parts(reads.whole[1]))
        if any(record.get("with") != whole for unit in plan.units for record in unit.records):
            yield f"it was planned with a {reads.whole[1]} that differs from the committed one; {remedy}"


def _made_from_damaged(plan: Plan, reads: Reads, seen: Mapping[str, _Seen]) -> dict[str, str]:
    """Return the units that read the output of a damaged unit, each with what it read."""

    def damaged(table: tuple[str, str] | None) -> list[str]:
        source = seen.get(table[0]) if table else None
        return source.check.damaged if source else []

    if reads.whole and damaged(reads.whole):
        return {unit.id: "/".join(reads.whole) for unit in plan.units}
    prefixes = tuple(f"{reads.parts[0]}/parts/{unit}-" for unit in damaged(reads.parts))
    return {unit.id: part for unit in plan.units if (part := _first_part(unit, prefixes))}


def _first_part(unit: Unit, prefixes: tuple[str, ...]) -> str | None:
    paths = (str(record.get("part")) for record in unit.records)
    return next((path for path in paths if path.startswith(prefixes)), None) if prefixes else None


def _check_counts(plan: Plan, commit: Commit) -> Iterator[str]:
    """Yield the counts that do not add up: rows must leave a stage, be rejected or quarantined, and enter the next."""
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
        yield f"{quarantined} records were quarantined, but some are missing from the quarantine file"
