"""Removal of what must not or need not be in a store: what is damaged (`repair`), what no commit names (`gc`).

Neither may run while the other does: `gc` trusts that a commit which it has read stays. Both hold the same lock.
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
_FEATURES = "features"  # in this folder of a corpus are the stores of what a training made from its triples


def repair(store: Store, checks: Sequence[PassCheck]) -> int:
    """Remove what `verify` found damaged, so that the next build makes it again; return how many units and plans.

    Only while no build runs: an attempt that had already lost against a commit must not find it gone.
    """
    removed = 0
    with held(store.files, _LOCK, "verify --repair"):
        for check in checks:
            removed += _undo_features(store, check)
            for unit in check.damaged:
                store.files.delete(f"{check.name}/commits/{unit}.json")
                removed += 1
        # Last: where this is interrupted, the plans still tell what is left to do.
        for check in checks:
            if check.bad_plan:
                _remove_plan(store, check.name)
                removed += 1
    return removed


def _undo_features(store: Store, check: PassCheck) -> int:
    """Remove the features that may have been made from damaged triples; they are made again when they are needed."""
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
    if name == CORPUS:  # what can still be read of it may be of use to somebody
        store.files.copy(CORPUS, f"{CORPUS}.damaged")
        store.files.delete(CORPUS)
    else:
        store.files.delete(f"{name}/plan.json")


def gc(store: Store, dry_run: bool = False) -> tuple[int, int]:
    """Remove what no commit names; return how many files and bytes.

    Safe while builds run. A part of a unit that is not committed yet is left alone: an attempt may be about to
    commit it. Once the unit is committed no other part of it can ever become real.
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
    """Files of committed units that their commits do not name, and all of units that are not in the plan any more."""
    # List first, then read the commits: the other way round, a part written and committed in between would be lost.
    files = [  # by unit: <unit>-<table>-<hash>.parquet, <unit>-<hash>.jsonl, <unit>.json
        (_name(info).rsplit("-", dashes)[0], info)
        for folder, dashes in (("parts", 2), ("quarantine", 1))
        for info in store.files.list(f"{store.name}/{folder}")
    ]
    commits = {_name(info).removesuffix(".json"): info for info in store.files.list(f"{store.name}/commits")}
    planned = {unit.id for unit in _units(store)}
    strangers = commits.keys() - planned if planned else set()
    yield from (commits[unit] for unit in sorted(strangers))  # before its parts, so that no commit lacks any
    named = {unit: _named(store, unit) for unit in {unit for unit, _ in files} & commits.keys()}
    for unit, info in files:
        kept = named.get(unit)
        if unit in strangers or (kept is not None and info.path not in kept):
            yield info


def _named(store: PassStore, unit: str) -> set[str] | None:
    """The files that a commit names; None if that cannot be told, and nothing of the unit is to be touched."""
    try:
        return {part.path for part in store.read_commit(unit).files()}
    except (StoreError, FileNotFoundError):
        return None


def _units(store: PassStore) -> Sequence[Unit]:
    """The units of the plan; none, if there is no plan that can be read."""
    try:
        return store.plan().units
    except StoreError:
        return []


def _name(info: FileInfo) -> str:
    return info.path.rpartition("/")[2]
