"""Which pieces are read: spread over all files, none twice, each with the bytes that it stands for."""

import bz2
import gzip
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusgen.engine.passes import first_batch
from corpusgen.ops.estimate import source
from corpusgen.ops.estimate.source import sample_source
from corpusgen.sources import readers

LINE = b"A line of the text, with its number: %06d\n"


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Of about fifty lines, at most eight of them."""
    monkeypatch.setattr(source, "PIECE_BYTES", 2048)
    monkeypatch.setattr(source, "PIECES", 8)


def lines(first, number):
    return b"".join(LINE % n for n in range(first, first + number))


def numbers_in(sample, stage):
    """The numbers of the lines that the pieces give."""
    tables = [stage.process(first_batch([piece.record]).rows).rows for piece in sample.pieces]
    return [int(text.rpartition(" ")[2]) for table in tables for text in table["text"].to_pylist()]


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(0, 900), min_size=1, max_size=5), seed=st.integers(0, 5))
def test_pieces_of_plain_files_give_no_line_twice_and_all_of_a_small_source(tmp_path_factory, sizes, seed):
    folder = tmp_path_factory.mktemp("plain")
    for number, size in enumerate(sizes):
        (folder / f"{number}.txt").write_bytes(lines(10_000 * number, size))
    slices = readers.range_slices([str(folder / "*.txt")], 4000)
    sample = sample_source(slices, "bytes", 4000, seed)
    found = numbers_in(sample, readers.PlainText())
    everything = {10_000 * number + n for number, size in enumerate(sizes) for n in range(size)}
    assert len(found) == len(set(found))
    assert set(found) <= everything
    assert sample.bytes == sum(map(len, map(lines, [0] * len(sizes), sizes)))
    assert sample.units == len(slices)
    assert not sample.heads
    if sample.bytes <= 8 * 2048:
        assert set(found) == everything
        assert sample.share == 1
    else:
        assert 4 <= len(sample.pieces) <= 8
        # A line belongs to the piece in which it begins: no piece gives many more or fewer than its bytes hold.
        assert len(found) == pytest.approx(sample.share * len(everything), abs=len(sample.pieces))


def test_pieces_come_from_all_parts_of_a_large_file(tmp_path):
    (tmp_path / "text").write_bytes(lines(0, 4000))
    sample = sample_source(readers.range_slices([str(tmp_path / "text")], 1 << 20), "bytes", 1 << 20, 0)
    assert len(sample.pieces) == 8
    eighths = [piece.record["start"] * 8 // sample.bytes for piece in sample.pieces]
    assert len(set(eighths)) >= 7  # one each, but where a piece begins in the eighth before
    assert sample.share == pytest.approx(8 * 2048 / sample.bytes)


def test_another_seed_reads_other_pieces_and_the_same_one_the_same(tmp_path):
    (tmp_path / "text").write_bytes(lines(0, 4000))
    slices = readers.range_slices([str(tmp_path / "text")], 1 << 20)
    samples = [sample_source(slices, "bytes", 1 << 20, seed) for seed in (0, 0, 1)]
    assert samples[0] == samples[1] != samples[2]


def test_compressed_files_give_their_beginnings_and_what_these_take_of_them(tmp_path):
    chance = random.Random(0)
    for number in range(4):
        text = b"".join(chance.randbytes(40).hex().encode() + b" " + LINE % (10_000 * number + n) for n in range(2000))
        (tmp_path / f"{number}.gz").write_bytes(gzip.compress(text))
    slices = readers.range_slices([str(tmp_path / "*.gz")], 1 << 20)
    sample = sample_source(slices, "bytes", 1 << 20, 0)
    found = numbers_in(sample, readers.PlainText())
    assert len(found) == len(set(found))
    assert sample.heads
    assert {number // 10_000 for number in found} == {0, 1, 2, 3}
    assert all(number % 10_000 < 200 for number in found)
    assert sample.units == 4  # though the plan has more, in case they are longer
    assert 0 < sample.share < 1


def test_a_compressed_file_that_ends_within_its_pieces_is_read_to_its_end(tmp_path):
    (tmp_path / "text.gz").write_bytes(gzip.compress(lines(0, 150)))
    sample = sample_source(readers.range_slices([str(tmp_path / "text.gz")], 1 << 20), "bytes", 1 << 20, 0)
    assert numbers_in(sample, readers.PlainText()) == list(range(150))
    assert sample.share == 1
    assert not sample.heads


def test_a_damaged_compressed_file_is_no_reason_to_stop(tmp_path):
    (tmp_path / "text.gz").write_bytes(gzip.compress(lines(0, 2000))[:3000] + b"no gzip" * 500)
    sample = sample_source(readers.range_slices([str(tmp_path / "text.gz")], 1 << 20), "bytes", 1 << 20, 0)
    assert sample.pieces


def test_multistream_dumps_give_whole_streams(tmp_path):
    page = "<page>\n<title>{0}</title><ns>0</ns><id>{0}</id><revision><id>1</id><text>{1}</text></revision>\n</page>\n"
    streams = []
    for number in range(40):
        pages = "".join(page.format(100 * number + n, "Some text. " * 80) for n in range(5))
        streams.append(bz2.compress(pages.encode()))
    head = bz2.compress(b"<mediawiki>\n")
    starts = [len(head) + sum(map(len, streams[:n])) for n in range(40)]
    (tmp_path / "x-multistream.xml.bz2").write_bytes(b"".join([head, *streams, bz2.compress(b"</mediawiki>\n")]))
    index = "".join(f"{start}:1:x\n" for start in starts)
    (tmp_path / "x-multistream-index.txt.bz2").write_bytes(bz2.compress(index.encode()))
    slices = readers.mediawiki_slices([str(tmp_path / "x-multistream.xml.bz2")], 8000)
    sample = sample_source(slices, "bytes", 8000, 0)
    assert 4 <= len(sample.pieces) <= 8
    for piece in sample.pieces:
        assert piece.record["start"] in starts
        assert piece.record["stop"] in (*starts, sample.bytes)
        result = readers.MediaWikiPages().process(first_batch([piece.record]).rows)
        assert not result.quarantined
        assert result.rows.num_rows >= 5


def test_parquet_files_give_row_groups(tmp_path):
    for number in range(2):
        rows = [f"Row {n}" for n in range(1000 * number, 1000 * number + 1000)]
        pq.write_table(pa.table({"text": rows}), tmp_path / f"{number}.parquet", row_group_size=50)
    slices = readers.parquet_slices([str(tmp_path / "*.parquet")], 300)
    sample = sample_source(slices, "row groups", 300, 0)
    found = numbers_in(sample, readers.ParquetRows())
    assert len(found) == len(set(found)) == 50 * len(sample.pieces)
    assert sample.share == pytest.approx(len(sample.pieces) / 40)
    assert {number // 1000 for number in found} == {0, 1}
