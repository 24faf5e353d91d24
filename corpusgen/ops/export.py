"""Export of a corpus to other formats: JSON lines, plain text, a file for each member, a data set for `datasets`.

Rows are written as they are read. An output appears under its name only when it is complete, and replaces an existing
one only on request.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.corpus.stored_settings import open_store
from corpusgen.errors import CorpusgenError
from corpusgen.io.atomic import replace_folder, replacing, temporary_path
from corpusgen.io.command_line import as_json
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import PARAGRAPHS, WORDS, Member, Product, product_of
from corpusgen.store.rows import plain_rows, words_in
from corpusgen.text.words import Tokens

Format = Literal["jsonl", "txt", "tsv", "hf"]
STANDARD_OUTPUT = "-"
_FILES = ("jsonl", "txt")
"""The formats that are one file; the others are folders."""
_AS_PUBLISHED = {
    "original": "triples.and",
    "positive": "triples.positive_and",
    "negative": "triples.negative_sense_and",
}
"""The files of triples are named as the paper's published code reads them."""
_ROWS_OF_A_SHARD = 200_000
_PARAGRAPHS_AT_ONCE = 1024
_SHARD = re.compile(r"train-\d{5}-of-\d{5}\.parquet")
_LIST = re.compile(r"list<\w+: (\w+)>")
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

{rows:,} {table}{purpose}, made by `corpusgen`. Spans are in characters.
{members}
```python
from datasets import load_dataset

{table} = load_dataset("parquet", data_files="{name}/data/*.parquet", split="train")
```

| column | type | |
|---|---|---|
{columns}

## What it was made with

```json
{models}
```
"""


def export(root: str, output: str, kind: Format, overwrite: bool = False, table: str | None = None) -> int:
    """Write all committed rows of a product, by default the first one of the corpus; return how many."""
    store = open_store(root)
    product = product_of(store, table)
    _check_format(product, kind)
    rows = product.open(store)
    write = _write_text if kind == "txt" else _write_lines
    if output == STANDARD_OUTPUT:
        if kind not in _FILES:
            raise CorpusgenError(f"--format {kind} writes a folder, not standard output; give a folder with -o")
        return write(rows, sys.stdout)
    if "://" in output:
        raise CorpusgenError(
            f"-o {output}: exports can only be written to local paths; use -o - to pipe JSON lines elsewhere"
        )
    if kind in _FILES:
        with _new_file(Path(output), overwrite, kind) as file:
            return write(rows, file)
    files = tsv_files(product)
    with _new_folder(Path(output), overwrite, list(files)) as folder:
        if kind == "tsv":
            return _write_tsv(rows, files, folder)
        return _write_dataset(rows, product, store, folder, Path(output).name)


def _check_format(product: Product, kind: Format) -> None:
    if kind == "tsv" and not product.members:
        raise CorpusgenError(
            f"--format tsv writes a word and its sentence, and {product.table} are about no word; use txt, jsonl or hf"
        )
    if kind == "txt" and product != PARAGRAPHS:
        raise CorpusgenError(f"--format txt is for paragraphs, and these are {product.table}; use tsv, jsonl or hf")


def tsv_files(product: Product) -> dict[str, Member]:
    """Return the names of the files of the format `tsv`, each with the member whose words and sentences it has."""
    if product is WORDS:
        return {_AS_PUBLISHED[member.name]: member for member in product.members}
    return {f"{product.table}.{member.name}.tsv": member for member in product.members}


def _write_lines(table: CommittedTable, file: TextIO) -> int:
    rows = 0
    for batch in table.batches():
        for row in plain_rows(batch):
            file.write(as_json(row, file) + "\n")
        rows += batch.num_rows
    return rows


def _write_text(table: CommittedTable, file: TextIO) -> int:
    """Write a line for each paragraph: its tokens in lower case, separated by spaces."""
    rows = 0
    for batch in table.batches(("text", "token_starts", "token_ends"), _PARAGRAPHS_AT_ONCE):
        tokens = Tokens.of_columns(batch["token_starts"], batch["token_ends"])
        words = iter(tokens.lower(batch["text"].to_pylist()))
        file.writelines(" ".join(itertools.islice(words, number)) + "\n" for number in tokens.counts.tolist())
        rows += batch.num_rows
    return rows


def _write_tsv(table: CommittedTable, members: Mapping[str, Member], folder: Path) -> int:
    """Write a line for each row into the file of each member; the line of a member that is null is empty."""
    rows = 0
    columns = {name for member in members.values() for name in (*member.columns, member.word) if name}
    with ExitStack() as stack:
        files = {
            name: stack.enter_context((folder / name).open("w", encoding="utf-8", newline="\n")) for name in members
        }
        for batch in table.batches(sorted(columns)):
            for name, member in members.items():
                texts = batch[member.text].to_pylist()
                files[name].writelines(map(_tsv_line, words_in(batch, member), texts))
            rows += batch.num_rows
    return rows


def _tsv_line(word: str | None, text: str | None) -> str:
    if word is None or text is None:
        return "\n"
    # A tab or a line break inside a sentence would shift everything after it.
    return f"{word.translate(_BREAKS)}\t{text.translate(_BREAKS)}\n"


def _write_dataset(table: CommittedTable, product: Product, store: Store, folder: Path, name: str) -> int:
    total = table.num_rows
    shards = max(1, -(-total // _ROWS_OF_A_SHARD))
    (folder / "data").mkdir()
    batches = _cut(table.batches(), _ROWS_OF_A_SHARD)
    rows = 0
    for number in range(shards):
        path = folder / "data" / f"train-{number:05d}-of-{shards:05d}.parquet"
        with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
            written = 0
            while written < min(_ROWS_OF_A_SHARD, total - rows):
                batch = next(batches)
                writer.write_batch(batch.cast(table.schema))
                written += batch.num_rows
        rows += written
    card = _card(table.schema, product, store.corpus(), name, rows)
    (folder / "README.md").write_text(card, encoding="utf-8")
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


def _card(schema: pa.Schema, product: Product, corpus: dict[str, Any], name: str, rows: int) -> str:
    fields = [(field.name, str(field.type), (field.metadata or {}).get(b"description", b"")) for field in schema]
    return _CARD.format(
        name=name,
        rows=rows,
        table=product.table,
        purpose=" for word meaning in context" if product.members else "",
        members="".join(f"\n{_about_member(product, member)}" for member in product.members) + "\n",
        size=_size(rows),
        features="\n".join(f"  - name: {column}\n    {_feature(kind)}" for column, kind, _ in fields),
        columns="\n".join(f"| `{column}` | {_dtype(kind)} | {told.decode()} |" for column, kind, told in fields),
        models=json.dumps(_made_with(corpus), indent=1, ensure_ascii=False),
    )


def _about_member(product: Product, member: Member) -> str:
    """Return a line of the card: where a member is and, if known, how its word relates to that of the original."""
    relation = "a word in its sentence" if member.name == "original" else product.relation(member)
    text, start, end = member.columns
    said = f": {relation}{' (null in some rows)' if member.optional else ''}" if relation else ""
    return f"- {member.name}{said}; `{text}[{start}:{end}]`"


def _made_with(corpus: dict[str, Any]) -> dict[str, Any]:
    if "merged" in corpus:
        return {"merged": [{"models": source["corpus"].get("models", {})} for source in corpus["merged"]]}
    return {"models": corpus.get("models", {}), "settings": corpus.get("settings", {})}


def _dtype(kind: str) -> str:
    if item := _LIST.fullmatch(kind):
        return f"list of {_dtype(item[1])}"
    return {"float": "float32", "double": "float64"}.get(kind, kind)


def _feature(kind: str) -> str:
    """Return the type of a column as the metadata of `datasets` has it."""
    item = _LIST.fullmatch(kind)
    return f"list: {_dtype(item[1])}" if item else f"dtype: {_dtype(kind)}"


def _size(rows: int) -> str:
    """Return the size category of the hub for this number of rows."""
    bounds = [(1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M")]
    return next((label for bound, label in bounds if rows < bound), "1M<n<10M" if rows < 10_000_000 else "n>10M")


# ------------------------------------------------------------- files that are complete or absent


@contextmanager
def _new_file(path: Path, overwrite: bool, kind: Format) -> Iterator[TextIO]:
    if path.is_dir():
        raise CorpusgenError(f"{path} is a folder; give a file name for {kind}")
    _check_free(path, overwrite)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            replacing(path, durable=True) as temporary,
            temporary.open("x", encoding="utf-8", newline="\n") as file,
        ):
            yield file


@contextmanager
def _new_folder(path: Path, overwrite: bool, files: Sequence[str]) -> Iterator[Path]:
    _check_free(path, overwrite)
    stranger = next((found for found in sorted(path.rglob("*")) if not _is_ours(found, path, files)), None)
    if path.exists() and (stranger or not path.is_dir()):
        raise CorpusgenError(
            f"{stranger or path} was not written by an export and will not be overwritten; choose another path"
        )
    with _explained(path), temporary_path(path) as temporary:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        yield temporary
        replace_folder(temporary, path)


def _is_ours(found: Path, folder: Path, files: Sequence[str]) -> bool:
    name = found.relative_to(folder).as_posix()
    return name in (*files, "README.md", "data") or bool(_SHARD.fullmatch(name.removeprefix("data/")))


def _check_free(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise CorpusgenError(f"{path} already exists; use --overwrite to replace it")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CorpusgenError(f"cannot write {path}: {error.strerror or error}") from error
