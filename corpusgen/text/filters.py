"""Filter sentences by the paper's lengths and the surface filters of its published code, each with a reason."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from corpusgen.config.build import FilterSettings
from corpusgen.engine import Result, Stage, split_by_reason
from corpusgen.tables import SENTENCES
from corpusgen.text.marks import HOLE
from corpusgen.text.words import DIGIT, LETTER, character_kinds, starts_of

_REPEATED = re.compile(r"(.)\1{3}")
# What mark-up, its removal, or a bad extraction leaves behind. Most sentences have none of these characters and
# pairs, and looking for them one by one is faster than one large pattern.
_DEBRIS_CHARACTER = re.compile(rf"[\[\]{{}}|<>\\^_~{HOLE}]")
_DEBRIS_STRINGS = (
    *("http:", "https:", "www.", "''", "==", ",,", ";;", "£ ", "$ ", "€ "),
    *(" ,", " ;", " :", " .", " !", " ?", " )", "()", "( ", "(,", "(;", "(:", "(.", ",)", ";)"),
)
_PAGE_OR_ENTITY = re.compile(r"[.)\"”’]:\d|&[a-z]+;")
_END = re.compile(r"[.!?…][\"'”’»)\]]*$")
_KEY = ("article", "paragraph", "sentence", "text")
CJK = frozenset({"zh", "ja", "ko", "yue", "wuu", "lzh"})


@dataclass
class FilterSentences(Stage):
    """Gives a sentence an id, or rejects it for the first reason that holds. None or False switches a filter off."""

    name: ClassVar[str] = "filter"
    needs: ClassVar[tuple[str, ...]] = tuple(name for name in SENTENCES.names if name != "id")
    adds: ClassVar[tuple[str, ...]] = ("id",)

    language: str = "en"
    filters: FilterSettings = field(default_factory=FilterSettings)

    def identity(self) -> dict[str, Any]:
        """Return what determines the result, each filter by its own name."""
        identity = super().identity()
        filters = identity.pop("filters")
        return {**identity, **filters}

    def process(self, rows: pa.Table) -> Result:
        """Keep or reject each sentence."""
        texts = rows["text"].to_pylist()
        words, numbers = _count_words(texts, rows["token_starts"].combine_chunks())
        reasons = [self.reason(*sentence) for sentence in zip(texts, words, numbers, strict=True)]
        result = split_by_reason(rows, reasons)
        return dataclasses.replace(result, rows=result.rows.append_column("id", text_ids(result.rows, _KEY)))

    def reason(self, text: str, words: int, numbers: int) -> str | None:
        """Return why a sentence is rejected; None if it is kept."""
        filters = self.filters
        if filters.min_words is not None and words < filters.min_words:
            return "too short"
        if filters.max_words is not None and words > filters.max_words:
            return "too long"
        if filters.capital_first and not text[:1].isupper():
            return "no capital first"
        if filters.max_commas is not None and text.count(",") > filters.max_commas:
            return "commas"
        if filters.max_hyphens is not None and text.count("-") > filters.max_hyphens:
            return "hyphens"
        if filters.max_numbers is not None and numbers > filters.max_numbers:
            return "numbers"
        if filters.ends_as_sentence and not _END.search(text, max(0, len(text) - 5)):
            return "no end of sentence"
        if filters.no_repeated_characters and _REPEATED.search(text):
            return "repeated character"
        if filters.no_wide_characters and self.language not in CJK and _has_wide(text):
            return "wide character"
        if filters.balanced and not _is_balanced(text):
            return "unbalanced"
        if filters.no_debris and _has_debris(text):
            return "debris"
        return None


def _count_words(texts: list[str], token_starts: pa.ListArray) -> tuple[list[int], list[int]]:
    """Count each sentence's words and numbers: tokens that begin with a letter or digit, and with a digit."""
    rows = np.repeat(np.arange(len(texts)), token_starts.value_lengths().to_numpy())
    firsts = character_kinds(texts)[starts_of(texts)[rows] + token_starts.flatten().to_numpy()]
    words, numbers = (np.bincount(rows[(firsts & kind) != 0], minlength=len(texts)) for kind in (LETTER | DIGIT, DIGIT))
    return words.tolist(), numbers.tolist()


def text_ids(rows: pa.Table, key: Sequence[str]) -> pa.Array:
    """Return ids that stay the same wherever the files are and however they are cut into units.

    An id is a hash of the name of the file and of the columns `key`, which say where in it a text is, and what it says.
    """
    files = [os.path.basename(source) for source in rows["source"].to_pylist()]
    columns = [rows[name].to_pylist() for name in key]
    keys = zip(files, *columns, strict=True)
    return pa.array([hashlib.blake2b(repr(key).encode(), digest_size=12).hexdigest() for key in keys], pa.string())


def _is_balanced(text: str) -> bool:
    """Return whether quotes and brackets come in pairs: if not, the sentence was cut out of a larger one."""
    return text.count('"') % 2 == 0 and all(text.count(a) == text.count(b) for a, b in ("()", "“”", "«»"))


def _has_debris(text: str) -> bool:
    return (
        _DEBRIS_CHARACTER.search(text) is not None
        or any(string in text for string in _DEBRIS_STRINGS)
        or ((":" in text or "&" in text) and _PAGE_OR_ENTITY.search(text) is not None)
    )


def _has_wide(text: str) -> bool:
    return not text.isascii() and any(unicodedata.east_asian_width(character) in "WF" for character in text)
