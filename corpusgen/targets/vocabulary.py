"""Count words, and make the vocabulary that targets are drawn from."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.tables import COUNTS, VOCABULARY
from corpusgen.targets.tokens import token_batches

_ROWS_WORTH_MERGING = 10_000


def count_words(sentences: pa.Table) -> pa.Table:
    """Count how often each word occurs: `word`, `count`, sorted by word.

    A word is a token for which `str.isalpha()` holds, in the case in which it is written.
    """
    counts = merge_counts(_value_counts(words) for _, _, words in token_batches(sentences))
    return counts.filter(pa.array([word.isalpha() for word in counts.column("word").to_pylist()], pa.bool_()))


def merge_counts(tables: Iterable[pa.Table]) -> pa.Table:
    """Add up many counts, sorted by word. Memory holds twice the distinct words and one table, not all."""
    merged = COUNTS.empty_table()
    waiting: list[pa.Table] = []
    waiting_rows = 0
    for table in tables:
        if not table.num_rows:
            continue
        waiting.append(table.select(COUNTS.names).cast(COUNTS))
        waiting_rows += table.num_rows
        # Waiting until there is as much new as old keeps the work linear, however many tables there are.
        if waiting_rows >= max(merged.num_rows, _ROWS_WORTH_MERGING):
            merged = _sum([merged, *waiting])
            waiting, waiting_rows = [], 0
    return _sum([merged, *waiting]).sort_by("word").combine_chunks()


def make_vocabulary(counts: pa.Table, drop_top_share: float = 0.001, size: int = 50_000) -> pa.Table:
    """Return the `size` most frequent words after the very top, most frequent first, ties by word.

    The top is `drop_top_share` of the word types, mostly function words, rounded to the nearest number and halves
    upwards. There is no minimum: with fewer than 500 types 0.1 % rounds to zero, and nothing is dropped. `rank` is the
    position among all counted words, from 1, so the first row tells how many were dropped. `capital_share` is how often
    the word, in any case, begins with a capital: it tells names from other words.
    """
    if not 0 <= drop_top_share <= 1 or size < 0:
        raise ValueError(f"a vocabulary cannot have {size} words or drop {drop_top_share} of them")
    dropped = math.floor(drop_top_share * counts.num_rows + 0.5)
    ordered = counts.select(COUNTS.names).cast(COUNTS).sort_by([("count", "descending"), ("word", "ascending")])
    kept = ordered.slice(dropped, size).combine_chunks()
    ranks = pa.array(range(dropped + 1, dropped + 1 + kept.num_rows), pa.int64())
    return kept.append_column(VOCABULARY.field("rank"), ranks).append_column(
        VOCABULARY.field("capital_share"), _capital_share(kept["word"], counts)
    )


def _capital_share(words: pa.ChunkedArray, counts: pa.Table) -> pa.Array:
    lower = pc.utf8_lower(counts["word"])
    capital = pc.not_equal(pc.utf8_slice_codeunits(lower, 0, 1), pc.utf8_slice_codeunits(counts["word"], 0, 1))
    with_capital = pc.multiply(counts["count"], capital.cast(pa.int64()))
    table = pa.table({"lower": lower, "all": counts["count"], "capital": with_capital})
    sums = table.group_by("lower").aggregate([("all", "sum"), ("capital", "sum")])
    share = pc.divide(sums["capital_sum"].cast("double"), sums["all_sum"].cast("double"))
    found = pc.index_in(pc.utf8_lower(words), sums["lower"])
    return share.take(found).cast(pa.float32()).combine_chunks()


def _value_counts(words: pa.StringArray) -> pa.Table:
    words, counts = words.value_counts().flatten()
    return pa.table([words, counts], schema=COUNTS)


def _sum(tables: list[pa.Table]) -> pa.Table:
    total = pa.concat_tables(tables).group_by("word").aggregate([("count", "sum")])
    return pa.table([total.column("word"), total.column("count_sum")], schema=COUNTS)
