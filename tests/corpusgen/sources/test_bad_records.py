"""A record that is bad in any way costs itself: it is quarantined with its location, and all others are read."""

import errno
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusgen.errors import StageError, StoreUnavailableError
from corpusgen.sources import readers
from corpusgen.sources.collect import Collected
from corpusgen.sources.readers import (
    ExtractText,
    JsonLines,
    MediaWikiPages,
    ParquetRows,
    PlainText,
    WikiExtractor,
    mediawiki_slices,
    parquet_slices,
    range_slices,
)
from corpusgen.tables import ARTICLES
from tests.corpusgen.sources.support import run

BAD_LINES = {
    "half a character in the text": '{"text": "a \\ud800 b"}',
    "half a character in the id": '{"id": "\\udfff", "text": "a"}',
    "half a character in the title": '{"title": "x\\ud83d", "text": "a"}',
    "half a character in the revision": '{"revision": "\\ud83d", "text": "a"}',
    "nested too deep": '{"text": ' + "[" * 200_000 + "]" * 200_000 + "}",
    "nested too deep in the id": '{"text": "a", "id": ' + "[" * 200_000 + "]" * 200_000 + "}",
    "no object": "[1, 2]",
    "a number": "17",
    "null": "null",
    "no text": '{"id": 5}',
    "a text that is null": '{"text": null}',
    "a text that is a list": '{"text": ["a"]}',
    "a number of many digits": '{"text": "a", "id": ' + "9" * 10_000 + "}",
    "no JSON": "{broken",
    "not UTF-8": '{"text": "\udcff"}',
}


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_of_json_costs_itself(tmp_path, bad):
    good = [json.dumps({"id": n, "text": f"Text {n}.\nMore."}) for n in range(20)]
    lines = [*good[:7], bad, *good[7:]]
    path = tmp_path / "a.jsonl"
    path.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    rows, _, quarantined = run(JsonLines(), range_slices([str(path)], 1 << 20))
    assert [row["article"] for row in rows] == [str(n) for n in range(20) for _ in range(2)]
    location = {"source": str(path), "offset": sum(len(line) + 1 for line in good[:7])}
    assert [entry["record"] for entry in quarantined] == [location]
    json.dumps(quarantined).encode()


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(st.characters(), max_size=20), max_size=12),
    ids=st.lists(st.one_of(st.none(), st.integers(), st.text(st.characters(), max_size=3)), min_size=12, max_size=12),
)
def test_any_strings_of_json_become_rows_or_quarantined_lines(tmp_path_factory, texts, ids):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    records = [{"text": text, "id": id_} for text, id_ in zip(texts, ids, strict=False)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    rows, _, quarantined = run(JsonLines(), range_slices([str(path)], 30))

    def encodable(record):
        try:
            return (record["text"] + str(record["id"])).encode()
        except UnicodeEncodeError:
            return None

    good = [record for record in records if encodable(record) is not None]
    lines = [line.strip() for record in good for line in record["text"].split("\n") if line.strip()]
    assert [row["text"] for row in rows] == lines
    assert len(quarantined) == len(records) - len(good)


def test_pages_that_do_not_parse_cost_themselves(tmp_path):
    page = "<page>\n<title>T</title><ns>0</ns><id>{0}</id><revision><id>1</id><text>{1}</text></revision>\n</page>\n"
    texts = ["good", "a <b> c", "&#xD800;", "&nothing;", "\x00", "<x>" * 100_000 + "</x>" * 100_000, "good"]
    path = tmp_path / "a.xml"
    path.write_text("".join(page.format(n, text) for n, text in enumerate(texts)))
    rows, _, quarantined = run(MediaWikiPages(), mediawiki_slices([str(path)], 1 << 20))
    assert [row["article"] for row in rows] == ["0", "5", "6"]
    assert len(quarantined) == 4


def test_text_beside_the_tags_of_a_document_is_kept(tmp_path):
    path = tmp_path / "wiki_00"
    path.write_text(
        '<doc id="1" title="A">One.</doc>\n'
        '<doc id="2" title="B">\nB\nTwo.</doc>\n'
        '<doc id="3" title="C">Three.\nFour.\n</doc>\n'
        '<doc id="4" title="The "D"">\nFive.\n</doc>\n'
    )
    rows, _, quarantined = run(WikiExtractor(), range_slices([str(path)], 1 << 20))
    found = [(row["article"], row["text"]) for row in rows]
    assert found == [("1", "One."), ("2", "Two."), ("3", "Three."), ("3", "Four."), ("4", "Five.")]
    assert quarantined == []


def parquet(path, table, **options):
    pq.write_table(table, path, **options)
    return run(ParquetRows(), parquet_slices([str(path)], 1 << 20))


def rows_of(quarantined):
    return [(entry["record"]["row_group"], entry["record"]["row"]) for entry in quarantined]


def test_bad_strings_of_parquet_cost_their_rows(tmp_path):
    """Bytes that are no UTF-8, in columns that say that they are."""

    def strings(*values):
        return pa.array(values, pa.binary()).view(pa.string())

    table = pa.table(
        {
            "id": strings(b"0", b"1", b"\xff", b"3", b"4"),
            "title": strings(b"T", b"T", b"T", None, b"\xe9"),
            "text": strings(b"Zero.", b"\xff\xfe", b"Two.", b"Three.", b"Four."),
        }
    )
    rows, _, quarantined = parquet(tmp_path / "a.parquet", table)
    assert [row["text"] for row in rows] == ["Zero.", "Three."]
    assert rows_of(quarantined) == [(0, 1), (0, 2), (0, 4)]
    assert all("not UTF-8" in entry["error"] for entry in quarantined)


def test_a_null_is_rejected_for_having_no_text(tmp_path):
    table = pa.table({"text": ["Zero.", None, "Two.", "", None]})
    rows, rejected, quarantined = parquet(tmp_path / "a.parquet", table, row_group_size=2)
    assert [(row["article"], row["text"]) for row in rows] == [("0:0", "Zero."), ("1:0", "Two.")]
    assert rejected == {"no text": 2}
    assert not quarantined


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[b"a"], [], [b"b"]]),
        pa.array([{"x": "a"}, {"x": None}, {"x": "b"}]),
        pa.array([1, 2, 3]),
        pa.array([b"a", b"b", b""]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_column_that_holds_no_strings_costs_each_of_its_rows(tmp_path, column):
    rows, _, quarantined = parquet(tmp_path / "a.parquet", pa.table({"text": column}))
    assert rows == []
    assert rows_of(quarantined) == [(0, 0), (0, 1), (0, 2)]


def test_strings_of_other_kinds_are_strings(tmp_path):
    texts = ["One.", "Two.", "One."]
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        rows, _, quarantined = parquet(tmp_path / "a.parquet", pa.table({"text": pa.array(texts).cast(kind)}))
        assert [row["text"] for row in rows] == texts
        assert quarantined == []


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_damaged_page_costs_the_rest_of_its_row_group_row_by_row(tmp_path, compression):
    path = tmp_path / "a.parquet"
    texts = [f"Row {n}: {n**9}" for n in range(9000)]
    pq.write_table(
        pa.table({"text": texts}),
        path,
        row_group_size=3000,
        data_page_size=2000,
        compression=compression,
        use_dictionary=False,
        write_page_checksum=True,
    )
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    slices = parquet_slices([str(path)], 1)
    data, status = bytearray(path.read_bytes()), path.stat()
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    rows, _, quarantined = run(ParquetRows(), slices)
    numbers = [int(row["text"].split(":")[0][4:]) for row in rows]
    lost = [3000 + row for group, row in rows_of(quarantined) if group == 1]
    assert sorted(numbers + lost) == list(range(9000))
    assert numbers == sorted(numbers)
    assert 3000 in numbers
    assert lost == list(range(lost[0], 6000))
    assert [row["text"] for row in rows] == [texts[n] for n in numbers]


@pytest.mark.parametrize("safe", [0, 1 << 30])
def test_a_row_group_is_read_in_pieces(tmp_path, safe, monkeypatch):
    monkeypatch.setattr(readers, "_SAFE_BYTES", safe)
    monkeypatch.setattr(readers, "_BATCH_ROWS", 20)
    sizes = []
    real = pq.ParquetFile.iter_batches

    def iter_batches(*args, **options):
        for batch in real(*args, **options):
            sizes.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    rows, _, _ = parquet(tmp_path / "a.parquet", pa.table({"text": [f"Row {n}" for n in range(100)]}))
    assert [row["article"] for row in rows] == [f"0:{n}" for n in range(100)]
    assert max(sizes) == (20 if safe else 8)


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EIO, "x"), StoreUnavailableError("x"), TimeoutError()])
def test_what_is_the_machines_fault_is_blamed_on_no_record(tmp_path, error, monkeypatch):
    (tmp_path / "a.txt").write_text("One.\nTwo.\n")

    def fail(*_):
        raise error

    monkeypatch.setattr(Collected, "paragraphs", fail)
    with pytest.raises((type(error), StageError)):
        run(PlainText(), range_slices([str(tmp_path / "a.txt")], 1 << 20))


def test_a_mistake_of_ours_does_not_put_a_whole_unit_into_quarantine(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("One.\nTwo.\n")
    monkeypatch.setattr(readers, "read_records", lambda *_: iter([1 / 0 for _ in range(1)]))
    with pytest.raises(StageError, match=r"cannot read .*a\.txt: ZeroDivisionError"):
        run(PlainText(), range_slices([str(tmp_path / "a.txt")], 1 << 20))


def test_a_record_that_takes_too_long_costs_itself(tmp_path, monkeypatch):
    def endless(data):
        while "endless" in data:
            pass
        return {"text": data}

    monkeypatch.setattr("corpusgen.engine.time_limit.SECONDS", 0.2)
    monkeypatch.setattr("corpusgen.sources.readers.json.loads", endless)
    path = tmp_path / "a.jsonl"
    path.write_text("one\nendless\nthree\n")
    rows, _, quarantined = run(JsonLines(), range_slices([str(path)], 1 << 20))
    assert [row["text"] for row in rows] == ["one", "three"]
    [entry] = quarantined
    assert entry["error"] == "not readable as JsonLines: took longer than 0.2 s"
    assert entry["record"] == {"source": str(path), "offset": 4}


def test_an_article_that_takes_too_long_costs_itself(monkeypatch):
    def endless(text):
        while text == "endless":
            pass
        return [text]

    monkeypatch.setattr("corpusgen.engine.time_limit.SECONDS", 0.2)
    monkeypatch.setattr("corpusgen.sources.readers.paragraphs", endless)
    articles = [
        {"source": "a", "article": str(number), "title": None, "revision": None, "text": text}
        for number, text in enumerate(["one", "endless", "three"])
    ]
    result = ExtractText().process(pa.Table.from_pylist(articles, ARTICLES))
    assert result.rows["text"].to_pylist() == ["one", "three"]
    assert result.quarantined == [{"error": "took longer than 0.2 s", "record": {"source": "a", "article": "1"}}]
    assert result.used == 2
