"""Split texts into sentences and tokens with exact character offsets.

With every segmenter, `text[start:end]` of each sentence and each token is its surface, and sentences never cross a
paragraph.
"""

from __future__ import annotations

import bisect
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.engine import Result, Stage
from corpusgen.engine.time_limit import TimeLimit, TookTooLong
from corpusgen.errors import StageError
from corpusgen.extras import missing_extra
from corpusgen.models.identity import NamedModel, confirmed
from corpusgen.tables import PROVENANCE, SENTENCES, TEXT_REJECTS
from corpusgen.text.words import Tokens, tokenize

# A full stop after a lower-case word, a year or a bracket, and before a capital. On Wikipedia this is almost always an
# end, even where nupunkt takes the word for an abbreviation, and it settles most paragraphs.
_ABBREVIATIONS = ("Messrs", "Assoc", "Calif", "Lieut", "Comdr", "Trans", "Agric", "Philos")
_CERTAIN_END = re.compile(
    r" (?=[A-Z][a-z])(?:(?<=[a-z]{4}\. )|(?<=\b\d{4}\. )|(?<=[a-z]\)\. ))"
    + "".join(rf"(?<!\b{word}\. )" for word in _ABBREVIATIONS)
)
_MARK = re.compile(r"[.!?…]")

LONGEST_PARAGRAPH = 1_000_000
"""The most characters of a paragraph that is split: more than a long novel has. Wikipedia's longest have some ten
thousand; anything longer than this is data, and could fill the memory of one worker with any number of rows."""

_BYTES_AT_ONCE = 1 << 20

# From every mark nupunkt looks ahead to the end of the word, which takes time quadratic in the word's length, and it
# remembers the words and ellipses that it has judged. No real word is this long, so nupunkt only sees both ends.
_LONGEST_WORD = 1000
_LONG_WORD = re.compile(rf"(?<!\S)\S{{{_LONGEST_WORD + 1},}}+|[.\s]{{{_LONGEST_WORD + 1},}}+")


class Segmented(NamedTuple):
    """The sentences of many paragraphs: each with its paragraph's index and its span there, and all their tokens."""

    paragraphs: list[int]
    spans: list[tuple[int, int]]
    tokens: Tokens


class Segmenter(Protocol):
    """A splitter of paragraphs. Sentence spans count from the paragraph's start, token spans from the sentence's."""

    def segment(self, paragraphs: Sequence[str], failed: dict[int, str] | None = None) -> Segmented:
        """Return all sentences in the order of the text; `failed` gets the paragraphs that cannot be split, and why."""


class RuleSegmenter:
    """A segmenter that is fast on a CPU: patterns and nupunkt for sentences, kinds of characters for words.

    With `whole`, numbers and abbreviations stay whole, as `tokenize` says.
    """

    def __init__(self, whole: bool = False) -> None:
        import nupunkt

        self._whole = whole
        self._sentence_spans = nupunkt.sent_spans
        self._sentence_spans("It loads its model when it is first called.")

    def segment(self, paragraphs: Sequence[str], failed: dict[int, str] | None = None) -> Segmented:
        """Split one paragraph after the other, and the sentences of all of them into words."""
        taken: list[int] = []
        spans: list[tuple[int, int]] = []
        sentences: list[str] = []
        with TimeLimit() as limit:
            for index, text in enumerate(paragraphs):
                before = len(taken)
                try:
                    limit.record = index
                    for start, stop in self._spans(text):
                        surface = text[start:stop]
                        stripped = surface.strip()
                        if stripped:
                            start += surface.index(stripped[0])
                            taken.append(index)
                            spans.append((start, start + len(stripped)))
                            sentences.append(stripped)
                    limit.record = None
                except TookTooLong as error:
                    if failed is None:
                        raise
                    failed[index] = str(error)
                    del taken[before:], spans[before:], sentences[before:]
        return Segmented(taken, spans, tokenize(sentences, self._whole))

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Cut where there is no doubt, and ask nupunkt about pieces that have a mark inside."""
        start = 0
        for stop in [*(match.start() for match in _CERTAIN_END.finditer(text)), len(text)]:
            mark = _MARK.search(text, start, stop)
            if mark is None or mark.end() == stop:
                yield start, stop
            else:
                piece = text[start:stop]
                ask = self._sentence_spans if len(piece) <= _LONGEST_WORD else self._spans_without_long_words
                for a, b in ask(piece):
                    yield start + a, start + b
            start = stop

    def _spans_without_long_words(self, text: str) -> list[tuple[int, int]]:
        """Return nupunkt's spans for a piece whose long words are shortened before it sees them."""
        kept: list[str] = []
        removed = [0]  # characters removed before each kept piece
        end = 0
        for word in _LONG_WORD.finditer(text):
            start, stop = word.start() + _LONGEST_WORD // 2, word.end() - _LONGEST_WORD // 2
            # Characters that meet at the cut must have met before: two dots with a space between must not touch.
            stop = text.find(text[start - 1], stop, word.end()) + 1 or stop
            kept.append(text[end:start])
            removed.append(removed[-1] + stop - start)
            end = stop
        ends = list(itertools.accumulate(map(len, kept)))
        found = self._sentence_spans("".join([*kept, text[end:]]))
        return [(a + removed[bisect.bisect(ends, a)], b + removed[bisect.bisect(ends, b)]) for a, b in found]


class StanzaSegmenter:
    """Stanza's tokenizer, as in the paper. It never downloads a model: on a cluster that would be a surprise."""

    def __init__(self, language: str, model_dir: str | None, use_gpu: bool) -> None:
        try:
            import stanza
        except ImportError as missing:
            raise StageError(missing_extra("segmenter.kind: stanza", "stanza", "stanza")) from missing
        if model_dir and not os.path.isdir(model_dir):
            raise StageError(f"segmenter.model_dir: {model_dir}: no such folder")
        try:
            self._pipeline: Any = stanza.Pipeline(
                language,
                processors="tokenize",
                **({"dir": model_dir} if model_dir else {}),
                download_method=None,
                use_gpu=use_gpu,
                verbose=False,
            )
        except Exception as error:
            raise StageError(
                f"Stanza cannot load its {language!r} tokenizer from {model_dir or 'its default folder'}: {error}; "
                f"download it once with `python -c \"import stanza; stanza.download('{language}', "
                "processors='tokenize')\"` and give the folder as segmenter.model_dir"
            ) from error

    def segment(self, paragraphs: Sequence[str], failed: dict[int, str] | None = None) -> Segmented:
        """Split all paragraphs in one call; each stays a document of its own, and none can fail alone."""
        import stanza

        documents = self._pipeline([stanza.Document([], text=text) for text in paragraphs])
        taken, spans, counts, starts, ends = [], [], [], [], []
        for index, (_, document) in enumerate(zip(paragraphs, documents, strict=True)):
            for sentence in document.sentences:
                start = sentence.tokens[0].start_char
                taken.append(index)
                spans.append((start, sentence.tokens[-1].end_char))
                counts.append(len(sentence.tokens))
                starts += [token.start_char - start for token in sentence.tokens]
                ends += [token.end_char - start for token in sentence.tokens]
        tokens = Tokens(np.array(counts, np.int64), np.array(starts, np.int32), np.array(ends, np.int32))
        return Segmented(taken, spans, tokens)


@dataclass
class Segments(Stage):
    """A stage that has a segmenter; `whole_tokens` says whether numbers and abbreviations stay whole."""

    name: ClassVar[str] = "segment"
    whole_tokens: ClassVar[bool] = False

    kind: str = "rules"
    language: str = "en"
    model_dir: str | None = None
    use_gpu: bool = field(default=False, metadata={"content": False})

    def uses(self) -> Sequence[NamedModel]:
        """Return Stanza's model folder, if one is set."""
        return [NamedModel("segmenter", "files", self.model_dir)] if self.model_dir else []

    def setup(self) -> None:
        """Load the segmenter."""
        if self.kind == "rules":
            self._segmenter: Segmenter = RuleSegmenter(self.whole_tokens)
            return
        folder = self.model_dir and confirmed(self.model_dir, None, self.models.get("segmenter"))[0]
        self._segmenter = StanzaSegmenter(self.language, folder, self.use_gpu)

    def _segment(self, texts: list[str]) -> tuple[Segmented, dict[int, str]]:
        """Split paragraphs; return also those that cannot be split, and why. They become empty texts."""
        failed = {
            index: f"the paragraph has {len(text):,} characters; the limit is {LONGEST_PARAGRAPH:,}"
            for index, text in enumerate(texts)
            if len(text) > LONGEST_PARAGRAPH
        }
        for index in failed:
            texts[index] = ""
        return self._segmenter.segment(texts, failed), failed

    def _some_at_once(self, rows: pa.Table) -> list[pa.Table]:
        """Slice rows by bytes of text: in Python, very short sentences take a hundred times as much memory."""
        if self.kind != "rules":
            return [rows]
        sizes = np.cumsum(pc.binary_length(rows["text"]).to_numpy())
        cuts = np.flatnonzero(np.diff(sizes // _BYTES_AT_ONCE)) + 1
        return [rows.slice(a, b - a) for a, b in itertools.pairwise([0, *cuts.tolist(), rows.num_rows])]


def unsplit(rows: pa.Table, failed: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return the paragraphs that cannot be split as records for the quarantine, with where they are."""
    records = rows.select(["source", "article", "paragraph"]).take(pa.array(sorted(failed), pa.int64())).to_pylist()
    return [{"error": failed[index], "record": record} for index, record in zip(sorted(failed), records, strict=True)]


@dataclass
class SegmentSentences(Segments):
    """Splits paragraphs into sentences."""

    needs: ClassVar[tuple[str, ...]] = (*(name for name, _ in PROVENANCE), "paragraph", "text")
    adds: ClassVar[tuple[str, ...]] = tuple(name for name in SENTENCES.names if name != "id")
    expands: ClassVar[bool] = True

    def process(self, rows: pa.Table) -> Result:
        """Split each paragraph; one without a sentence is rejected, one that cannot be split is quarantined."""
        parts = list(map(self._split, self._some_at_once(rows)))
        return Result(
            pa.concat_tables([part.rows for part in parts]).combine_chunks(),
            pa.concat_tables([part.rejects for part in parts]),
            [record for part in parts for record in part.quarantined],
            sum(part.used or 0 for part in parts),
        )

    def _split(self, rows: pa.Table) -> Result:
        texts = rows["text"].to_pylist()
        (taken, spans, tokens), failed = self._segment(texts)
        numbers = [number for _, some in itertools.groupby(taken) for number, _ in enumerate(some)]
        sentences = [texts[index][start:stop] for index, (start, stop) in zip(taken, spans, strict=True)]
        token_starts, token_ends = tokens.columns()
        table = rows.select([*(name for name, _ in PROVENANCE), "paragraph"]).take(pa.array(taken, pa.int64()))
        for name, column in (
            ("sentence", pa.array(numbers, pa.int32())),
            ("text", pa.array(sentences, pa.string())),
            ("token_starts", token_starts),
            ("token_ends", token_ends),
        ):
            table = table.append_column(name, column)
        empty = sorted(set(range(len(texts))).difference(taken, failed))
        rejects = rows.select(TEXT_REJECTS.names[:2]).take(pa.array(empty, pa.int64()))
        rejects = rejects.append_column("reason", pa.array(["no sentence"] * len(empty), pa.string()))
        return Result(table, rejects, unsplit(rows, failed), used=len(texts) - len(empty) - len(failed))
