"""The facts of a report, from the store. Units never change, so a refresh reads only the new ones."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from corpusgen.corpus.stored_settings import open_store
from corpusgen.ops.funnel import Funnel, FunnelCount
from corpusgen.ops.report.histograms import Histogram, TripleHistograms, per_target
from corpusgen.ops.report.samples import Reject, RejectSample, Triple, TripleSample, shortened
from corpusgen.ops.report.throughput import Finished, Stretch, throughput
from corpusgen.store import Commit, Store, Totals
from corpusgen.store.products import WORDS
from corpusgen.store.status import PassStatus, StoreStatus


@dataclass(frozen=True)
class PassFacts:
    """The state of one pass so far."""

    name: str
    totals: Totals
    stretches: Sequence[Stretch]
    quarantined: Sequence[str]
    """Some records that failed, with the reason."""


@dataclass(frozen=True)
class TripleFacts:
    """The triples so far."""

    funnel: Funnel
    histograms: dict[str, Histogram]
    """Histograms by column."""
    made: Counter[str]
    """The number of triples of each target; 0 for targets that were tried in vain."""
    tried: Counter[str]
    sample: Sequence[Triple]
    rejects: dict[str, list[Reject]]
    """Some rejects for each reason."""


@dataclass(frozen=True)
class BuildFacts:
    """All facts of a report."""

    url: str
    corpus: dict[str, Any]
    passes: Sequence[PassFacts]
    triples: TripleFacts | None
    begun: float | None
    latest: float | None
    """When the last unit was committed."""
    made_at: float = field(default_factory=time.time)

    @property
    def planned(self) -> list[str]:
        """Return all passes of this build."""
        return list(self.corpus.get("passes", []))

    @property
    def complete(self) -> bool:
        """Return whether no pass has anything left to do."""
        return len(self.passes) == len(self.planned) and all(found.totals.complete for found in self.passes)


class Collector:
    """Collects facts from a store, and remembers what it has read.

    It keeps counts, the rows that are shown, and a few numbers per unit: no more, however many rows there are.
    """

    def __init__(self, root: str) -> None:
        self._store = open_store(root)
        self._corpus = self._store.corpus()
        written = (info.modified for info in self._store.files.list("") if info.path == "corpus.json")
        self._begun: float | None = next(written, None)
        self._status = StoreStatus(self._store)
        self._finished: dict[str, list[Finished]] = {}
        self._triples: _TripleReader | None = None

    def refresh(self) -> BuildFacts:
        """Read what was committed since the last time, and return what everything adds up to."""
        for name, commits in self._status.refresh().items():
            self._finished.setdefault(name, []).extend(map(Finished.of, commits))
            if name == WORDS.pass_name:
                self._triples = self._triples or _TripleReader(self._store)
                self._triples.add(commits)
        times = [unit.time for units in self._finished.values() for unit in units if unit.time]
        # If the store was copied since, its first commit is older than its corpus.json.
        begun = min(times if self._begun is None else [self._begun, *times], default=None)
        return BuildFacts(
            url=self._store.url,
            corpus=self._corpus,
            passes=[self._facts(status) for status in self._status.passes.values()],
            triples=self._triples.facts() if self._triples else None,
            begun=begun,
            latest=max(times, default=None),
        )

    def _facts(self, status: PassStatus) -> PassFacts:
        totals = replace(status.totals, rows=dict(status.totals.rows), stages=dict(status.totals.stages))
        quarantined = [
            f"{failure.get('stage')}: {failure.get('error')} ({shortened(json.dumps(failure.get('record')))})"
            for failure in status.failures()
        ]
        return PassFacts(status.name, totals, throughput(self._finished[status.name]), quarantined)


class _TripleReader:
    """Reads the rows of the pass that makes triples, and only the columns that are counted."""

    _OF_TRIPLES = tuple(dict.fromkeys(("id", *FunnelCount.OF_TRIPLES, *TripleHistograms.COLUMNS)))
    _OF_REJECTS = ("target", *FunnelCount.OF_REJECTS)

    def __init__(self, store: Store) -> None:
        self._triples = WORDS.open(store)
        self._rejects = WORDS.open_rejects(store)
        self._funnel = FunnelCount(store)
        self._histograms = TripleHistograms()
        self._made: Counter[str] = Counter()
        self._tried: Counter[str] = Counter()
        self._sample = TripleSample()
        self._reject_sample = RejectSample()

    def add(self, commits: Sequence[Commit]) -> None:
        """Read the parts of these units."""
        for commit in commits:
            if WORDS.table in commit.parts:
                self._add_triples(commit)
            if WORDS.rejects in commit.parts:
                self._add_rejects(commit)

    def _add_triples(self, commit: Commit) -> None:
        part, first = commit.parts[WORDS.table], 0
        for batch in self._triples.part_batches(part, self._OF_TRIPLES):
            self._funnel.add_triples(batch)
            self._histograms.add(batch)
            self._sample.offer(part, first, batch["id"])
            targets = batch["target"].to_pylist()
            self._made.update(targets)
            self._tried.update(targets)
            first += batch.num_rows

    def _add_rejects(self, commit: Commit) -> None:
        part = commit.parts[WORDS.rejects]
        for batch in self._rejects.part_batches(part, self._OF_REJECTS):
            self._funnel.add_rejects(batch)
            targets = batch["target"].to_pylist()
            self._tried.update(targets)
            self._made.update(dict.fromkeys(targets, 0))
        reasons = dict.fromkeys(reason for stage in commit.stages for reason in stage.rejected)
        self._reject_sample.offer(commit.unit, part, reasons)

    def facts(self) -> TripleFacts:
        return TripleFacts(
            funnel=self._funnel.result(),
            histograms={**self._histograms.by_column(), "target": per_target(self._made)},
            made=self._made,
            tried=self._tried,
            sample=self._sample.triples(self._triples),
            rejects=self._reject_sample.rejects(self._rejects),
        )
