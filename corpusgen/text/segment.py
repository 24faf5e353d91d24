"""Sentences and tokens with exact character offsets.

Whatever the segmenter: `text[start:end]` of every sentence and of every token is its surface, and sentences never
cross a paragraph.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from corpusgen.engine import Result, Stage
from corpusgen.errors import StageError
from corpusgen.schemas import PLACE, REJECTS, SENTENCES

Span = tuple[int, int]

# A word may hold inner hyphens, apostrophes and full stops (well-known, don't, U.S); any other mark stands alone.
_TOKEN = re.compile(r"\w++(?:[-'’.]\w++)*+|[^\w\s]")

# A full stop after a word in lower case, a year or a bracket, and before a capital. Seen on Wikipedia: as good as
# always an end, also where nupunkt takes the word for an abbreviation; and most paragraphs are settled by it.
_ABBREVIATIONS = ("Messrs", "Assoc", "Calif", "Lieut", "Comdr", "Trans", "Agric", "Philos")
_CERTAIN_END = re.compile(
    r" (?=[A-Z][a-z])(?:(?<=[a-z]{4}\. )|(?<=\b\d{4}\. )|(?<=[a-z]\)\. ))"
    + "".join(rf"(?<!\b{word}\. )" for word in _ABBREVIATIONS)
)
_MARK = re.compile(r"[.!?…]")


def tokenize(sentence: str) -> list[Span]:
    """Words and single marks."""
    return [match.span() for match in _TOKEN.finditer(sentence)]


class Segmenter(Protocol):
    """Splits paragraphs. Sentence spans count from the paragraph's start, token spans from the sentence's."""

    def segment(self, paragraphs: Sequence[str]) -> Iterable[list[tuple[Span, list[Span]]]]:
        """For each paragraph its sentences, each with its tokens."""


class RuleSegmenter:
    """nupunkt for sentences, a regular expression for words: fast on a CPU."""

    def __init__(self) -> None:
        import nupunkt

        self._sentence_spans = nupunkt.sent_spans
        self._sentence_spans("It loads its model when it is first called.")

    def segment(self, paragraphs: Sequence[str]) -> Iterable[list[tuple[Span, list[Span]]]]:
        """Split one paragraph after the other: all their spans at once would keep the garbage collector busy."""
        return map(self._segment, paragraphs)

    def _segment(self, text: str) -> list[tuple[Span, list[Span]]]:
        sentences = []
        for start, stop in self._spans(text):
            surface = text[start:stop]
            stripped = surface.strip()
            if stripped:
                start += surface.index(stripped[0])
                sentences.append(((start, start + len(stripped)), tokenize(stripped)))
        return sentences

    def _spans(self, text: str) -> Iterator[Span]:
        """Cut where there is no doubt, and ask nupunkt about pieces that have a mark inside."""
        start = 0
        for stop in [*(match.start() for match in _CERTAIN_END.finditer(text)), len(text)]:
            mark = _MARK.search(text, start, stop)
            if mark is None or mark.end() == stop:
                yield start, stop
            else:
                for a, b in self._sentence_spans(text[start:stop]):
                    yield start + a, start + b
            start = stop


class StanzaSegmenter:
    """Stanza's tokenizer, as in the paper. It never downloads a model: on a cluster that would be a surprise."""

    def __init__(self, language: str, model_dir: str | None, use_gpu: bool) -> None:
        try:
            import stanza
        except ImportError as missing:
            raise StageError("segmenter.kind: stanza needs: pip install 'wicdistil[stanza]'") from missing
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
                f"fetch it once with `python -c \"import stanza; stanza.download('{language}', "
                "processors='tokenize')\"` and give the folder as segmenter.model_dir"
            ) from error

    def segment(self, paragraphs: Sequence[str]) -> Iterable[list[tuple[Span, list[Span]]]]:
        """Split all paragraphs in one call; each stays a document of its own."""
        import stanza

        documents = self._pipeline([stanza.Document([], text=text) for text in paragraphs])
        return [[_stanza_sentence(sentence) for sentence in document.sentences] for document in documents]


def _stanza_sentence(sentence: Any) -> tuple[Span, list[Span]]:
    start = sentence.tokens[0].start_char
    tokens = [(token.start_char - start, token.end_char - start) for token in sentence.tokens]
    return (start, start + tokens[-1][1]), tokens


@dataclass
class SegmentSentences(Stage):
    """A paragraph becomes its sentences."""

    name: ClassVar[str] = "segment"
    needs: ClassVar[tuple[str, ...]] = (*(name for name, _ in PLACE), "paragraph", "text")
    adds: ClassVar[tuple[str, ...]] = tuple(name for name in SENTENCES.names if name != "id")
    expands: ClassVar[bool] = True

    kind: str = "rules"
    language: str = "en"
    model_dir: str | None = None
    use_gpu: bool = field(default=False, metadata={"content": False})

    def setup(self) -> None:
        """Load the segmenter."""
        self._segmenter: Segmenter = (
            RuleSegmenter() if self.kind == "rules" else StanzaSegmenter(self.language, self.model_dir, self.use_gpu)
        )

    def process(self, rows: pa.Table) -> Result:
        """Split each paragraph; one without a sentence is rejected."""
        texts = rows["text"].to_pylist()
        taken: list[int] = []
        numbers: list[int] = []
        sentences: list[str] = []
        starts, ends = array("i"), array("i")  # of the tokens of all sentences, flat
        tokens_before = array("i", [0])
        empty: list[int] = []
        for index, found in enumerate(self._segmenter.segment(texts)):
            if not found:
                empty.append(index)
            for number, ((start, stop), tokens) in enumerate(found):
                taken.append(index)
                numbers.append(number)
                sentences.append(texts[index][start:stop])
                if tokens:
                    token_starts, token_ends = zip(*tokens, strict=True)
                    starts.extend(token_starts)
                    ends.extend(token_ends)
                tokens_before.append(len(starts))
        offsets = _int32(tokens_before)
        table = rows.select([*(name for name, _ in PLACE), "paragraph"]).take(pa.array(taken, pa.int64()))
        for name, column in (
            ("sentence", pa.array(numbers, pa.int32())),
            ("text", pa.array(sentences, pa.string())),
            ("token_starts", pa.ListArray.from_arrays(offsets, _int32(starts))),
            ("token_ends", pa.ListArray.from_arrays(offsets, _int32(ends))),
        ):
            table = table.append_column(name, column)
        rejects = rows.select(REJECTS.names[:2]).take(pa.array(empty, pa.int64()))
        rejects = rejects.append_column("reason", pa.array(["no sentence"] * len(empty), pa.string()))
        return Result(table, rejects, used=len(texts) - len(empty))


def _int32(values: array[int]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values.tobytes())])
