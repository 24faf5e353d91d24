"""Sentences small enough to reason about: words of a small alphabet, so that they repeat."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import strategies as st

WORDS = ["bank", "Bank", "river", "été", "Straße", "水", "𝒳", "a", "of", "may"]
OTHER_TOKENS = ["1984", ",", "x2", "—", "😀", "co-op", "e\u0301"]

texts = st.lists(st.sampled_from(WORDS * 2 + OTHER_TOKENS), max_size=9).map(" ".join)


def words_of(text: str) -> list[str]:
    """The tokens of a text, words or not."""
    return text.split()


def sentence_table(sentences: Sequence[str]) -> pa.Table:
    """Sentences as the harvest leaves them; tokens are what stands between spaces."""
    spans = [[match.span() for match in re.finditer(r"\S+", text)] for text in sentences]
    return pa.table(
        {
            "text": pa.array(sentences, pa.string()),
            "token_starts": pa.array([[start for start, _ in row] for row in spans], pa.list_(pa.int32())),
            "token_ends": pa.array([[end for _, end in row] for row in spans], pa.list_(pa.int32())),
            "title": pa.array(["unrelated"] * len(sentences), pa.string()),
        }
    )
