"""The exactly-once store: plans, parts, commits, and readers of committed tables."""

from corpusgen.store.products import TripleStore
from corpusgen.store.reader import CommittedTable
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
