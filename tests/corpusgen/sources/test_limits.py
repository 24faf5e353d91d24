"""A unit takes bounded memory, whatever is in its range: what is too much is told, with what to do."""

import bz2
import gzip
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusgen.engine.passes import first_batch
from corpusgen.sources import collect
from corpusgen.sources.readers import (
    ExtractText,
    JsonLines,
    MediaWikiPages,
    ParquetRows,
    PlainText,
    mediawiki_slices,
    parquet_slices,
    range_slices,
)
from tests.corpusgen.sources.support import run


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(collect, "MOST_ROWS", 100)


def test_rows_beyond_those_of_a_unit_are_told_once_with_their_number_and_what_to_do(tmp_path, few):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"".join(b"Line %03d\n" % n for n in range(250))))
    rows, _, quarantined = run(PlainText(), range_slices([str(path)], 1 << 20))
    assert [row["text"] for row in rows] == [f"Line {n:03}" for n in range(100)]
    (entry,) = quarantined
    assert entry["record"] == {"source": str(path), "offset": 900}
    assert (
        "150 records from here on are skipped: a unit holds at most 100 rows and 256 MB; decompress or split the file"
        in entry["error"]
    )
    assert "lower source.unit_bytes" in entry["error"]


def test_smaller_units_give_all_rows(tmp_path, few):
    path = tmp_path / "a.txt"
    path.write_bytes(b"".join(b"Line %03d\n" % n for n in range(250)))
    rows, _, quarantined = run(PlainText(), range_slices([str(path)], 700))
    assert len(rows) == 250
    assert quarantined == []


def test_bad_records_are_bounded_too(tmp_path, few):
    path = tmp_path / "a.jsonl"
    path.write_text("no JSON\n" * 300)
    rows, _, quarantined = run(JsonLines(), range_slices([str(path)], 1 << 20))
    assert rows == []
    assert len(quarantined) == 101
    assert "200 records from here on are skipped" in quarantined[-1]["error"]


def test_bytes_are_bounded_by_what_records_have_and_their_provenance_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "MOST_BYTES", 10_000)
    path = tmp_path / "a.jsonl"
    title = "T" * 500
    path.write_text("".join(json.dumps({"title": title, "text": f"{n}a\n{n}b"}) + "\n" for n in range(50)))
    rows, _, quarantined = run(JsonLines(), range_slices([str(path)], 1 << 20))
    assert 2 < len(rows) < 20
    assert len(rows) % 2 == 0
    assert [entry["record"]["source"] for entry in quarantined] == [str(path)]


def test_one_record_that_is_too_much_costs_only_itself(tmp_path, few):
    path = tmp_path / "a.jsonl"
    texts = ["One.", "x\n" * 500, "\n" * 500, "y \n" * 101, "Two."]
    path.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(texts)))
    rows, _, quarantined = run(JsonLines(), range_slices([str(path)], 1 << 20))
    assert [row["article"] for row in rows] == ["0", "4"]
    assert len(quarantined) == 3


def test_rows_of_parquet_are_bounded(tmp_path, few):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"Row {n}" for n in range(250)]}), path, row_group_size=60)
    rows, _, quarantined = run(ParquetRows(), parquet_slices([str(path)], 1 << 20))
    assert [row["text"] for row in rows] == [f"Row {n}" for n in range(100)]
    (entry,) = quarantined
    assert entry["record"] == {"source": str(path), "row_group": 1, "row": 40}
    assert "150 records from here on are skipped" in entry["error"]


def test_the_lines_of_articles_are_bounded_before_they_become_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "MOST_BYTES", 20_000)
    page = "<page>\n<title>{2}</title><ns>0</ns><id>{0}</id><revision><id>1</id><text>{1}</text></revision>\n</page>\n"
    pages = [page.format(0, "good", "T"), page.format(1, "a\n\n" * 50, "T" * 1000), page.format(2, "good", "T")]
    path = tmp_path / "a.xml"
    path.write_text("".join(pages))
    rows, _, quarantined = run(MediaWikiPages(), mediawiki_slices([str(path)], 1 << 20))
    assert [row["article"] for row in rows] == ["0", "2"]
    assert len(quarantined) == 1
    rows, _, _ = run(ExtractText(), [rows])
    assert len(rows) == 2


def test_many_rows_come_in_the_order_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "_CHUNK_ROWS", 7)
    path = tmp_path / "a.jsonl"
    texts = [f"{n}\n" * (n % 5) for n in range(100)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    rows, _, _ = run(JsonLines(), range_slices([str(path)], 1 << 20))
    assert [(row["text"], row["paragraph"]) for row in rows] == [(str(n), k) for n in range(100) for k in range(n % 5)]


BOMBS = {
    "lines": lambda: gzip.compress(b"A line.\n" * 4_000_000, 9),
    "one line": lambda: bz2.compress(b"x" * (300 << 20)),
    "empty lines": lambda: gzip.compress(b"\n" * (8 << 20), 9),
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_archive_of_much_text_takes_bounded_memory(tmp_path, bomb):
    path = tmp_path / ("a.txt.bz2" if bomb == "one line" else "a.txt.gz")
    path.write_bytes(BOMBS[bomb]())
    (slice_,) = range_slices([str(path)], 64 << 20)
    assert peak_growth(slice_) < 700 << 10  # kB


def test_one_long_string_for_many_rows_of_parquet_takes_bounded_memory(tmp_path):
    """Of 20 GB, out of half a megabyte."""
    path = tmp_path / "a.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), pa.array(["x" * (10 << 20)]))
    pq.write_table(pa.table({"text": texts}), path, dictionary_pagesize_limit=1 << 30)
    (slice_,) = parquet_slices([str(path)], 1 << 30)
    assert peak_growth(slice_, "ParquetRows") < 700 << 10  # kB


def peak_growth(records, stage="PlainText"):
    code = f"""
import resource
from corpusgen.engine.passes import first_batch
from corpusgen.sources.readers import {stage}
table = first_batch({records!r}).rows
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = {stage}().process(table)
assert result.rows.num_rows <= 1_000_000
assert len(result.quarantined) <= 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def test_the_result_of_an_empty_range_has_the_columns_of_the_table(tmp_path):
    (tmp_path / "a.txt").write_text("\n")
    (slice_,) = range_slices([str(tmp_path / "a.txt")], 100)
    assert PlainText().process(first_batch(slice_).rows).rows.schema == PlainText.schema
