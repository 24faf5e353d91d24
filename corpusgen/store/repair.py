"""Removal of damaged data (`repair`) and of files that no commit names (`gc`) from a store.

The two must not run at the same time, because `gc` relies on the commits it has read. Both hold the same lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from corpusgen.errors import StoreError
from corpusgen.io.files import FileInfo
from corpusgen.io.lock import held
from corpusgen.store.check import CORPUS, PassCheck
from corpusgen.store.records import Unit
from corpusgen.store.store import PassStore, Store

_UNFINISHED_AFTER = 24 * 3600.0  # no single write of a part takes a day
_LOCK = "maintenance"
_FEATURES = "features"  # the folder of a corpus with the stores of what training made from its triples


def repair(store: Store, checks: Sequence[PassCheck]) -> int:
    """Remove what `verify` found damaged, so that the next build makes it again; return how many units and plans.

    Call it only while no build runs: an attempt that has lost to another commit must not find that commit gone.
    """
    removed = 0
    with held(store.files, _LOCK, "verify --repair"):
        for check in checks:
            removed += _undo_features(store, check)
            for unit in check.damaged:
                store.files.delete(f"{check.name}/commits/{unit}.json")
                removed += 1
        # Last, so that after an interruption the plans still say what is left to do.
        for check in checks:
            if check.bad_plan:
                _remove_plan(store, check.name)
                removed += 1
    return removed


def _undo_features(store: Store, check: PassCheck) -> int:
    """Remove the features that may have been made from damaged triples; they are made again when needed."""
    prefixes = tuple(f"{check.name}/parts/{unit}-" for unit in check.damaged)
    undone = 0
    for name in store.files.folders(_FEATURES) if prefixes else ():
        features = Store.at(f"{store.url}/{_FEATURES}/{name}").pass_store(_FEATURES)
        for unit in _units(features):
            reads = any(str(record.get("part")).startswith(prefixes) for record in unit.records)
            if reads and features.is_committed(unit.id) and not features.is_sealed(unit.id):
                features.files.delete(f"{_FEATURES}/commits/{unit.id}.json")
                undone += 1
    return undone


def _remove_plan(store: Store, name: str) -> None:
    if name == CORPUS:  # keep a copy: what is still readable may be useful
        store.files.copy(CORPUS, f"{CORPUS}.damaged")
        store.files.delete(CORPUS)
    else:
        store.files.delete(f"{name}/plan.json")


def gc(store: Store, dry_run: bool = False) -> tuple[int, int]:
    """Remove files that no commit names; return how many files and bytes.

    Safe while builds run. A part of a unit that is not committed yet is left alone, because an attempt may be about to
    commit it. Once the unit is committed, no other part of it can ever become valid.
    """
    if dry_run:
        garbage = list(_garbage(store))
    else:
        with held(store.files, _LOCK, "gc"):
            garbage = list(_garbage(store))
            for info in garbage:
                store.files.delete(info.path)
    return len(garbage), sum(info.size for info in garbage)


def _garbage(store: Store) -> Iterator[FileInfo]:
    yield from _unfinished(store, "")
    for pass_store in store.passes():
        yield from _lost_files(pass_store)
        for folder in ("", "/parts", "/quarantine", "/commits", "/events"):
            yield from _unfinished(store, pass_store.name + folder)


def _unfinished(store: Store, folder: str) -> Iterator[FileInfo]:
    for info in store.files.list_unfinished(folder):
        if time.time() - info.modified > _UNFINISHED_AFTER:
            yield info


def _lost_files(store: PassStore) -> Iterator[FileInfo]:
    """Yield files of committed units that their commits do not name, and all files of units no longer in the plan."""
    # List the parts first, then read the commits: otherwise a part written and committed in between would be lost.
    files = [  # by unit: <unit>-<table>-<hash>.parquet, <unit>-<hash>.jsonl, <unit>.json
        (_name(info).rsplit("-", dashes)[0], info)
        for folder, dashes in (("parts", 2), ("quarantine", 1))
        for info in store.files.list(f"{store.name}/{folder}")
    ]
    commits = {_name(info).removesuffix(".json"): info for info in store.files.list(f"{store.name}/commits")}
    planned = {unit.id for unit in _units(store)}
    left_over = commits.keys() - planned if planned else set()
    yield from (commits[unit] for unit in sorted(left_over))  # before their parts, so that no commit lacks a part
    named = {unit: _named(store, unit) for unit in {unit for unit, _ in files} & commits.keys()}
    for unit, info in files:
        kept = named.get(unit)
        if unit in left_over or (kept is not None and info.path not in kept):
            yield info


def _named(store: PassStore, unit: str) -> set[str] | None:
    """Return the files that a commit names; None if it cannot be read, so that nothing of the unit is touched."""
    try:
        return {part.path for part in store.read_commit(unit).files()}
    except (StoreError, FileNotFoundError):
        return None


def _units(store: PassStore) -> Sequence[Unit]:
    """Return the units of the plan; none if there is no readable plan."""
    try:
        return store.plan().units
    except StoreError:
        return []


def _name(info: FileInfo) -> str:
    return info.path.rpartition("/")[2]
