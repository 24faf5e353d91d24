"""Read word2vec's binary format: a line `words dimension`, then each word, a space, and its floats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import IO

import numpy as np

from corpusgen.errors import StageError
from corpusgen.models.vectors.tables import HEADER, Table, open_text
from corpusgen.models.vectors.vocabulary import Vocabulary

_BLOCK = 1 << 22
_ROWS_AT_ONCE = 4096
_LONGEST_WORD = 1 << 16
_NOT_TEXT = re.compile(rb"[^\t\r\n -~]")


def is_binary(head: bytes) -> bool:
    """Return whether a file begins like this format: after the first word come bytes that no number in text has."""
    first, _, rest = head.partition(b"\n")
    header = HEADER.fullmatch(first)
    return header is not None and bool(_NOT_TEXT.search(rest.partition(b" ")[2][: 4 * int(header[2])]))


def read_binary(path: str, max_words: int | None = None) -> Table:
    """Read the words and their vectors into memory; the file may be gzipped."""
    with open_text(path) as file:
        header = HEADER.fullmatch(file.readline(_BLOCK))
        assert header is not None  # `is_binary` has seen it
        count, dimension = int(header[1]), int(header[2])
        wanted = min(count, max_words or count)
        rows = _rows(file, 4 * dimension)
        words: list[bytes] = []
        matrix = np.empty((0, dimension), np.float32)
        while some := list(islice(rows, min(_ROWS_AT_ONCE, wanted - len(words)))):
            start = len(words)
            words += [word for word, _ in some]
            if len(words) > len(matrix):  # in place, so that there are never two copies
                matrix.resize((max(len(words), len(matrix) * 5 // 4), dimension), refcheck=False)
            block = np.frombuffer(b"".join(row for _, row in some), "<f4").reshape(-1, dimension)
            if not np.isfinite(block).all():
                raise StageError(f"{path}: a vector after row {start} is not a number: download the file again")
            matrix[start : len(words)] = block
        if len(words) < wanted or (wanted == count and next(rows, None)):
            found = f"{len(words)} found" if len(words) < wanted else "more found"
            raise StageError(f"{path}: {wanted} words expected, {found}: it is damaged; download it again")
    matrix.resize((wanted, dimension), refcheck=False)
    return Table(Vocabulary.of(words), matrix)


def _rows(file: IO[bytes], width: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield each word and the bytes of its vector, until the file ends or is no longer of this format."""
    data, position = b"", 0
    while True:
        space = data.find(b" ", position)
        end = space + 1 + width
        if space >= 0 and end <= len(data):
            yield data[position:space].lstrip(b"\n"), data[space + 1 : end]  # many writers end rows with a line feed
            position = end
            continue
        more = file.read(max(_BLOCK, width))
        if not more or (space < 0 and len(data) - position > _LONGEST_WORD):
            return
        data, position = data[position:] + more, 0
