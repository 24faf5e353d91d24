"""What the commands that use a model do: files in, files or lines out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from corpusgen.errors import ConfigError, CorpusgenError
from distiller.errors import ItemError
from distiller.items import Span, find_word
from distiller.model import Distilled
from distiller.word_distiller import Output, WordDistiller

_ROWS_AT_ONCE = 2048


class Line(NamedTuple):
    """A word in a text, as a line of a file gives it."""

    number: int
    id: str
    text: str
    span: Span


def read_lines(path: str) -> Iterator[Line]:
    """The words of a JSONL file, `-` being standard input: `text` with `word`, with `span`, or with `start` and `end`.

    Lines may have an `id`; by default it is their number.
    """
    try:
        file = sys.stdin if path == "-" else open(path, encoding="utf-8")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    with file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _line(path, number, line)


def _line(path: str, number: int, line: str) -> Line:
    try:
        row = json.loads(line)
        text = row["text"]
        if "word" in row:
            span = find_word(text, row["word"])
        else:
            start, end = row["span"] if "span" in row else (row["start"], row["end"])
            span = (int(start), int(end))
    except ItemError as error:
        raise ConfigError(f"{path}, line {number}: {error.reason}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path}, line {number}: expected JSON with `text` and `word`, `span` or `start` and `end`: {error!r}"
        ) from None
    return Line(number, str(row.get("id", number)), text, span)


def encode_file(model: WordDistiller, source: str, target: str, output: Output, normalize: bool = False) -> int:
    """Encode the words of a JSONL file into a Parquet file; how many. The file is there when it is whole."""
    kinds = ["meaning", "context"] if output == "both" else [output]
    vector = pa.list_(pa.float32(), model.dimension)
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string()), ("start", pa.int32()), ("end", pa.int32())]
        + [(kind, vector) for kind in kinds]
    )
    partial = Path(f"{target}.partial")
    lines, count = read_lines(source), 0
    try:
        with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
            while some := list(islice(lines, _ROWS_AT_ONCE)):
                writer.write_table(_encoded(model, source, some, output, normalize, schema))
                count += len(some)
        os.replace(partial, target)
    except OSError as error:
        raise CorpusgenError(f"{target}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def _encoded(
    model: WordDistiller, source: str, lines: list[Line], output: Output, normalize: bool, schema: pa.Schema
) -> pa.Table:
    texts, spans = [line.text for line in lines], [line.span for line in lines]
    try:
        vectors = model.encode(texts, spans, output=output, normalize=normalize)
    except ItemError as error:
        raise ConfigError(f"{source}, line {lines[error.index].number}: {error.reason}") from None
    parts = list(vectors) if isinstance(vectors, Distilled) else [vectors]
    arrays = [pa.array([line.id for line in lines]), pa.array(texts)]
    arrays += [pa.array([span[end] for span in spans], pa.int32()) for end in (0, 1)]
    arrays += [pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), model.dimension) for part in parts]
    return pa.table(arrays, schema=schema)


class Neighbour(NamedTuple):
    """A word that is near."""

    cosine: float
    id: str
    text: str
    span: Span


def nearest_in_file(query: Any, path: str, kind: str, k: int) -> list[Neighbour]:
    """The words of a file of `distiller encode` whose vectors are nearest to the query, the nearest first."""
    best: list[Neighbour] = []
    try:
        with pq.ParquetFile(path) as file:
            if kind not in file.schema_arrow.names:
                raise ConfigError(f"{path} has no {kind} vectors: `distiller encode --output {kind}` writes them")
            for batch in file.iter_batches(_ROWS_AT_ONCE):
                best = _better(best, query, batch, kind, k)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `distiller encode` writes one") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError(f"{path} cannot be read: {error}; `distiller encode` writes such files") from None
    return best


def _better(best: list[Neighbour], query: Any, batch: pa.RecordBatch, kind: str, k: int) -> list[Neighbour]:
    vectors = pc.list_flatten(batch[kind]).to_numpy().reshape(batch.num_rows, -1)
    if vectors.shape[1] != np.shape(query)[-1]:
        raise ConfigError(f"the file's vectors have {vectors.shape[1]} dimensions, the model's {np.shape(query)[-1]}")
    rows, cosines = WordDistiller.nearest(query, vectors, k)
    found = [
        Neighbour(float(cosine), row["id"], row["text"], (row["start"], row["end"]))
        for row, cosine in zip(batch.take(pa.array(rows[0])).to_pylist(), cosines[0], strict=True)
    ]
    return sorted([*best, *found], key=lambda neighbour: -neighbour.cosine)[:k]
