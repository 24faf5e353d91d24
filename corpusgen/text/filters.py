"""Which sentences are kept: the length of the paper and the surface filters of its published code, each by reason."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import unicodedata
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.engine import Result, Stage, split_by_reason
from corpusgen.schemas import SENTENCES
from corpusgen.text.wikitext import HOLE

_REPEATED = re.compile(r"(.)\1{3}")
# What mark-up, its removal, or a bad extraction leaves behind.
_DEBRIS = re.compile(
    rf"[\[\]{{}}|<>\\^_~{HOLE}]|https?:|www\.|''|==|\(\s*[),;:.]|[,;(]\s*\)|\s[,;:.!?)]|[.)\]\"”’]:\d|&[a-z]+;|,,|;;|[£$€](?!\w)"
)
_END = re.compile(r"[.!?…][\"'”’»)\]]*$")
CJK = frozenset({"zh", "ja", "ko", "yue", "wuu", "lzh"})


@dataclass
class FilterSentences(Stage):
    """Gives a sentence an id, or rejects it for the first reason that holds. None or False switches one off."""

    name: ClassVar[str] = "filter"
    needs: ClassVar[tuple[str, ...]] = tuple(name for name in SENTENCES.names if name != "id")
    adds: ClassVar[tuple[str, ...]] = ("id",)

    language: str = "en"
    min_words: int | None = 15
    max_words: int | None = 50
    capital_first: bool = True
    max_hyphens: int | None = 1
    max_numbers: int | None = 1
    max_commas: int | None = 2
    no_repeated_characters: bool = True
    no_wide_characters: bool = True
    no_debris: bool = True
    ends_as_sentence: bool = True
    balanced: bool = True

    def process(self, rows: pa.Table) -> Result:
        """Judge each sentence."""
        texts = rows["text"].to_pylist()
        counts = pc.list_value_length(rows["token_starts"]).to_pylist()
        reasons = [self._at_first_sight(text, count) for text, count in zip(texts, counts, strict=True)]
        left = [index for index, reason in enumerate(reasons) if reason is None]
        # The tokens of those that are left only: to make Python objects of all of them takes longer than to look.
        starts = rows["token_starts"].take(pa.array(left, pa.int64())).to_pylist()
        for index, token_starts in zip(left, starts, strict=True):
            reasons[index] = self._on_a_closer_look(texts[index], token_starts)
        result = split_by_reason(rows, reasons)
        return dataclasses.replace(result, rows=result.rows.append_column("id", _ids(result.rows)))

    def reason(self, text: str, token_starts: list[int]) -> str | None:
        """Why a sentence is rejected; None if it is kept."""
        return self._at_first_sight(text, len(token_starts)) or self._on_a_closer_look(text, token_starts)

    def _at_first_sight(self, text: str, tokens: int) -> str | None:
        if self.min_words is not None and tokens < self.min_words:
            return "too short"
        if self.capital_first and not text[:1].isupper():
            return "no capital first"
        if self.max_commas is not None and text.count(",") > self.max_commas:
            return "commas"
        if self.max_hyphens is not None and text.count("-") > self.max_hyphens:
            return "hyphens"
        if self.ends_as_sentence and not _END.search(text, max(0, len(text) - 5)):
            return "no end of sentence"
        return None

    def _on_a_closer_look(self, text: str, token_starts: list[int]) -> str | None:
        firsts = [text[start] for start in token_starts]
        words = sum(map(str.isalnum, firsts))  # a token that begins with a letter or a digit is a word
        if self.min_words is not None and words < self.min_words:
            return "too short"
        if self.max_words is not None and words > self.max_words:
            return "too long"
        if self.max_numbers is not None and sum(map(str.isdigit, firsts)) > self.max_numbers:
            return "numbers"
        if self.no_repeated_characters and _REPEATED.search(text):
            return "repeated character"
        if self.no_wide_characters and self.language not in CJK and _has_wide(text):
            return "wide character"
        if self.balanced and not _is_balanced(text):
            return "unbalanced"
        if self.no_debris and _DEBRIS.search(text):
            return "debris"
        return None


def _ids(rows: pa.Table) -> pa.Array:
    """Names for sentences that stay the same wherever the files lie and however they are cut into units."""
    files = [os.path.basename(source) for source in rows["source"].to_pylist()]
    columns = [rows[name].to_pylist() for name in ("article", "paragraph", "sentence", "text")]
    keys = zip(files, *columns, strict=True)
    return pa.array([hashlib.blake2b(repr(key).encode(), digest_size=12).hexdigest() for key in keys], pa.string())


def _is_balanced(text: str) -> bool:
    """Whether quotes and brackets come in pairs: where they do not, the sentence was cut out of a larger one."""
    return text.count('"') % 2 == 0 and all(text.count(a) == text.count(b) for a, b in ("()", "“”", "«»"))


def _has_wide(text: str) -> bool:
    return not text.isascii() and any(unicodedata.east_asian_width(character) in "WF" for character in text)
