"""Read the tokens of many sentences as flat arrays, so that nothing is done token by token."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from corpusgen.text.words import Tokens

_ROWS_AT_ONCE = 4096  # the arrays of a batch stay in the processor's cache
_COLUMNS = {"text": pa.string(), "token_starts": pa.list_(pa.int32()), "token_ends": pa.list_(pa.int32())}


def token_batches(sentences: pa.Table) -> Iterator[tuple[int, Tokens, pa.StringArray]]:
    """Yield all tokens of a table with `text`, `token_starts` and `token_ends`, some thousand sentences at a time.

    Each batch is the row of its first sentence in the table, the tokens, and their surfaces. Raise ValueError for a
    sentence without text or tokens (an empty list is fine) or a token that is not inside its text.
    """
    first_row = 0
    for batch in sentences.select(list(_COLUMNS)).to_batches(max_chunksize=_ROWS_AT_ONCE):
        text, starts, ends = (batch.column(name).cast(kind) for name, kind in _COLUMNS.items())
        if text.null_count:
            raise ValueError("a sentence has no text")
        tokens = Tokens.of_columns(starts, ends)
        yield first_row, tokens, tokens.surfaces(text)
        first_row += len(text)
