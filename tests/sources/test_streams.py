"""Records out of files: every record once wherever the ranges are cut, and the good part of bad files."""

import bz2
import gzip
import lzma

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.sources import streams
from corpusgen.sources.locate import find_files
from corpusgen.sources.streams import TO_THE_END, Problem, byte_ranges, read_records

COMPRESS = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def read_all(path, unit_bytes, **markers):
    file = find_files([str(path)])[0]
    return [
        record
        for start, stop in byte_ranges(file, unit_bytes)
        for record in read_records(str(path), start, stop, **markers)
    ]


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("unit_bytes", [1, 3, 7, 1000])
def test_every_line_is_read_once_wherever_the_ranges_are_cut(tmp_path, suffix, unit_bytes):
    lines = [b"a\n", b"\n", b"bcd\n", "grüße\n".encode(), b"x" * 20 + b"\n", b"no newline at the end"]
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](b"".join(lines)))
    records = read_all(path, unit_bytes)
    assert [data for _, data in records] == lines
    offsets = [sum(map(len, lines[:number])) for number in range(len(lines))]
    assert [offset for offset, _ in records] == offsets


@given(
    lines=st.lists(st.sampled_from([b"<doc 1>", b"</doc>", b"x", b"", b"  <doc 2>", b"text </doc>"]), max_size=30),
    unit_bytes=st.integers(1, 40),
)
def test_marked_records_do_not_depend_on_how_the_ranges_are_cut(tmp_path_factory, lines, unit_bytes):
    path = tmp_path_factory.mktemp("docs") / "docs"
    path.write_bytes(b"\n".join(lines))
    markers = {"begins": b"<doc ", "ends": b"</doc>"}
    whole = [r for r in read_records(str(path), 0, TO_THE_END, **markers) if not isinstance(r, Problem)]
    # A range that is cut inside a record may not begin a second one there: nested openings are the only ambiguity.
    if all(data.count(b"<doc ") == 1 for _, data in whole):
        assert [r for r in read_all(path, unit_bytes, **markers) if not isinstance(r, Problem)] == whole


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_of_a_truncated_archive_the_good_part_is_kept_and_the_rest_reported(tmp_path, suffix):
    lines = [f"line {number} {'abcdefghij' * (number % 7)}\n".encode() for number in range(200_000)]
    data = COMPRESS[suffix](b"".join(lines))
    path = tmp_path / f"text{suffix}"
    path.write_bytes(data[: len(data) // 2])
    *records, problem = read_all(path, 1 << 30)
    assert isinstance(problem, Problem)
    assert "damaged or cut off" in problem.error
    assert records
    assert [data for _, data in records[:-1]] == lines[: len(records) - 1]


def test_a_line_that_is_too_long_is_reported_and_the_next_one_read(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_RECORD", 1000)
    path = tmp_path / "text"
    path.write_bytes(b"before\n" + b"x" * 5500 + b"\nafter\n")
    before, problem, after = read_all(path, 1 << 30)
    assert before == (0, b"before\n")
    assert problem == Problem(7, "a line of more than 0 MB")
    assert after == (5508, b"after\n")


def test_a_file_that_ends_inside_a_record_is_reported(tmp_path):
    path = tmp_path / "docs"
    path.write_bytes(b"<doc 1>\nx\n</doc>\n<doc 2>\ny\n")
    record, problem = read_all(path, 1 << 30, begins=b"<doc ", ends=b"</doc>")
    assert record == (0, b"<doc 1>\nx\n</doc>\n")
    assert problem == Problem(17, "the file ends inside this record")


def test_the_next_range_of_a_compressed_file_goes_on_where_the_last_one_ended(tmp_path, monkeypatch):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"0123456789\n" * 1000))
    opened = []
    real = streams.open_binary
    monkeypatch.setattr(streams, "open_binary", lambda path: opened.append(path) or real(path))
    for start in range(0, 11_000, 1100):
        assert len(list(read_records(str(path), start, start + 1100))) == 100
    assert len(opened) == 1


def test_what_lies_between_two_ranges_of_a_plain_file_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_bytes(b"0123456\n" * 1000)
    file = path.open("rb")
    monkeypatch.setattr(streams, "open_binary", lambda _: file)
    monkeypatch.setattr(streams, "_kept", [])
    assert len(list(read_records(str(path), 0, 8))) == 1
    file.seek = lambda to: sought.append(to) or type(file).seek(file, to)
    sought = []
    assert [offset for offset, _ in read_records(str(path), 7200, 7216)] == [7200, 7208]
    assert sought == [7199]
