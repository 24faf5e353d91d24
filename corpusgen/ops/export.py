"""Export of triples to other formats: JSON lines, the three files of the published code, a data set for `datasets`.

Rows are written as they are read. An output appears under its name only when it is complete, and replaces an existing
one only on request.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.corpus.stored_settings import open_store
from corpusgen.errors import CorpusgenError
from corpusgen.io.atomic import replace_folder, replacing, temporary_path
from corpusgen.io.command_line import as_json
from corpusgen.store import Store, TripleStore
from corpusgen.store.rows import plain_rows

Format = Literal["jsonl", "tsv", "hf"]
STANDARD_OUTPUT = "-"
TSV_FILES = {
    "triples.and": ("target", "text"),
    "triples.positive_and": ("positive_word", "positive"),
    "triples.negative_sense_and": ("negative_word", "negative"),
}
_ROWS_OF_A_SHARD = 200_000
_SHARD = re.compile(r"train-\d{5}-of-\d{5}\.parquet")
_BREAKS = str.maketrans("\t\r\n", "   ")
_CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
dataset_info:
  features:
{features}
  splits:
  - name: train
    num_examples: {rows}
size_categories:
- {size}
---

# {name}

{rows:,} triples for word meaning in context, made by `corpusgen`: a sentence with a target word, a positive one
that says the same, and a negative one that has another word in its place. Spans count characters.

```python
from datasets import load_dataset

triples = load_dataset("parquet", data_files="{name}/data/*.parquet", split="train")
```

| column | type | |
|---|---|---|
{columns}

## What it was made with

```json
{models}
```
"""


def export(root: str, output: str, kind: Format, overwrite: bool = False) -> int:
    """Write all committed triples; return how many."""
    triples = TripleStore(open_store(root))
    if output == STANDARD_OUTPUT:
        if kind != "jsonl":
            raise CorpusgenError(f"--format {kind} is a folder of files, not for standard output: give one with -o")
        return _write_lines(triples, sys.stdout)
    if "://" in output:
        raise CorpusgenError(f"-o {output}: only local paths are written to; give -o - to pipe JSON lines elsewhere")
    if kind == "jsonl":
        with _new_file(Path(output), overwrite) as file:
            return _write_lines(triples, file)
    with _new_folder(Path(output), overwrite) as folder:
        return (
            _write_tsv(triples, folder) if kind == "tsv" else _write_dataset(triples, root, folder, Path(output).name)
        )


def _write_lines(triples: TripleStore, file: TextIO) -> int:
    rows = 0
    for batch in triples.batches():
        for row in plain_rows(batch):
            file.write(as_json(row, file) + "\n")
        rows += batch.num_rows
    return rows


def _write_tsv(triples: TripleStore, folder: Path) -> int:
    rows = 0
    columns = [name for pair in TSV_FILES.values() for name in pair]
    with ExitStack() as stack:
        files = {
            name: stack.enter_context((folder / name).open("w", encoding="utf-8", newline="\n")) for name in TSV_FILES
        }
        for batch in triples.batches(columns):
            for name, (word, text) in TSV_FILES.items():
                pairs = zip(batch[word].to_pylist(), batch[text].to_pylist(), strict=True)
                # A tab or a line break inside a sentence would shift everything after it.
                files[name].writelines(f"{w.translate(_BREAKS)}\t{t.translate(_BREAKS)}\n" for w, t in pairs)
            rows += batch.num_rows
    return rows


def _write_dataset(triples: TripleStore, root: str, folder: Path, name: str) -> int:
    total = triples.num_rows
    shards = max(1, -(-total // _ROWS_OF_A_SHARD))
    (folder / "data").mkdir()
    batches = _cut(triples.batches(), _ROWS_OF_A_SHARD)
    rows = 0
    for number in range(shards):
        path = folder / "data" / f"train-{number:05d}-of-{shards:05d}.parquet"
        with pq.ParquetWriter(path, triples.schema, compression="zstd") as writer:
            written = 0
            while written < min(_ROWS_OF_A_SHARD, total - rows):
                batch = next(batches)
                writer.write_batch(batch.cast(triples.schema))
                written += batch.num_rows
        rows += written
    (folder / "README.md").write_text(_card(triples, root, name, rows), encoding="utf-8")
    return rows


def _cut(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches, split where a shard is full."""
    room = most
    for batch in batches:
        first = 0
        while first < batch.num_rows:
            count = min(room, batch.num_rows - first)
            yield batch.slice(first, count)
            first, room = first + count, (room - count) or most


def _card(triples: TripleStore, root: str, name: str, rows: int) -> str:
    fields = [
        (field.name, str(field.type), (field.metadata or {}).get(b"description", b"")) for field in triples.schema
    ]
    return _CARD.format(
        name=name,
        rows=rows,
        size=_size(rows),
        features="\n".join(f"  - name: {column}\n    dtype: {_dtype(kind)}" for column, kind, _ in fields),
        columns="\n".join(f"| `{column}` | {_dtype(kind)} | {told.decode()} |" for column, kind, told in fields),
        models=json.dumps(_made_with(Store.at(root).corpus()), indent=1, ensure_ascii=False),
    )


def _made_with(corpus: dict[str, Any]) -> dict[str, Any]:
    if "merged" in corpus:
        return {"merged": [{"models": source["corpus"].get("models", {})} for source in corpus["merged"]]}
    return {"models": corpus.get("models", {}), "settings": corpus.get("settings", {})}


def _dtype(kind: str) -> str:
    return {"float": "float32", "double": "float64"}.get(kind, kind)


def _size(rows: int) -> str:
    """Return the size category of the hub for this number of rows."""
    bounds = [(1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M")]
    return next((label for bound, label in bounds if rows < bound), "1M<n<10M" if rows < 10_000_000 else "n>10M")


# ------------------------------------------------------------- files that are complete or absent


@contextmanager
def _new_file(path: Path, overwrite: bool) -> Iterator[TextIO]:
    if path.is_dir():
        raise CorpusgenError(f"{path} is a folder; give a file for jsonl")
    _check_free(path, overwrite)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            replacing(path, durable=True) as temporary,
            temporary.open("x", encoding="utf-8", newline="\n") as file,
        ):
            yield file


@contextmanager
def _new_folder(path: Path, overwrite: bool) -> Iterator[Path]:
    _check_free(path, overwrite)
    stranger = next((found for found in sorted(path.rglob("*")) if not _is_ours(found, path)), None)
    if path.exists() and (stranger or not path.is_dir()):
        raise CorpusgenError(f"{stranger or path} was not written by an export; it is never overwritten")
    with _explained(path), temporary_path(path) as temporary:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        yield temporary
        replace_folder(temporary, path)


def _is_ours(found: Path, folder: Path) -> bool:
    name = found.relative_to(folder).as_posix()
    return name in (*TSV_FILES, "README.md", "data") or bool(_SHARD.fullmatch(name.removeprefix("data/")))


def _check_free(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise CorpusgenError(f"{path} exists; give --overwrite to replace it")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CorpusgenError(f"{path}: cannot be written: {error.strerror or error}") from error
