"""Keep whole paragraphs, with the offsets of their sentences and tokens, each paragraph or a reason why not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusgen.config.build import ParagraphSettings
from corpusgen.engine import Result, split_by_reason
from corpusgen.engine.batch import concat_tables
from corpusgen.tables import PROVENANCE
from corpusgen.text.filters import text_ids
from corpusgen.text.marks import HOLE
from corpusgen.text.segment import Segmented, Segments, unsplit

# Something was lost (our own mark, that for undecodable bytes, characters that no text has), mark-up is left, or
# WikiExtractor left out a formula or a program.
_DAMAGE = re.compile(
    rf"[{HOLE}\ufffd\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ufdd0-\ufdef\ufffe\uffff]"
    r"|\[\[|\]\]|\{\{|\}\}|</?[A-Za-z][^<>]*>|\b(?:formula|codice)_\d"
)
_OFFSETS = ("sentence_starts", "sentence_ends", "sentence_tokens", "token_starts", "token_ends")
_KEY = ("article", "paragraph", "text")


@dataclass
class SegmentParagraphs(Segments):
    """Finds the sentences and tokens of paragraphs, and rejects short and damaged ones."""

    whole_tokens: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = (*(name for name, _ in PROVENANCE), "paragraph", "text")
    adds: ClassVar[tuple[str, ...]] = ("id", *_OFFSETS)

    min_sentences: int = ParagraphSettings().min_sentences
    min_characters: int = ParagraphSettings().min_characters

    def process(self, rows: pa.Table) -> Result:
        """Keep or reject each paragraph; one that cannot be split is quarantined."""
        parts = list(map(self._split, self._some_at_once(rows)))
        return Result(
            pa.concat_tables([part.rows for part in parts]).combine_chunks(),
            concat_tables(part.rejects for part in parts),
            [record for part in parts for record in part.quarantined],
        )

    def _split(self, rows: pa.Table) -> Result:
        usable = split_by_reason(rows, list(map(self._reason, rows["text"].to_pylist())))
        rows = usable.rows
        segmented, failed = self._segment(rows["text"].to_pylist())
        sentences = np.bincount(np.array(segmented.paragraphs, np.int64), minlength=rows.num_rows)
        table = rows
        for name, column in zip(_OFFSETS, _offsets(segmented, sentences), strict=True):
            table = table.append_column(name, column)
        split = np.setdiff1d(np.arange(rows.num_rows), list(failed))
        reasons = [None if number >= self.min_sentences else "too few sentences" for number in sentences[split]]
        kept = split_by_reason(table.take(pa.array(split)), reasons)
        return Result(
            kept.rows.append_column("id", text_ids(kept.rows, _KEY)),
            concat_tables([usable.rejects, kept.rejects]),
            unsplit(rows, failed),
        )

    def _reason(self, text: str) -> str | None:
        if len(text) < self.min_characters:
            return "too short"
        return "damaged" if _DAMAGE.search(text) else None


def _offsets(segmented: Segmented, sentences: npt.NDArray[np.int64]) -> list[pa.ListArray]:
    """Return the columns `_OFFSETS`, which count from the start of a paragraph; each has this many `sentences`."""
    taken, spans, (counts, token_starts, token_ends) = segmented
    starts, ends = np.array(spans, np.int32).reshape(-1, 2).T
    tokens = np.bincount(np.array(taken, np.int64), counts, len(sentences)).astype(np.int64)
    first = np.repeat(starts, counts)
    return [
        *(_lists(values, sentences) for values in (starts, ends, counts)),
        *(_lists(values + first, tokens) for values in (token_starts, token_ends)),
    ]


def _lists(values: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> pa.ListArray:
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values, pa.int32()))
