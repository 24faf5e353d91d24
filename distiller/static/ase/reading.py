"""The stages that read contexts with the models, and make the vector of each word of them.

Shapes: V words, T tables, D dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.engine import Result, Stage
from corpusgen.engine.parts import OverParts
from corpusgen.engine.stage import split_by_reason
from distiller.static.ase.drawing import Words
from distiller.static.ase.readout import Reader, ReadOut

SUMS, VECTORS = "sums", "vectors"
"""The passes of these stages; the main table of each has its name."""

_BYTES_AT_ONCE = 64_000_000  # of states that are in memory together
_NUMBER = np.dtype("<f4")


def binary(tables: int, dimension: int) -> pa.DataType:
    """Return the type of a column with the vectors of a word, (T, D)."""
    return pa.binary(tables * dimension * _NUMBER.itemsize)


def packed(vectors: npt.NDArray[np.floating[Any]], valid: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Pack vectors (V, T, D) into a column; null where they are not valid."""
    rows, tables, dimension = vectors.shape
    data = pa.py_buffer(np.ascontiguousarray(vectors, _NUMBER))
    column = pa.FixedSizeBinaryArray.from_buffers(binary(tables, dimension), rows, [None, data])
    return column if valid is None else pc.if_else(pa.array(valid), column, pa.scalar(None, column.type))


def unpacked(column: pa.Array | pa.ChunkedArray, dimension: int) -> npt.NDArray[np.float32]:
    """Unpack a column without nulls into vectors (V, T, D)."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    width = array.type.byte_width // _NUMBER.itemsize
    numbers = np.frombuffer(array.buffers()[1], _NUMBER, len(array) * width, array.offset * array.type.byte_width)
    return numbers.reshape(len(array), width // dimension, dimension)


@dataclass
class SumVectors(Stage):
    """The stage that reads the contexts of a unit and adds up the vectors of each word."""

    name: ClassVar[str] = "encode"
    needs: ClassVar[tuple[str, ...]] = ("word", "text", "start", "end")
    adds: ClassVar[tuple[str, ...]] = ("word", "contexts", "sums")
    expands: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    can_use_gpu: ClassVar[bool] = True

    made_with: Mapping[str, Any]
    """What determines the vectors: the models, and how they are read."""
    read_out: ReadOut = field(metadata={"content": False})
    device: str = field(default="auto", metadata={"content": False})

    def setup(self) -> None:
        """Load the models."""
        self._reader = self.read_out.open(self.device, max(1, int(self.resources.cpus)))

    def process(self, rows: pa.Table) -> Result:
        """Return for each word how many contexts were read, and the sum of their vectors; reject the others."""
        numbers, own = np.unique(rows["word"].to_numpy(), return_inverse=True)
        shape = (len(self.read_out.tables), self.read_out.dimension)
        sums, contexts = np.zeros((len(numbers), *shape)), np.zeros(len(numbers), np.int64)
        texts = rows["text"].to_pylist()
        spans = list(zip(rows["start"].to_pylist(), rows["end"].to_pylist(), strict=True))
        reasons: list[str | None] = []
        at_once = max(1, _BYTES_AT_ONCE // (len(self.read_out.content["layers"]) * self.read_out.dimension * 4))
        for start in range(0, len(texts), at_once):
            some = slice(start, start + at_once)
            read = self._reader.read(texts[some], spans[some])
            good = np.array([reason is None for reason in read.reasons])
            np.add.at(sums, own[some][good], read.vectors[good])
            np.add.at(contexts, own[some][good], 1)
            reasons += read.reasons
        there = contexts > 0
        made = {
            "word": pa.array(numbers[there], pa.int32()),
            "contexts": contexts[there],
            "sums": packed(sums[there]),
        }
        rejects = split_by_reason(rows.select(["word"]), reasons).rejects
        assert rejects is not None
        return Result(pa.table(made), rejects, used=rows.num_rows - rejects.num_rows)


_OF_WORDS = ("word", "count", "contexts", "vectors")


@dataclass
class MergeSums(OverParts):
    """The stage that adds up the sums of a range of words, and takes the mean."""

    name: ClassVar[str] = "merge"
    needs: ClassVar[tuple[str, ...]] = (*OverParts.needs, "first_word", "words")
    adds: ClassVar[tuple[str, ...]] = _OF_WORDS
    whole: ClassVar[bool] = True

    vocabulary: str
    words: Words = field(metadata={"content": False})
    read_out: ReadOut = field(metadata={"content": False})

    def process(self, rows: pa.Table) -> pa.Table:
        """Return the vectors of each word; null for one without contexts."""
        first, size = rows["first_word"][0].as_py(), rows["words"][0].as_py()
        sums = np.zeros((size, len(self.read_out.tables), self.read_out.dimension))
        contexts = np.zeros(size, np.int64)
        for table in self._tables(rows):
            number = table["word"].to_numpy().astype(np.int64) - first
            inside = (number >= 0) & (number < size)
            own = table.filter(pa.array(inside))
            # A word is in a part once, so plain indexing adds all of them; parts come in the order of the plan.
            sums[number[inside]] += unpacked(own["sums"], self.read_out.dimension)
            contexts[number[inside]] += own["contexts"].to_numpy()
        sums /= np.maximum(contexts, 1)[:, None, None]
        return _of_words(self.words, first, contexts, packed(sums, contexts > 0))


@dataclass
class ListWords(Stage):
    """The stage that lists a range of words, none of which has a context."""

    name: ClassVar[str] = "list"
    needs: ClassVar[tuple[str, ...]] = ("first_word", "words")
    adds: ClassVar[tuple[str, ...]] = _OF_WORDS
    expands: ClassVar[bool] = True
    rows_may_fail: ClassVar[bool] = False

    vocabulary: str
    words: Words = field(metadata={"content": False})
    read_out: ReadOut = field(metadata={"content": False})

    def process(self, rows: pa.Table) -> pa.Table:
        """Return the words without vectors."""
        first, size = rows["first_word"][0].as_py(), rows["words"][0].as_py()
        nothing = pa.nulls(size, binary(len(self.read_out.tables), self.read_out.dimension))
        return _of_words(self.words, first, np.zeros(size, np.int64), nothing)


def _of_words(words: Words, first: int, contexts: npt.NDArray[np.int64], vectors: pa.Array) -> pa.Table:
    own = slice(first, first + len(contexts))
    return pa.table([pa.array(words.words[own]), words.counts[own], contexts, vectors], names=list(_OF_WORDS))


@dataclass
class ReadAlone(Stage):
    """The stage that reads words without contexts alone: their decontextualised vectors."""

    name: ClassVar[str] = "alone"
    needs: ClassVar[tuple[str, ...]] = ("word", "vectors")
    can_use_gpu: ClassVar[bool] = True

    made_with: Mapping[str, Any]
    read_out: ReadOut = field(metadata={"content": False})
    device: str = field(default="auto", metadata={"content": False})

    def setup(self) -> None:
        """Load nothing yet: most often all words have contexts."""
        self._loaded: Reader | None = None

    @property
    def _reader(self) -> Reader:
        if self._loaded is None:
            self._loaded = self.read_out.open(self.device, max(1, int(self.resources.cpus)))
        return self._loaded

    def process(self, rows: pa.Table) -> Result:
        """Fill in the vectors that are missing; reject words that cannot be read."""
        alone = pc.is_null(rows["vectors"])
        words = rows["word"].filter(alone).to_pylist()
        if not words:
            return Result(rows)
        # Byte-level tokenizers read a word in a text with the space before it; the others ignore the space.
        read = self._reader.read([f" {word}" for word in words], [(1, len(word) + 1) for word in words])
        column = rows["vectors"].combine_chunks()
        filled = pc.replace_with_mask(column, alone.combine_chunks(), packed(read.vectors))
        remaining = iter(read.reasons)
        reasons = [next(remaining) if missing else None for missing in alone.to_pylist()]
        return split_by_reason(rows.set_column(rows.schema.get_field_index("vectors"), "vectors", filled), reasons)
