"""Figures of a store: what every pass holds, what was rejected, and how the numbers of triples are distributed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.corpus.stored_settings import open_store
from corpusgen.ops import funnel as funnels
from corpusgen.ops.funnel import Funnel, FunnelCount
from corpusgen.store import Commit, Store, Totals
from corpusgen.store.products import WORDS

PERCENTILES = (5, 25, 50, 75, 95)
_DECIMALS = 5  # of all stored cosines and probabilities
_OF_ROWS = {
    "alignment": "cosine of wt and the aligned word",
    "positive_cosine": "cosine of wt and wp",
    "negative_cosine": "cosine of wt and wn",
    "positive_probability": "probability of wp, if it was predicted",
    "negative_probability": "probability of wn",
    "edit_distance": "edit distance of wt and wp",
}
_OF_TEXTS = {"text": "words in S", "positive": "words in Sp", "negative": "words in Sn"}
_WORDS = {"target": "targets", "positive_word": "positive words", "negative_word": "negative words"}


class Distribution:
    """An exact distribution in bounded memory: values have at most five decimals, so each can be counted."""

    def __init__(self, decimals: int = 0) -> None:
        self._scale = 10**decimals
        self._lowest = -self._scale if decimals else 0  # cosines may be negative, counts may not
        self._counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, values: pa.Array) -> None:
        """Count some values, without nulls."""
        numbers = values.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
        bins = np.maximum(np.rint(numbers * self._scale).astype(np.int64) - self._lowest, 0)
        counts = np.bincount(bins, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts

    def summary(self) -> dict[str, float] | None:
        """Return number, mean, lowest, highest and percentiles (each a value that occurs); None without any value."""
        sums = np.cumsum(self._counts)
        if not len(sums) or not sums[-1]:
            return None
        values = (np.arange(len(sums)) + self._lowest) / self._scale
        present = np.flatnonzero(self._counts)
        ranks = [max(1, -(-share * int(sums[-1]) // 100)) for share in PERCENTILES]
        found = dict(zip((f"p{p}" for p in PERCENTILES), values[np.searchsorted(sums, ranks)].tolist(), strict=True))
        mean = float((values * self._counts).sum() / sums[-1])
        lowest, highest = values[present[0]].item(), values[present[-1]].item()
        return {"count": int(sums[-1]), "mean": round(mean, 6), "min": lowest, **found, "max": highest}


@dataclass(frozen=True)
class Stats:
    """The complete result of `corpusgen stats`."""

    root: str
    passes: dict[str, dict[str, Any]]
    funnel: Funnel | None = None
    positive_rules: dict[str, int] = dataclasses.field(default_factory=dict)
    distinct_words: dict[str, int] = dataclasses.field(default_factory=dict)
    distributions: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)


def stats(root: str) -> Stats:
    """Return the figures of what is committed now: all of the same units, even while a build runs."""
    store = open_store(root)
    passes: dict[str, dict[str, Any]] = {}
    of_triples: dict[str, Any] = {}
    for pass_store in store.passes():
        plan = pass_store.plan()
        totals = Totals(len(plan.units), rows=dict.fromkeys(plan.tables, 0))
        commits = list(pass_store.commits())
        for commit in commits:
            totals.add(commit)
        passes[pass_store.name] = _as_dict(totals)
        if pass_store.name == WORDS.pass_name:
            of_triples = _of_triples(store, commits)
    return Stats(store.url, passes, **of_triples)


def _as_dict(totals: Totals) -> dict[str, Any]:
    return {
        "units": totals.units,
        "committed": totals.committed,
        "rows": totals.rows,
        "rejected": {name: dict(stage.rejected) for name, stage in totals.stages.items() if stage.rejected},
        "quarantined": totals.quarantined,
    }


def _of_triples(store: Store, commits: Sequence[Commit]) -> dict[str, Any]:
    triples, rejects = WORDS.open(store), WORDS.open_rejects(store)
    count = FunnelCount(store)
    rules: Counter[str] = Counter()
    words: dict[str, set[str]] = {name: set() for name in _WORDS}
    spread = {name: Distribution(0 if name == "edit_distance" else _DECIMALS) for name in _OF_ROWS}
    lengths = {name: Distribution() for name in _OF_TEXTS}
    columns = list(dict.fromkeys((*FunnelCount.OF_TRIPLES, *_OF_ROWS, *_OF_TEXTS, *_WORDS)))
    for commit in commits:
        if WORDS.rejects in commit.parts:
            for batch in rejects.part_batches(commit.parts[WORDS.rejects], FunnelCount.OF_REJECTS):
                count.add_rejects(batch)
        if WORDS.table not in commit.parts:
            continue
        for batch in triples.part_batches(commit.parts[WORDS.table], columns):
            count.add_triples(batch)
            rules.update(batch["positive_rule"].to_pylist())
            for name, distribution in spread.items():
                distribution.add(batch[name])
            for name, distribution in lengths.items():
                trimmed = pc.utf8_trim_whitespace(batch[name])
                distribution.add(pc.list_value_length(pc.utf8_split_whitespace(trimmed)))
            for name, known in words.items():
                known.update(batch[name].unique().to_pylist())
    summaries = {name: found.summary() for name, found in {**spread, **lengths}.items()}
    return {
        "funnel": count.result(),
        "positive_rules": dict(rules.most_common()),
        "distinct_words": {name: len(known) for name, known in words.items()},
        "distributions": {name: summary for name, summary in summaries.items() if summary},
    }


def lines(found: Stats) -> Iterator[str]:
    """Yield the figures as lines for the terminal."""
    for name, figures in found.passes.items():
        rows = ", ".join(f"{count:,} {table}" for table, count in figures["rows"].items())
        yield f"{name}: {figures['committed']:,} of {figures['units']:,} units, {rows}"
        reasons = ((n, reason) for of_stage in figures["rejected"].values() for reason, n in of_stage.items())
        for number, reason in sorted(reasons, key=lambda item: (-item[0], item[1])):
            yield f"  {number:>12,} rejected: {reason}"
        if figures["quarantined"]:
            yield f"  {figures['quarantined']:>12,} quarantined"
    if found.funnel is None:
        yield "no triples: the pass 'generate' has not been started"
        return
    yield ""
    yield from funnels.lines(found.funnel)
    yield ""
    yield "positive words by rule: " + (
        ", ".join(f"{n:,} {rule}" for rule, n in found.positive_rules.items()) or "none"
    )
    yield "distinct words: " + ", ".join(f"{n:,} {_WORDS[name]}" for name, n in found.distinct_words.items())
    if found.distributions:
        yield ""
        heads = ("mean", "min", *(f"p{p}" for p in PERCENTILES), "max")
        yield f"{'':40}{'count':>12}" + "".join(f"{head:>9}" for head in heads)
        for name, summary in found.distributions.items():
            values = "".join(_number(summary[head], name in _OF_TEXTS or name == "edit_distance") for head in heads)
            yield f"{(_OF_ROWS | _OF_TEXTS)[name]:40}{summary['count']:>12,}{values}"


def _number(value: float, whole: bool) -> str:
    return f"{value:>9,.0f}" if whole and value == int(value) else f"{value:>9.1f}" if whole else f"{value:>9.3f}"
