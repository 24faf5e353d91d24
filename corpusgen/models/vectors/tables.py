"""Read tables of one row per word: word2vec, fastText and GloVe text, and numpy matrices with a list of words."""

from __future__ import annotations

import bisect
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import numpy as np
import numpy.typing as npt

from corpusgen.errors import StageError
from corpusgen.extras import is_installed, missing_extra
from corpusgen.models.vectors.lookup import Floats
from corpusgen.models.vectors.vocabulary import Rows, Vocabulary

HEADER = re.compile(rb"(\d+) (\d+)\s*")
"""The first line of word2vec's formats: the number of words and the dimension."""

_BLOCK = 1 << 20  # bytes of text parsed at once
_PARQUET = b"PAR1"


@dataclass(frozen=True)
class Table:
    """A matrix with a word for each row, and nothing for other words."""

    vocabulary: Vocabulary
    matrix: npt.NDArray[np.floating]

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return int(self.matrix.shape[1])

    def vectors(self, words: Sequence[bytes], rows: Rows) -> Floats:
        """Return the row of each word; zero for an unknown one."""
        result = np.zeros((len(words), self.dimension), np.float32)
        known = rows >= 0
        result[known] = self.matrix[rows[known]]
        return result


@contextmanager
def open_text(path: str) -> Iterator[IO[bytes]]:
    """Open a file that may be gzipped."""
    with open(path, "rb") as file:
        compressed = file.peek(2).startswith(b"\x1f\x8b")
        try:
            yield io.BufferedReader(gzip.GzipFile(fileobj=file), _BLOCK) if compressed else file
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise StageError(f"{path}: damaged or incomplete; download it again: {error}") from error


def read_text(path: str, max_words: int | None = None) -> Table:
    """Read lines of a word and its numbers, with or without a first line that counts both."""
    _check_arrow(f"{path}: text")
    with open_text(path) as file:
        first = file.readline(_BLOCK)
        header = HEADER.fullmatch(first)
        dimension = int(header[2]) if header else first.rstrip().count(b" ")
        if dimension < 1 or (not header and _numbers([_split(first, dimension)[1]], dimension) is None):
            raise StageError(f"{path}: the first line is neither `words dimension` nor a word with its vector")
        table = _read_lines(path, file, [] if header else [first], dimension, max_words)
    expected = min(int(header[1]), max_words or sys.maxsize) if header else len(table.vocabulary)
    if len(table.vocabulary) != expected:
        raise StageError(
            f"{path}: {expected} words expected, {len(table.vocabulary)} found: it is incomplete; download it again"
        )
    return table


def _read_lines(path: str, file: IO[bytes], lines: list[bytes], dimension: int, max_words: int | None) -> Table:
    """Read the table, starting with `lines`, which have been read already."""
    limit = max_words or sys.maxsize
    before = 1 - len(lines)  # lines before the first word: the header
    matrix, count = np.empty((0, dimension), np.float32), 0
    text, ends = bytearray(), [np.zeros(1, np.int64)]
    while lines := (lines or file.readlines(_BLOCK))[: limit - count]:
        words, rows = _parse(path, before + count + 1, lines, dimension)
        total = count + len(lines)
        if total > len(matrix):  # in place, so that there are never two copies
            matrix.resize((max(total, len(matrix) * 5 // 4), dimension), refcheck=False)
        matrix[count:total] = rows
        ends.append(len(text) + np.cumsum(np.fromiter(map(len, words), np.int64, len(words))))
        text += b"".join(words)
        count, lines = total, []
    matrix.resize((count, dimension), refcheck=False)
    bounds = np.concatenate(ends)
    return Table(Vocabulary(bytes(text), bounds[:-1], bounds[1:]), matrix)


def _parse(path: str, number: int, lines: list[bytes], dimension: int) -> tuple[list[bytes], Floats]:
    """Return the words and rows of some lines; `number` is that of the first line."""
    words, numbers = zip(*(_split(line, dimension) for line in lines), strict=True)
    rows = _numbers(numbers, dimension)
    if rows is None:
        lengths = range(1, len(lines))
        broken = bisect.bisect_left(lengths, True, key=lambda length: _numbers(numbers[:length], dimension) is None)
        raise StageError(
            f"{path}, line {number + broken}: expected a word and {dimension} numbers, "
            f"got {lines[broken][:60].decode('utf-8', 'replace').rstrip()!r}…"
        )
    return list(words), rows


def _split(line: bytes, dimension: int) -> tuple[bytes, bytes]:
    """Split a line into a word and its numbers, from the right: some of GloVe's words contain spaces."""
    line = line.rstrip(b" \r\n")  # fastText leaves a space at the end
    if line.count(b" ") == dimension:
        word, _, numbers = line.partition(b" ")
    else:
        word = line.rsplit(b" ", dimension)[0]
        numbers = line[len(word) + 1 :]
    return word.rstrip(b" "), numbers


def _numbers(texts: Sequence[bytes], dimension: int) -> Floats | None:
    """Return the numbers of each text as a row; None unless each has `dimension` of them, all finite.

    Arrow's parser is several times faster than numpy's. It needs strings with nothing between them.
    """
    import pyarrow as pa  # not needed for other formats
    import pyarrow.compute as pc

    characters = np.frombuffer(b" ".join(texts) + b" ", np.uint8)
    is_space = characters == ord(" ")
    spaces = np.flatnonzero(is_space)
    offsets = np.append(0, spaces - np.arange(len(spaces))).astype(np.int32)
    strings = pa.StringArray.from_buffers(len(spaces), pa.py_buffer(offsets), pa.py_buffer(characters[~is_space]))
    try:
        rows = pc.cast(strings, pa.float32()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return rows.reshape(-1, dimension) if len(rows) == len(texts) * dimension and np.isfinite(rows).all() else None


def open_npy(path: str, words: str | None = None, max_words: int | None = None) -> Table:
    """Map a matrix and read the words of its rows from `words`, or from one of `files_of_words` next to it.

    That file is text with one word per line, or Parquet, of which the first column is taken.
    """
    words = words or _words_beside(path)
    starts, ends, text = _read_words(words)
    try:
        matrix = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise StageError(f"cannot map {path} as a matrix: {error}") from error
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or 0 in matrix.shape:
        raise StageError(f"{path}: expected a matrix of floats, got {matrix.dtype} of shape {matrix.shape}")
    if len(matrix) != len(starts):
        raise StageError(
            f"{path} has {len(matrix)} rows, but {words} has {len(starts)} words; give the words of this matrix"
        )
    return Table(Vocabulary(text, starts[:max_words], ends[:max_words]), np.asarray(matrix))


def files_of_words(path: str) -> list[str]:
    """Return where the words of a matrix may be, if nobody says: next to X.npy in X.words.txt, X.txt or X.words."""
    return [path.removesuffix(".npy") + ending for ending in (".words.txt", ".txt", ".words")]


def _words_beside(path: str) -> str:
    *others, last = files = files_of_words(path)
    for candidate in files:
        if os.path.isfile(candidate):
            return candidate
    raise StageError(f"{path}: no file with its words; name one, or put it at {', '.join(others)} or {last}")


def _read_words(path: str) -> tuple[Rows, Rows, bytes]:
    """Read a file of words; return where they start and end in a text of one word per line, and the text."""
    try:
        with open(path, "rb") as file:
            text = file.read().replace(b"\r\n", b"\n").removesuffix(b"\n")
    except OSError as error:
        raise StageError(f"{path}: cannot read the words: {error.strerror or error}") from error
    if text.startswith(_PARQUET):
        text = _words_of_parquet(path)
    newlines = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    return np.append(0, newlines + 1), np.append(newlines, len(text)), text


def _words_of_parquet(path: str) -> bytes:
    _check_arrow(f"{path}: Parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        column = pq.read_table(path, columns=[pq.read_schema(path).names[0]])[0]
        return "\n".join(column.to_pylist()).encode()
    except (pa.ArrowInvalid, TypeError) as error:
        raise StageError(f"{path}: the first column does not hold words: {error}") from error


def _check_arrow(what: str) -> None:
    if not is_installed("pyarrow"):
        raise StageError(missing_extra(what, "pyarrow", "parquet"))
