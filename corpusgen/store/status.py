"""How far a store has got, read again and again without reading any commit twice."""

from __future__ import annotations

from corpusgen.store.records import Totals
from corpusgen.store.store import PassStore


class PassStatus:
    """The totals of a pass, kept up to date by `refresh`."""

    def __init__(self, store: PassStore) -> None:
        self._store = store
        self._plan = store.plan()
        self._seen: set[str] = set()
        self.name = store.name
        self.totals = Totals(len(self._plan.units), rows=dict.fromkeys(self._plan.tables, 0))

    def refresh(self) -> Totals:
        """Add the commits that are new."""
        done = self._store.committed()
        new = [unit.id for unit in self._plan.units if unit.id in done and unit.id not in self._seen]
        for commit in list(self._store.commits(new)):  # all or none: a refresh that fails can be tried again
            self.totals.add(commit)
        self._seen.update(new)
        return self.totals
