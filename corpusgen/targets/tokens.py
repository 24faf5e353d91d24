"""The tokens of many sentences as flat arrays, so that nothing is done token by token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_ROWS_AT_ONCE = 4096  # the arrays of a batch stay in the processor's cache
_COLUMNS = {"text": pa.string(), "token_starts": pa.list_(pa.int32()), "token_ends": pa.list_(pa.int32())}


class Tokens(NamedTuple):
    """Tokens in the order of the text; `row` is the place of their sentence in the table."""

    word: pa.StringArray
    row: npt.NDArray[np.int64]
    start: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]


def token_batches(sentences: pa.Table) -> Iterator[Tokens]:
    """All tokens of a table with `text`, `token_starts` and `token_ends`, some thousand sentences at a time.

    ValueError for a sentence without text or tokens (an empty list is fine) or a token that is not inside its text.
    """
    first_row = 0
    for batch in sentences.select(list(_COLUMNS)).to_batches(max_chunksize=_ROWS_AT_ONCE):
        text, starts, ends = (batch.column(name).cast(kind) for name, kind in _COLUMNS.items())
        if text.null_count or starts.null_count or ends.null_count:
            raise ValueError("a sentence has no text or no tokens")
        if not starts.value_lengths().equals(ends.value_lengths()):
            raise ValueError("a sentence has more token starts than ends, or fewer")
        row = np.repeat(np.arange(len(text)), starts.value_lengths().to_numpy())
        start, end = starts.flatten().to_numpy(), ends.flatten().to_numpy()
        yield Tokens(_slices(text, row, start, end), first_row + row, start, end)
        first_row += len(text)


def _slices(
    text: pa.StringArray, row: npt.NDArray[np.int64], start: npt.NDArray[np.int32], end: npt.NDArray[np.int32]
) -> pa.StringArray:
    """`text[row][start:end]` for each token. Arrow keeps UTF-8, so characters must be turned into bytes first."""
    characters = pc.utf8_length(text).to_numpy()
    if (start < 0).any() or (end < start).any() or (end > characters[row]).any():
        raise ValueError("a token is not inside the text of its sentence")
    data = _bytes(text)
    # A byte begins a character unless it is 10xxxxxx. One more entry: where the last character ends.
    byte_of_character = np.append(np.flatnonzero((data & 0xC0) != 0x80), len(data))
    first_character = (np.cumsum(characters) - characters)[row]
    first_byte = byte_of_character[first_character + start]
    length = byte_of_character[first_character + end] - first_byte
    offsets = np.concatenate(([0], np.cumsum(length)))
    gathered = data[np.repeat(first_byte - offsets[:-1], length) + np.arange(offsets[-1])]
    return pa.StringArray.from_buffers(len(row), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(gathered))


def _bytes(text: pa.StringArray) -> npt.NDArray[np.uint8]:
    """The UTF-8 of all texts, one after the other."""
    _, offsets, data = text.buffers()
    if not len(text) or data is None:
        return np.empty(0, np.uint8)
    bounds: Any = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
