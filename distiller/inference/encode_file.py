"""Functions that encode the words of a file, and find the words of an encoded file nearest to a vector."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpusgen.errors import ConfigError
from distiller.errors import ItemError
from distiller.inference.output_files import check_target, output_file
from distiller.inference.spans import Span, check_item, find_word
from distiller.inference.vectors import Output
from distiller.inference.word_distiller import WordDistiller
from distiller.words.model import Distilled

_ROWS_AT_ONCE = 2048
_MODEL = b"wicdistil.model"  # key in a file's metadata for the identity of the model


class InputLine(NamedTuple):
    """A word in a text, read from a line of a file."""

    number: int
    id: str
    text: str
    span: Span


class BadLine(NamedTuple):
    """A line without a word in a text, or with one that cannot be encoded."""

    number: int
    reason: str


def read_lines(path: str) -> Iterator[InputLine | BadLine]:
    """Yield the words of a JSONL file; `-` is standard input.

    Each line gives `text` with `word`, with `span`, or with `start` and `end`. Lines may have an `id`; by default it is
    their number.
    """
    try:
        file = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    with file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _line(number, line)


def _line(number: int, line: bytes) -> InputLine | BadLine:
    try:
        row = json.loads(line.decode())
        if not isinstance(row, dict):
            raise TypeError(f"it is of type {type(row).__name__}")
        identifier = str(row.get("id", number))
        identifier.encode()  # raises an error for half of a surrogate pair
        text = row["text"]
        if "word" in row:
            return InputLine(number, identifier, text, find_word(text, row["word"]))
        span = row["span"] if "span" in row else (row["start"], row["end"])
        check_item(0, (text, span))
    except ItemError as error:
        return BadLine(number, error.reason)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return BadLine(number, f"expected JSON with `text` and `word`, `span` or `start` and `end`: {error!r}")
    return InputLine(number, identifier, text, (span[0], span[1]))


def encode_file(
    model: WordDistiller,
    source: str,
    target: str,
    output: Output,
    normalize: bool = False,
    on_bad: Callable[[BadLine], None] | None = None,
    so_far: Callable[[int], None] = lambda count: None,
) -> int:
    """Encode the words of a JSONL file into a Parquet file and return their number.

    The file appears once it is complete. A bad line raises an error that names it; with `on_bad`, the line is passed
    to it and skipped. `so_far` receives the number of words done now and then.
    """

    def refuse(bad: BadLine) -> None:
        raise ConfigError(f"{source}, line {bad.number}: {bad.reason}")

    check_target(target)
    kinds = ["meaning", "context"] if output == "both" else [output]
    vector = pa.list_(pa.float32(), model.dimension)
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string()), ("start", pa.int32()), ("end", pa.int32())]
        + [(kind, vector) for kind in kinds],
        {_MODEL: model.identity},
    )
    lines, count = read_lines(source), 0
    with output_file(target) as path, pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while some := list(islice(lines, _ROWS_AT_ONCE)):
            if good := _good(model, some, on_bad or refuse):
                writer.write_table(_encoded(model, good, output, normalize, schema))
                count += len(good)
            so_far(count)
    return count


def _good(model: WordDistiller, lines: list[InputLine | BadLine], on_bad: Callable[[BadLine], None]) -> list[InputLine]:
    """Return the lines that can be encoded, and pass the others to `on_bad`, in order."""
    read = [line for line in lines if isinstance(line, InputLine)]
    problems = model.problems([(line.text, line.span) for line in read])
    wrong = {line.number: problem.reason for line, problem in zip(read, problems, strict=True) if problem}
    for line in lines:
        if isinstance(line, BadLine):
            on_bad(line)
        elif line.number in wrong:
            on_bad(BadLine(line.number, wrong[line.number]))
    return [line for line in read if line.number not in wrong]


def _encoded(
    model: WordDistiller, lines: list[InputLine], output: Output, normalize: bool, schema: pa.Schema
) -> pa.Table:
    texts, spans = [line.text for line in lines], [line.span for line in lines]
    vectors = model.encode(texts, spans, output=output, normalize=normalize)
    parts = list(vectors) if isinstance(vectors, Distilled) else [vectors]
    arrays = [pa.array([line.id for line in lines]), pa.array(texts)]
    arrays += [pa.array([span[end] for span in spans], pa.int32()) for end in (0, 1)]
    arrays += [pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), model.dimension) for part in parts]
    return pa.table(arrays, schema=schema)


class Neighbour(NamedTuple):
    """A word near another one, with their cosine."""

    cosine: float
    id: str
    text: str
    span: Span


def nearest_in_file(query: Any, model: WordDistiller, path: str, kind: str, k: int) -> list[Neighbour]:
    """Return the words whose vectors are nearest to the query, nearest first.

    The file must be one that `distiller encode` wrote with this model.
    """
    best: list[Neighbour] = []
    try:
        with pq.ParquetFile(path) as file:
            if kind not in file.schema_arrow.names:
                raise ConfigError(f"{path} has no {kind} vectors; write them with `distiller encode --output {kind}`")
            if (file.schema_arrow.metadata or {}).get(_MODEL) != model.identity.encode():
                raise ConfigError(
                    f"{path} holds vectors of another or an unknown model, which cannot be compared; write "
                    "it again with `distiller encode` and this model"
                )
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                best = _better(best, query, batch, kind, k)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; make it with `distiller encode`") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError(f"cannot read {path}: {error}; give a file written by `distiller encode`") from None
    return best


def _better(best: list[Neighbour], query: Any, batch: pa.RecordBatch, kind: str, k: int) -> list[Neighbour]:
    vectors = pc.list_flatten(batch[kind]).to_numpy().reshape(batch.num_rows, -1)
    rows, cosines = WordDistiller.nearest(query, vectors, k)
    found = [
        Neighbour(float(cosine), row["id"], row["text"], (row["start"], row["end"]))
        for row, cosine in zip(batch.take(pa.array(rows[0])).to_pylist(), cosines[0], strict=True)
    ]
    return sorted([*best, *found], key=lambda neighbour: -neighbour.cosine)[:k]
