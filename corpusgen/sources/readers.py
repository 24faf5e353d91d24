"""The kinds of input: how each is cut into units, and the stage that reads one."""

from __future__ import annotations

import bz2
import html
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.engine import Result, Stage
from corpusgen.errors import ConfigError
from corpusgen.schemas import ARTICLES, PARAGRAPHS, REJECTS
from corpusgen.sources.locate import SourceFile, find_files, open_binary
from corpusgen.sources.streams import BROKEN, Problem, byte_ranges, decompressed, read_records
from corpusgen.text.wikitext import is_disambiguation, is_redirect, paragraphs

Record = dict[str, Any]
Slices = list[list[Record]]


@dataclass
class _Collected:
    """What a reader has found so far."""

    rows: list[Record] = field(default_factory=list)
    rejects: list[Record] = field(default_factory=list)
    quarantined: list[Record] = field(default_factory=list)

    def problem(self, path: str, offset: int, error: str) -> None:
        self.quarantined.append({"error": error, "record": {"source": path, "offset": offset}})

    def article(self, place: Mapping[str, Any], texts: Sequence[str]) -> None:
        kept = (text for text in map(str.strip, texts) if text)
        self.rows += [{**place, "paragraph": number, "text": text} for number, text in enumerate(kept)]

    def result(self, schema: pa.Schema) -> Result:
        rejects = pa.Table.from_pylist(self.rejects, REJECTS) if self.rejects else None
        return Result(pa.Table.from_pylist(self.rows, schema), rejects, self.quarantined)


@dataclass
class _RangeReader(Stage):
    """Reads the records of byte ranges; subclasses say what a record is and what is in it."""

    name: ClassVar[str] = "read"
    needs: ClassVar[tuple[str, ...]] = ("path", "start", "stop")
    adds: ClassVar[tuple[str, ...]] = tuple(PARAGRAPHS.names)
    expands: ClassVar[bool] = True
    begins: ClassVar[bytes] = b""
    ends: ClassVar[bytes] = b""
    schema: ClassVar[pa.Schema] = PARAGRAPHS

    def process(self, rows: pa.Table) -> Result:
        """Read the ranges; what cannot be read is quarantined with its place."""
        found = _Collected()
        for slice_ in rows.to_pylist():
            for record in self._records(slice_):
                if isinstance(record, Problem):
                    found.problem(slice_["path"], record.offset, record.error)
                    continue
                offset, data = record
                try:
                    self._read(slice_["path"], offset, data, found)
                except UnicodeDecodeError as error:
                    found.problem(slice_["path"], offset, f"not UTF-8: {error.reason} at byte {error.start}")
                except (ValueError, ElementTree.ParseError, KeyError, TypeError, AttributeError) as error:
                    found.problem(slice_["path"], offset, f"not readable as {type(self).__name__}: {error}")
        return found.result(self.schema)

    def _records(self, slice_: Record) -> Iterator[tuple[int, bytes] | Problem]:
        return read_records(slice_["path"], slice_["start"], slice_["stop"], self.begins, self.ends)

    def _read(self, path: str, offset: int, data: bytes, found: _Collected) -> None:
        raise NotImplementedError


@dataclass
class PlainText(_RangeReader):
    """UTF-8, one paragraph a line; its place is the offset of the line."""

    def _read(self, path: str, offset: int, data: bytes, found: _Collected) -> None:
        if text := data.decode().strip():
            place = {"source": path, "article": str(offset), "title": None, "revision": None}
            found.article(place, [text])


@dataclass
class JsonLines(_RangeReader):
    """One JSON object a line, with the text in `text_field`; `id`, `title` and `revision` are kept if there."""

    text_field: str = "text"

    def _read(self, path: str, offset: int, data: bytes, found: _Collected) -> None:
        if not data.strip():
            return
        fields = json.loads(data.decode())
        text = fields.get(self.text_field)
        if not isinstance(text, str):
            raise ValueError(f"{self.text_field!r} (source.text_field) is {'no string' if text else 'missing'}")
        article = {"source": path, "article": _string(fields.get("id", offset)), "title": _string(fields.get("title"))}
        place = {**article, "revision": _string(fields.get("revision", fields.get("revid")))}
        found.article(place, text.split("\n"))


_DOC = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class WikiExtractor(_RangeReader):
    """The `<doc …>` files of the WikiExtractor; its --json output is JsonLines."""

    begins: ClassVar[bytes] = b"<doc "
    ends: ClassVar[bytes] = b"</doc>"

    def _read(self, path: str, offset: int, data: bytes, found: _Collected) -> None:
        head, *lines = data.decode().strip().split("\n")
        fields = {name: html.unescape(value) for name, value in _DOC.findall(head)}
        place = {"source": path, "article": fields["id"], "title": fields.get("title")}
        texts = [html.unescape(line) for line in lines[:-1]]
        if texts and texts[0].strip() == fields.get("title"):
            texts = texts[1:]
        found.article({**place, "revision": fields.get("revid")}, texts)


@dataclass
class MediaWikiPages(_RangeReader):
    """Pages of a MediaWiki XML dump as articles in wikitext; other namespaces and redirects are rejected."""

    adds: ClassVar[tuple[str, ...]] = tuple(ARTICLES.names)
    begins: ClassVar[bytes] = b"<page>"
    ends: ClassVar[bytes] = b"</page>"
    schema: ClassVar[pa.Schema] = ARTICLES

    def _records(self, slice_: Record) -> Iterator[tuple[int, bytes] | Problem]:
        if not slice_["multistream"]:
            return super()._records(slice_)
        return _multistream_records(slice_, self.begins, self.ends)

    def _read(self, path: str, offset: int, data: bytes, found: _Collected) -> None:
        page = ElementTree.fromstring(data)
        place = {"source": path, "article": page.findtext("id"), "title": page.findtext("title")}
        text = page.findtext("revision/text") or ""
        if page.findtext("ns", "0") != "0":
            reason: str | None = "namespace"
        elif page.find("redirect") is not None or is_redirect(text):
            reason = "redirect"
        elif is_disambiguation(text):
            reason = "disambiguation"
        else:
            reason = None
        if reason:
            found.rejects.append({"source": path, "article": place["article"], "reason": reason})
        else:
            found.rows.append({**place, "revision": page.findtext("revision/id"), "text": text})


def _multistream_records(slice_: Record, begins: bytes, ends: bytes) -> Iterator[tuple[int, bytes] | Problem]:
    """Pages out of some of the streams of a dump; `start` and `stop` count compressed bytes."""
    with open_binary(slice_["path"]) as file:
        file.seek(slice_["start"])
        data = io.BytesIO(file.read(min(slice_["stop"], slice_["size"]) - slice_["start"]))
    stream = bz2.BZ2File(data)
    record: list[bytes] = []
    try:
        for line in stream:
            if record or line.lstrip().startswith(begins):
                record.append(line)
                if line.rstrip().endswith(ends):
                    yield slice_["start"], b"".join(record)
                    record = []
    except (EOFError, OSError) as error:
        yield Problem(slice_["start"], f"the stream that begins here is damaged or cut off: {error}")
    if record:
        yield Problem(slice_["start"], "the streams that begin here end inside a page")


@dataclass
class ExtractText(Stage):
    """Wikitext becomes clean paragraphs."""

    name: ClassVar[str] = "extract"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = tuple(ARTICLES.names)
    adds: ClassVar[tuple[str, ...]] = tuple(PARAGRAPHS.names)
    expands: ClassVar[bool] = True

    def process(self, rows: pa.Table) -> Result:
        """Clean each article."""
        found = _Collected()
        for article in rows.to_pylist():
            texts = paragraphs(article.pop("text"))
            if texts:
                found.article(article, texts)
            else:
                found.rejects.append({**article, "reason": "no running text"})
        return replace(found.result(PARAGRAPHS), used=rows.num_rows - len(found.rejects))


@dataclass
class ParquetRows(Stage):
    """Row groups of Parquet files with a column of text, for example of the public `wikimedia/wikipedia` layout."""

    name: ClassVar[str] = "read"
    needs: ClassVar[tuple[str, ...]] = ("path", "start", "stop")
    adds: ClassVar[tuple[str, ...]] = tuple(PARAGRAPHS.names)
    expands: ClassVar[bool] = True

    text_field: str = "text"

    def process(self, rows: pa.Table) -> Result:
        """Read the row groups."""
        found = _Collected()
        for slice_ in rows.to_pylist():
            path = slice_["path"]
            with open_binary(path) as file, pq.ParquetFile(file) as parquet:
                for group in range(slice_["start"], slice_["stop"]):
                    try:
                        self._read(parquet, group, path, found)
                    except (OSError, pa.ArrowInvalid) as error:
                        found.problem(path, group, f"row group {group} is damaged: {error}")
        return found.result(PARAGRAPHS)

    def _read(self, parquet: pq.ParquetFile, group: int, path: str, found: _Collected) -> None:
        wanted = [name for name in ("id", "title", "revision", self.text_field) if name in parquet.schema_arrow.names]
        if self.text_field not in wanted:
            found.problem(path, group, f"there is no column {self.text_field!r} (source.text_field)")
            return
        for number, fields in enumerate(parquet.read_row_group(group, columns=wanted).to_pylist()):
            article = _string(fields.get("id", f"{group}:{number}"))
            place = {"source": path, "article": article, "title": _string(fields.get("title"))}
            text = fields[self.text_field] or ""
            found.article({**place, "revision": _string(fields.get("revision"))}, text.split("\n"))


def _string(value: Any) -> str | None:
    return None if value is None else str(value)


# ------------------------------------------------------------------------------------------------------- planning


def slices_of(kind: str, patterns: Sequence[str], unit_bytes: int) -> Slices:
    """The inputs of the units that a source is cut into; ConfigError names a file that tells no cuts."""
    cut = {"mediawiki": mediawiki_slices, "parquet": parquet_slices}
    return cut.get(kind, range_slices)(patterns, unit_bytes)


def range_slices(patterns: Sequence[str], unit_bytes: int) -> Slices:
    """One unit a range of bytes; an empty file has none."""
    return [
        [file.record(start=start, stop=stop, multistream=False)]
        for file in find_files(patterns)
        if file.size
        for start, stop in byte_ranges(file, unit_bytes)
    ]


def parquet_slices(patterns: Sequence[str], unit_bytes: int) -> Slices:
    """Neighbouring row groups of about `unit_bytes` of text; only the footers are read."""
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
            f"source.paths: {file.path} cannot be read as Parquet: {error}; fetch it again, leave it out, or give "
            "another source.kind"
        ) from error


def mediawiki_slices(patterns: Sequence[str], unit_bytes: int) -> Slices:
    """Groups of streams where a multistream index lies beside the dump, else ranges of bytes."""
    slices: Slices = []
    for file in find_files(patterns):
        index = _index_of(file)
        if index is None:
            slices += [
                [file.record(start=start, stop=stop, multistream=False)]
                for start, stop in (byte_ranges(file, unit_bytes) if file.size else [])
            ]
            continue
        slices += [[file.record(start=a, stop=b, multistream=True)] for a, b in _stream_groups(file, index, unit_bytes)]
    return slices


def _index_of(dump: SourceFile) -> SourceFile | None:
    name, found = re.subn(r"multistream(\d*)\.xml", r"multistream-index\1.txt", dump.path)
    if not found:
        return None
    try:
        return find_files([name])[0]
    except ConfigError:  # no index: the dump is read from end to end
        return None


def _stream_groups(dump: SourceFile, index: SourceFile, unit_bytes: int) -> list[tuple[int, int]]:
    """Ranges of whole streams. Before the first page's stream there is only the header."""
    offsets = _stream_offsets(dump, index)
    groups: list[tuple[int, int]] = []
    start = offsets[0]
    for offset in [*offsets[1:], dump.size]:
        if (offset - start) * 4 >= unit_bytes or offset == dump.size:  # text is about four times its bz2
            groups.append((start, offset))
            start = offset
    return groups


def _stream_offsets(dump: SourceFile, index: SourceFile) -> list[int]:
    """Where streams begin, by an index whose lines are offset:id:title."""
    remedy = "fetch it again, or move it away: without one the dump is read from its beginning to its end"
    try:
        with open_binary(index.path) as file:
            fields = (line.split(b":", 2) for line in decompressed(file, index.path))
            offsets = sorted({int(offset) for offset, _, _ in fields})
    except (*BROKEN, ValueError) as error:
        raise ConfigError(f"source.paths: {index.path} is damaged, or no index: {error}; {remedy}") from error
    if not offsets or not 0 <= offsets[0] <= offsets[-1] < dump.size:
        raise ConfigError(f"source.paths: {index.path} is empty, or not the index of {dump.path}; {remedy}")
    return offsets
