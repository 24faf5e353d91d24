"""The facts of a report, from the store. Units never change, so a refresh reads only the new ones."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from corpusgen.corpus.stored_settings import open_store
from corpusgen.ops.funnel import FunnelCount
from corpusgen.ops.funnels import AnyFunnel, funnel_count
from corpusgen.ops.report.histograms import (
    ColumnHistograms,
    Histogram,
    ParagraphHistograms,
    TripleHistograms,
    per_word,
)
from corpusgen.ops.report.samples import Columns, Reject, RejectSample, RowSample, Shown, shortened
from corpusgen.ops.report.throughput import Finished, Stretch, throughput
from corpusgen.store import Commit, CommittedTable, Store, Totals
from corpusgen.store.products import PARAGRAPHS, WORDS, Product, product_of, products_of
from corpusgen.store.rows import words_in
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
class ProductFacts:
    """The rows of a product so far."""

    product: Product
    rows: int
    funnel: AnyFunnel | None
    histograms: dict[str, Histogram]
    """Histograms by column."""
    made: Counter[str]
    """The number of rows of each word; 0 for words that were tried in vain."""
    tried: Counter[str] | None
    """The number of sentences tried for each word; None if rejects are not kept."""
    sample: Sequence[Shown]
    labels: Mapping[str, str]
    """What the numbers of a row are, by column."""
    whole_numbers: Sequence[str]
    """Those of these columns that have whole numbers."""
    rejects: dict[str, list[Reject]]
    """Some rejects for each reason."""


@dataclass(frozen=True)
class BuildFacts:
    """All facts of a report."""

    url: str
    corpus: dict[str, Any]
    passes: Sequence[PassFacts]
    products: Mapping[str, ProductFacts]
    """Products whose pass has begun, by their tables."""
    makes: Sequence[Product]
    """All products of the recipe."""
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

    def __init__(self, root: str, table: str | None = None) -> None:
        self._store = open_store(root)
        self._products = products_of(self._store) if table is None else [product_of(self._store, table)]
        self._corpus = self._store.corpus()
        written = (info.modified for info in self._store.files.list("") if info.path == "corpus.json")
        self._begun: float | None = next(written, None)
        self._status = StoreStatus(self._store)
        self._finished: dict[str, list[Finished]] = {}
        self._readers: dict[str, _ProductReader] = {}

    def refresh(self) -> BuildFacts:
        """Read what was committed since the last time, and return what everything adds up to."""
        for name, commits in self._status.refresh().items():
            self._finished.setdefault(name, []).extend(map(Finished.of, commits))
            for product in self._products:
                if name == product.pass_name:
                    if product.table not in self._readers:
                        self._readers[product.table] = _ProductReader(self._store, product)
                    self._readers[product.table].add(commits)
        times = [unit.time for units in self._finished.values() for unit in units if unit.time]
        # If the store was copied since, its first commit is older than its corpus.json.
        begun = min(times if self._begun is None else [self._begun, *times], default=None)
        return BuildFacts(
            url=self._store.url,
            corpus=self._corpus,
            passes=[self._facts(status) for status in self._status.passes.values()],
            products={table: reader.facts() for table, reader in self._readers.items()},
            makes=self._products,
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


class _ProductReader:
    """Reads the rows of the pass that makes a product, and only the columns that are counted."""

    def __init__(self, store: Store, product: Product) -> None:
        self._product, self._table = product, product.open(store)
        # Only rejected targets are shown: other recipes may keep rejects of any shape.
        self._rejects = product.open_rejects(store) if product == WORDS else None
        self._shown = Columns.of(product, self._table.schema)
        self._funnel = funnel_count(store, product)
        self._first = product.members[0] if product.members else None
        self._histograms = _histograms(product, self._shown.numbers)
        columns = {"id", *self._histograms.columns, *(self._funnel.OF_ROWS if self._funnel else ())}
        if self._first:
            columns |= {*self._first.columns, *([self._first.word] if self._first.word else [])}
        self._columns = sorted(columns)
        self._rows = 0
        self._made: Counter[str] = Counter()
        self._tried: Counter[str] = Counter()
        self._sample = RowSample(self._shown)
        self._reject_sample = RejectSample()

    def add(self, commits: Sequence[Commit]) -> None:
        """Read the parts of these units."""
        for commit in commits:
            if self._funnel:
                self._funnel.add_stages(commit.stages)
            if self._product.table in commit.parts:
                self._add_rows(commit)
            if self._rejects and self._product.rejects in commit.parts:
                self._add_rejects(commit, self._rejects)

    def _add_rows(self, commit: Commit) -> None:
        part, first = commit.parts[self._product.table], 0
        for batch in self._table.part_batches(part, self._columns):
            if self._funnel:
                self._funnel.add_rows(batch)
            self._histograms.add(batch)
            self._sample.offer(part, first, batch["id"])
            if self._first:
                words = [word for word in words_in(batch, self._first) if word is not None]
                self._made.update(words)
                self._tried.update(words)
            first += batch.num_rows
        self._rows += first

    def _add_rejects(self, commit: Commit, rejects: CommittedTable) -> None:
        assert isinstance(self._funnel, FunnelCount)
        part = commit.parts[self._product.rejects]
        for batch in rejects.part_batches(part, ("target", *FunnelCount.OF_REJECTS)):
            self._funnel.add_rejects(batch)
            targets = batch["target"].to_pylist()
            self._tried.update(targets)
            self._made.update(dict.fromkeys(targets, 0))
        reasons = dict.fromkeys(reason for stage in commit.stages for reason in stage.rejected)
        self._reject_sample.offer(commit.unit, part, reasons)

    def facts(self) -> ProductFacts:
        is_words, table, schema = self._product == WORDS, self._product.table, self._table.schema
        per = ("Targets", "triples per target") if is_words else ("Words", f"{table} per word")
        of_words = {"target": per_word(self._made, *per)} if self._first else {}
        return ProductFacts(
            self._product,
            self._rows,
            funnel=self._funnel.result() if self._funnel else None,
            histograms={**self._histograms.by_column(), **of_words},
            made=self._made,
            tried=self._tried if self._rejects else None,
            sample=self._sample.rows(self._table),
            labels=self._shown.numbers,
            whole_numbers=[name for name in self._shown.numbers if pa.types.is_integer(schema.field(name).type)],
            rejects=self._reject_sample.rejects(self._rejects) if self._rejects else {},
        )


def _histograms(
    product: Product, numbers: Mapping[str, str]
) -> TripleHistograms | ColumnHistograms | ParagraphHistograms:
    if product == WORDS:
        return TripleHistograms()
    if product == PARAGRAPHS:
        return ParagraphHistograms()
    return ColumnHistograms(numbers, product.text or product.members[0].text)
