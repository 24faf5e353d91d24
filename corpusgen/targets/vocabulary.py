"""Count words, and make the vocabulary that targets are drawn from, or that of whole paragraphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.tables import COUNTS, TOKEN_VOCABULARY, VOCABULARY
from corpusgen.targets.tokens import token_batches

_ROWS_WORTH_MERGING = 10_000
_MOST_WORDS = 5_000_000  # whose counts are added up at once: below two gigabytes of memory


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


def count_tokens(paragraphs: pa.Table) -> pa.Table:
    """Count how often each token, of whatever kind, occurs in lower case: `word`, `count`, sorted by word."""
    counts = merge_counts(_value_counts(tokens) for _, _, tokens in token_batches(paragraphs))
    # Python's lower case, not Arrow's: readers will use it on tokens of the same texts.
    lower = pa.array([word.lower() for word in counts["word"].to_pylist()], pa.string())
    return merge_counts([pa.table([lower, counts["count"]], schema=COUNTS)])


def frequent_tokens(
    tables: Callable[[], Iterable[pa.Table]], min_count: int, size: int, most_words: int = _MOST_WORDS
) -> pa.Table:
    """Return the `size` most frequent tokens that occur at least `min_count` times, by rank, ties by word.

    The counts are exact. `tables` is called to read all counts, once if no more than `most_words` differ. If more do,
    words are added up range by range, and the tables are read again for each range: memory holds a few times
    `most_words`, however large the corpus.
    """
    found = COUNTS.empty_table()
    first: str | None = ""
    while first is not None:
        counts, first = _sum_from(first, tables(), most_words)
        frequent = counts.filter(pc.greater_equal(counts["count"], min_count))
        ordered = pa.concat_tables([found, frequent]).sort_by([("count", "descending"), ("word", "ascending")])
        found = ordered.slice(0, size).combine_chunks()
    ranks = pa.array(range(1, found.num_rows + 1), pa.int64())
    return found.append_column("rank", ranks).cast(TOKEN_VOCABULARY)


def _sum_from(first: str, tables: Iterable[pa.Table], most_words: int) -> tuple[pa.Table, str | None]:
    """Add up the counts of `first` and the words after it, of as many as fit; return also the first word left out."""
    beyond: str | None = None
    merged = COUNTS.empty_table()
    waiting: list[pa.Table] = []
    for table in tables:
        within = table.filter(pc.greater_equal(table["word"], first)) if first else table
        waiting.append(within.filter(pc.less(within["word"], beyond)) if beyond is not None else within)
        if sum(one.num_rows for one in waiting) >= max(merged.num_rows, _ROWS_WORTH_MERGING):
            merged, waiting = _sum([merged, *waiting]), []
            if merged.num_rows > most_words:
                merged, half = merged.sort_by("word"), max(1, most_words // 2)
                beyond = merged["word"][half].as_py()
                merged = merged.slice(0, half).combine_chunks()
    return _sum([merged, *waiting]), beyond


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
