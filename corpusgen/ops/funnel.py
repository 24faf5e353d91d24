"""The funnel of a corpus, from targets to triples, compared with that of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.store import StageCount, Store
from corpusgen.store.products import WORDS

_FAR = 3  # letters beyond which the paper calls a paraphrase not trivial


@dataclass(frozen=True)
class Funnel:
    """The numbers of targets, of those with a paraphrase and an aligned word, and of triples, in total and by kind."""

    targets: int
    aligned: int | None
    triples: int
    enriched: int | None
    different: int | None
    far: int
    distinct_targets: int


PAPER = Funnel(1_000_000, None, 929_265, None, None, 242_643, 44_614)

STEPS = (("targets", "targets"), ("with an aligned word", "aligned"), ("triples", "triples"))
"""Labels of the steps of a funnel and their fields, in the order in which each follows from the one before."""

KINDS = (
    ("wp is predicted", "enriched"),
    ("wp ≠ wt", "different"),
    (f"edit distance > {_FAR}", "far"),
    ("distinct targets", "distinct_targets"),
)
"""Labels and fields of the kinds of triples; one triple may be of several kinds."""


class FunnelCount:
    """A funnel counted batch by batch, which keeps only the distinct targets of millions of rows."""

    OF_ROWS = ("target", "positive_word", "positive_rule", "edit_distance")
    OF_REJECTS = ("aligned_start",)

    def __init__(self, store: Store) -> None:
        positives = store.corpus().get("settings", {}).get("generate", {}).get("positives")
        self._aligns = positives != "substitution"  # without a translator there is nothing to align
        self._triples = self._enriched = self._different = self._far = 0
        self._failed = self._failed_aligned = 0
        self._targets: set[str] = set()

    def add_stages(self, stages: Sequence[StageCount]) -> None:
        """Count nothing: rejects are rows of a table."""

    def add_rows(self, batch: pa.RecordBatch) -> None:
        """Count triples; the batch has at least the columns `OF_ROWS`."""
        different = pc.not_equal(pc.utf8_lower(batch["target"]), pc.utf8_lower(batch["positive_word"]))
        self._triples += batch.num_rows
        self._enriched += _number_of_true(pc.not_equal(batch["positive_rule"], "aligned"))
        self._different += _number_of_true(different)
        self._far += _number_of_true(pc.greater(batch["edit_distance"], _FAR))
        self._targets.update(batch["target"].unique().to_pylist())

    def add_rejects(self, batch: pa.RecordBatch) -> None:
        """Count targets that became no triple; the batch has at least the columns `OF_REJECTS`."""
        self._failed += batch.num_rows
        self._failed_aligned += batch.num_rows - batch["aligned_start"].null_count

    def result(self) -> Funnel:
        """Return the funnel of everything that was added."""
        return Funnel(
            targets=self._triples + self._failed,
            aligned=self._triples + self._failed_aligned if self._aligns else None,
            triples=self._triples,
            enriched=self._enriched,
            different=self._different,
            far=self._far,
            distinct_targets=len(self._targets),
        )


def funnel(store: Store) -> Funnel:
    """Return the funnel of what is committed."""
    count = FunnelCount(store)
    for batch in WORDS.open(store).batches(FunnelCount.OF_ROWS):
        count.add_rows(batch)
    for batch in WORDS.open_rejects(store).batches(FunnelCount.OF_REJECTS):
        count.add_rejects(batch)
    return count.result()


def lines(ours: Funnel, paper: Funnel = PAPER) -> list[str]:
    """Return a table for the terminal."""
    found = [f"{'funnel':24}{'here':>12}{'':>8}{'paper':>12}"]
    for label, name in (*STEPS, *((f"  {label}", name) for label, name in KINDS)):
        columns = [_number(getattr(side, name), side.targets) for side in (ours, paper)]
        found.append(f"{label:24}" + "".join(columns))
    return found


def _number_of_true(values: pa.Array) -> int:
    return pc.sum(values).as_py() or 0


def _number(value: int | None, of: int) -> str:
    if value is None:
        return f"{'–':>12}{'':>8}"
    return f"{value:>12,}{value / of:>8.1%}" if of else f"{value:>12,}{'':>8}"
