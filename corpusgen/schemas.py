"""The tables of a build before the triples: what a row of each is."""

from __future__ import annotations

import pyarrow as pa

PLACE = (("source", pa.string()), ("article", pa.string()), ("title", pa.string()), ("revision", pa.string()))
"""Where a text comes from: its file, the article's id, title and revision if known."""

ARTICLES = pa.schema([*PLACE, ("text", pa.string())])

PARAGRAPHS = pa.schema([*PLACE, ("paragraph", pa.int32()), ("text", pa.string())])

SENTENCES = pa.schema(
    [
        ("id", pa.string()),
        *PLACE,
        ("paragraph", pa.int32()),
        ("sentence", pa.int32()),
        ("text", pa.string()),
        ("token_starts", pa.list_(pa.int32())),
        ("token_ends", pa.list_(pa.int32())),
    ]
)
"""`text[token_starts[i]:token_ends[i]]` is the i-th token. `id` is a hash of the place and the text."""

TARGETS = pa.schema([*SENTENCES, ("target", pa.string()), ("target_start", pa.int32()), ("target_end", pa.int32())])
"""`text[target_start:target_end]` is the target, which occurs nowhere else in the sentence."""

REJECTS = pa.schema([("source", pa.string()), ("article", pa.string()), ("reason", pa.string())])
