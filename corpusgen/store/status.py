"""The progress of a store, refreshed repeatedly without reading any commit twice."""

from __future__ import annotations

import json
from typing import Any

from corpusgen.errors import DamagedPartError
from corpusgen.store.parts import read_part
from corpusgen.store.records import Commit, Part, Totals
from corpusgen.store.store import PassStore, Store

_FAILURES_SHOWN = 5


class PassStatus:
    """The totals of a pass, kept up to date by `refresh`."""

    def __init__(self, store: PassStore) -> None:
        plan = store.plan()
        self._store = store
        self._planned = [unit.id for unit in plan.units]
        self._seen: set[str] = set()
        self._quarantines: list[Part] = []
        self._failures: list[dict[str, Any]] = []
        self.name = store.name
        self.totals = Totals(len(plan.units), rows=dict.fromkeys(plan.tables, 0))

    def refresh(self) -> Totals:
        """Add the new commits and return the totals."""
        self.new_commits()
        return self.totals

    def new_commits(self) -> list[Commit]:
        """Return the new commits and add them to the totals; for a complete pass, read nothing."""
        if self.totals.complete:
            return []
        done = self._store.committed()
        new = [unit for unit in self._planned if unit in done and unit not in self._seen]
        commits = list(self._store.commits(new))  # all or none, so that a failed refresh can be retried
        for commit in commits:
            self.totals.add(commit)
            if commit.quarantine and len(self._quarantines) < _FAILURES_SHOWN:
                self._quarantines.append(commit.quarantine)
        self._seen.update(new)
        return commits

    def failures(self) -> list[dict[str, Any]]:
        """Return some of the quarantined records; no file is read twice."""
        while self._quarantines and len(self._failures) < _FAILURES_SHOWN:
            try:
                lines = read_part(self._store.files, self._quarantines.pop(0)).splitlines()
            except DamagedPartError as error:
                self._failures.append({"stage": "quarantine", "error": str(error)})
            else:
                self._failures += map(json.loads, lines[:_FAILURES_SHOWN])
        return self._failures[:_FAILURES_SHOWN]


class StoreStatus:
    """The status of all passes. A refresh reads commits of unfinished passes, and checks whether the next has begun."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked = False
        self.planned: list[str] = store.corpus().get("passes", [])
        self.passes: dict[str, PassStatus] = {}

    def refresh(self) -> dict[str, list[Commit]]:
        """Look again and return the new commits, by pass."""
        new = {name: status.new_commits() for name, status in self.passes.items()}
        for name in self.planned[len(self.passes) :]:
            # A pass begins when the previous one is complete. In a repaired store it may have begun earlier.
            if self._looked and not all(status.totals.complete for status in self.passes.values()):
                break
            pass_store = self._store.pass_store(name)
            if not pass_store.started():
                break
            self.passes[name] = PassStatus(pass_store)
            new[name] = self.passes[name].new_commits()
        self._looked = True
        return new

    @property
    def complete(self) -> bool:
        """Return whether every pass is complete."""
        return len(self.passes) == len(self.planned) and all(known.totals.complete for known in self.passes.values())
