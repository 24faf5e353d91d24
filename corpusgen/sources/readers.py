"""Readers for each kind of input: how it is cut into units, and the stage that reads a unit."""

from __future__ import annotations

import html
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.engine import Result, Stage
from corpusgen.engine.time_limit import TimeLimit, TookTooLong
from corpusgen.errors import ConfigError, CorpusgenError, SourceChangedError, StageError
from corpusgen.sources import collect
from corpusgen.sources.collect import Collected, UnitIsFullError, encodable, is_the_machines, lines_of
from corpusgen.sources.locate import SourceFile, find_files, open_binary, opened
from corpusgen.sources.multistream import index_of, multistream_records, stream_groups
from corpusgen.sources.streams import Problem, byte_ranges, read_records
from corpusgen.tables import ARTICLES, PARAGRAPHS
from corpusgen.text.wikitext import is_disambiguation, is_redirect, paragraphs

Record = dict[str, Any]
Slices = list[list[Record]]
Take = Callable[[Collected], None]
"""Adds what was read from a record to what was found."""

# Only some rows of a row group are unpacked at a time, and few if they might not fit into memory.
_BATCH_ROWS = 1024
_FEW_ROWS = 8
_SAFE_BYTES = 256 << 20
_COLUMN_BUFFER = 8 << 20  # bytes of a column at a time, instead of a row group's whole column


@dataclass
class _Reader(Stage):
    """Reads the records of a unit's slices; subclasses say what a record is and what is in it."""

    name: ClassVar[str] = "read"
    needs: ClassVar[tuple[str, ...]] = ("path", "size", "modified", "start", "stop")
    adds: ClassVar[tuple[str, ...]] = tuple(PARAGRAPHS.names)
    expands: ClassVar[bool] = True
    schema: ClassVar[pa.Schema] = PARAGRAPHS

    def process(self, rows: pa.Table) -> Result:
        """Read the slices; quarantine each record that cannot be read, with its location, and lose no other."""
        found = Collected(self.schema)
        for slice_ in rows.to_pylist():
            try:
                with TimeLimit() as limit:
                    self._collect(slice_, found, limit)
            except (CorpusgenError, MemoryError, ConnectionError, TimeoutError):
                raise
            except Exception as error:  # uncaught, it would quarantine the whole slice as one record
                raise StageError(f"cannot read {slice_['path']}: {type(error).__name__}: {error}") from error
        return found.result()

    def _collect(self, slice_: Record, found: Collected, limit: TimeLimit) -> None:
        path, first, beyond = slice_["path"], None, 0
        for record in self._records(slice_):
            where = record.offset if isinstance(record, Problem) else record[0]
            try:
                if beyond:
                    beyond += 1
                elif isinstance(record, Problem):
                    found.problem(record.error, self._location(path, where))
                else:
                    self._try(path, where, record[1], found, limit)
            except UnitIsFullError:
                first, beyond = where, 1
        if beyond:
            found.problem_at_last(
                f"{beyond:,} records from here on are skipped: a unit holds at most {collect.MOST_ROWS:,} rows and "
                f"{collect.MOST_BYTES >> 20:,} MB; decompress or split the file, or lower source.unit_bytes",
                self._location(path, first),
            )

    def _try(self, path: str, where: Any, data: Any, found: Collected, limit: TimeLimit) -> None:
        try:
            take = limit.run(self._read, path, where, data)
            take(found)  # outside the time limit: a half-taken record would spoil the rest
        except UnitIsFullError:
            raise
        except UnicodeDecodeError as error:
            found.problem(f"not UTF-8: {error.reason} at byte {error.start}", self._location(path, where))
        except Exception as error:
            if is_the_machines(error):
                raise
            found.problem(f"not readable as {type(self).__name__}: {error}", self._location(path, where))

    def _location(self, path: str, where: Any) -> Record:
        return {"source": path, "offset": where}

    def _records(self, slice_: Record) -> Iterator[tuple[Any, Any] | Problem]:
        raise NotImplementedError

    def _read(self, path: str, where: Any, data: Any) -> Take:
        raise NotImplementedError


@dataclass
class _RangeReader(_Reader):
    """Reads byte ranges."""

    begins: ClassVar[bytes] = b""
    ends: ClassVar[bytes] = b""

    def _records(self, slice_: Record) -> Iterator[tuple[int, bytes] | Problem]:
        return read_records(SourceFile.of(slice_), slice_["start"], slice_["stop"], self.begins, self.ends)


@dataclass
class PlainText(_RangeReader):
    """Reads UTF-8 text of one paragraph per line; its location is the offset of the line."""

    def _read(self, path: str, where: int, data: bytes) -> Take:
        text = data.decode()
        return lambda found: found.paragraphs((path, str(where), None, None), (text,), len(data))


@dataclass
class JsonLines(_RangeReader):
    """Reads one JSON object per line, with the text in `text_field`; keeps `id`, `title` and `revision` if present."""

    text_field: str = "text"

    def _read(self, path: str, where: int, data: bytes) -> Take:
        if not data.strip():
            return lambda found: None
        fields = json.loads(data.decode())
        if not isinstance(fields, dict):
            raise ValueError("not a JSON object")
        text = _text(fields, self.text_field)
        revision = _string(fields.get("revision", fields.get("revid")))
        provenance = (path, _string(fields.get("id", where)), _string(fields.get("title")), revision)
        lines = lines_of(text)
        return lambda found: found.paragraphs(provenance, lines, len(data))


_DOC_HEAD = re.compile(r'\s*<doc(?:\s+\w+="[^"]*")*\s*>')
_DOC_FIELD = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class WikiExtractor(_RangeReader):
    """Reads the `<doc …>` files of WikiExtractor; JsonLines reads its --json output."""

    begins: ClassVar[bytes] = b"<doc "
    ends: ClassVar[bytes] = b"</doc>"

    def _read(self, path: str, where: int, data: bytes) -> Take:
        first, *lines = lines_of(data.decode().strip().removesuffix("</doc>"))
        head = _DOC_HEAD.match(first)
        fields = {name: html.unescape(value) for name, value in _DOC_FIELD.findall(head[0] if head else first)}
        if head and first[head.end() :].strip():  # text that begins on the line of the head
            lines.insert(0, first[head.end() :])
        texts = [html.unescape(line) for line in lines]
        if texts and texts[0].strip() == fields.get("title"):
            texts = texts[1:]
        provenance = (path, fields["id"], fields.get("title"), fields.get("revid"))
        return lambda found: found.paragraphs(provenance, texts, len(data))


@dataclass
class MediaWikiPages(_RangeReader):
    """Reads pages of a MediaWiki XML dump as wikitext; rejects other namespaces, redirects and disambiguation pages."""

    adds: ClassVar[tuple[str, ...]] = tuple(ARTICLES.names)
    begins: ClassVar[bytes] = b"<page>"
    ends: ClassVar[bytes] = b"</page>"
    schema: ClassVar[pa.Schema] = ARTICLES

    def _records(self, slice_: Record) -> Iterator[tuple[int, bytes] | Problem]:
        if not slice_["multistream"]:
            return super()._records(slice_)
        return multistream_records(SourceFile.of(slice_), slice_["start"], slice_["stop"], self.begins, self.ends)

    def _read(self, path: str, where: int, data: bytes) -> Take:
        page = ElementTree.fromstring(data)
        article = page.findtext("id")
        text = page.findtext("revision/text") or ""
        if page.findtext("ns", "0") != "0":
            return lambda found: found.reject(path, article, "namespace")
        if page.find("redirect") is not None or is_redirect(text):
            return lambda found: found.reject(path, article, "redirect")
        if is_disambiguation(text):
            return lambda found: found.reject(path, article, "disambiguation")
        provenance = (path, article, page.findtext("title"), page.findtext("revision/id"))
        return lambda found: found.article(provenance, text, len(data))


@dataclass
class ExtractText(Stage):
    """Turns wikitext into clean paragraphs."""

    name: ClassVar[str] = "extract"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = tuple(ARTICLES.names)
    adds: ClassVar[tuple[str, ...]] = tuple(PARAGRAPHS.names)
    expands: ClassVar[bool] = True

    def process(self, rows: pa.Table) -> Result:
        """Clean each article."""
        found = Collected(PARAGRAPHS, bounded=False)  # `MediaWikiPages` has counted the lines
        with TimeLimit() as limit:
            for article in rows.to_pylist():
                source, number = article["source"], article["article"]
                try:
                    texts = limit.run(paragraphs, article["text"])
                except TookTooLong as error:
                    found.problem(str(error), {"source": source, "article": number})
                    continue
                if texts:
                    found.paragraphs((source, number, article["title"], article["revision"]), texts)
                else:
                    found.reject(source, number, "no running text")
        return found.result(used=rows.num_rows - found.rejected - len(found.quarantined))


@dataclass
class ParquetRows(_Reader):
    """Reads row groups of Parquet files with a text column, for example in the public `wikimedia/wikipedia` layout."""

    text_field: str = "text"

    @property
    def _columns(self) -> list[str]:
        return ["id", "title", "revision", self.text_field]

    def _records(self, slice_: Record) -> Iterator[tuple[Any, Any] | Problem]:
        path, stop = slice_["path"], slice_["stop"]
        with opened(SourceFile.of(slice_)) as file:
            try:
                parquet = self._open(file)
            except (OSError, pa.ArrowInvalid) as error:
                raise SourceChangedError(
                    f"can no longer read {path} as Parquet: {error}; download it again and build into a new store"
                ) from error
            if parquet.num_row_groups < stop:
                raise SourceChangedError(f"{path} has changed: it no longer has row group {stop - 1}")
            for group in range(slice_["start"], stop):
                yield from self._rows(parquet, group)

    def _open(self, file: BinaryIO) -> pq.ParquetFile:
        metadata = pq.read_metadata(file)
        leaves = map(metadata.schema.column, range(metadata.num_columns))
        strings = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.path in self._columns]
        return pq.ParquetFile(
            file,
            metadata=metadata,
            buffer_size=_COLUMN_BUFFER,
            page_checksum_verification=True,
            read_dictionary=strings,  # a long string shared by a million rows is held once
        )

    def _rows(self, parquet: pq.ParquetFile, group: int) -> Iterator[tuple[Any, Any]]:
        """Yield each row of a group: its values by name, or the error that makes them unreadable."""
        rows = parquet.metadata.row_group(group).num_rows
        wanted = [name for name in self._columns if name in parquet.schema_arrow.names]
        number = 0
        lost = "the row group ends before its last row"
        try:
            if self.text_field not in wanted:
                raise ValueError(f"there is no column {self.text_field!r} (source.text_field)")
            for batch in parquet.iter_batches(_batch_rows(parquet, group), row_groups=[group], columns=wanted):
                for values in zip(*(map(_value, column) for column in batch.columns), strict=True):
                    broken = next((value for value in values if isinstance(value, Exception)), None)
                    yield (group, number), broken or dict(zip(batch.schema.names, values, strict=True))
                    number += 1
        except Exception as error:
            if is_the_machines(error):
                raise
            lost = f"cannot read the row group from here on: {error}"
        for row in range(number, rows):
            yield (group, row), ValueError(lost)

    def _read(self, path: str, where: tuple[int, int], data: Record | Exception) -> Take:
        if isinstance(data, Exception):
            raise data
        article = _string(data.get("id", f"{where[0]}:{where[1]}"))
        if data[self.text_field] is None:
            return lambda found: found.reject(path, article, "no text")
        provenance = (path, article, _string(data.get("title")), _string(data.get("revision")))
        text = _text(data, self.text_field)
        lines, size = lines_of(text), len(text.encode())
        return lambda found: found.paragraphs(provenance, lines, size)

    def _location(self, path: str, where: tuple[int, int]) -> Record:
        return {"source": path, "row_group": where[0], "row": where[1]}


def _batch_rows(parquet: pq.ParquetFile, group: int) -> int:
    found = parquet.metadata.row_group(group)
    encodings = {name for column in range(found.num_columns) for name in found.column(column).encodings}
    return _BATCH_ROWS if found.total_byte_size <= _SAFE_BYTES and "DELTA_BYTE_ARRAY" not in encodings else _FEW_ROWS


def _value(scalar: pa.Scalar) -> Any:
    """Return a value or, if it cannot be read, the error."""
    try:
        return scalar.as_py()
    except Exception as error:
        if is_the_machines(error):
            raise
        return error


def _text(fields: Record, name: str) -> str:
    text = fields.get(name)
    if not isinstance(text, str):
        raise ValueError(f"{name!r} (source.text_field) is {'missing' if text is None else 'not a string'}")
    return encodable(text)


def _string(value: Any) -> str | None:
    return None if value is None else encodable(str(value))


# ------------------------------------------------------------------------------------------------------- planning


def range_slices(patterns: Sequence[str], unit_bytes: int) -> Slices:
    """Cut files into units of one byte range each; an empty file has none."""
    return [
        [file.record(start=start, stop=stop, multistream=False)]
        for file in find_files(patterns)
        if file.size
        for start, stop in byte_ranges(file, unit_bytes)
    ]


def parquet_slices(patterns: Sequence[str], unit_bytes: int) -> Slices:
    """Group neighbouring row groups into units of about `unit_bytes` of text; read only the footers."""
    slices: Slices = []
    for file in find_files(patterns):
        sizes = _row_group_sizes(file)
        start, size = 0, 0
        for group, bytes_ in enumerate(sizes):
            size += bytes_
            if size >= unit_bytes or group == len(sizes) - 1:
                slices.append([file.record(start=start, stop=group + 1, multistream=False)])
                start, size = group + 1, 0
    return slices


def _row_group_sizes(file: SourceFile) -> list[int]:
    try:
        with open_binary(file.path) as stream, pq.ParquetFile(stream) as parquet:
            return [parquet.metadata.row_group(n).total_byte_size for n in range(parquet.num_row_groups)]
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError(
            f"source.paths: cannot read {file.path} as Parquet: {error}; download it again, leave it out, or choose "
            "another source.kind"
        ) from error


def mediawiki_slices(patterns: Sequence[str], unit_bytes: int) -> Slices:
    """Cut dumps into groups of streams where a multistream index is next to the dump, else into byte ranges."""
    slices: Slices = []
    for file in find_files(patterns):
        index = index_of(file)
        if index is None:
            slices += [
                [file.record(start=start, stop=stop, multistream=False)]
                for start, stop in (byte_ranges(file, unit_bytes) if file.size else [])
            ]
            continue
        slices += [[file.record(start=a, stop=b, multistream=True)] for a, b in stream_groups(file, index, unit_bytes)]
    return slices
