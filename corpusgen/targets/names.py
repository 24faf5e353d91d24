"""Tell names from other words by how often a corpus capitalises them."""

from __future__ import annotations

import pyarrow as pa

_NOUNS_HAVE_CAPITALS = frozenset({"de", "lb"})


def capital_share_limit(setting: float | None, language: str) -> float:
    """Return the share of capitals from which on a word counts as a name."""
    if setting is not None:
        return setting
    return 1.0 if language in _NOUNS_HAVE_CAPITALS else 0.9


def is_name(word: str, capital_share: float, limit: float) -> bool:
    """Return whether a word counts as a name: capitalised here, or mostly; a limit of 1 means that none does."""
    return limit < 1 and (capital_share > limit or word[:1].isupper())


def without_names(vocabulary: pa.Table, limit: float | None) -> pa.Table:
    """Return the words of a vocabulary that are no names; all words if there is no limit."""
    if limit is None:
        return vocabulary
    words, shares = vocabulary["word"].to_pylist(), vocabulary["capital_share"].to_pylist()
    keep = [not is_name(word, share, limit) for word, share in zip(words, shares, strict=True)]
    return vocabulary.filter(pa.array(keep, pa.bool_()))
