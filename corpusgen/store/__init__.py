"""The exactly-once store. This is all that other packages need of `corpusgen`."""

from corpusgen.store.reader import CommittedTable, TripleStore
from corpusgen.store.records import Commit, Part, Plan, StageCount, Totals, Unit
from corpusgen.store.store import PassStore, Store

__all__ = [
    "Commit",
    "CommittedTable",
    "Part",
    "PassStore",
    "Plan",
    "StageCount",
    "Store",
    "Totals",
    "TripleStore",
    "Unit",
]
