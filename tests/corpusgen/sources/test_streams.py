"""Records out of files: every record once wherever the ranges are cut, and the good part of bad files."""

import gzip

import pytest

from corpusgen.sources import locate, streams
from corpusgen.sources.streams import Problem, read_records
from tests.corpusgen.sources.support import COMPRESS, read_all, source


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
    for unit_bytes in (1 << 30, 100, 7):
        before, problem, after = read_all(path, unit_bytes)
        assert before == (0, b"before\n")
        assert problem == Problem(7, "a line of more than 0 MB")
        assert after == (5508, b"after\n")


def test_a_line_that_is_too_long_costs_the_record_that_it_is_in(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_RECORD", 1000)
    path = tmp_path / "docs"
    path.write_bytes(b"<doc 1>\n" + b"x" * 1500 + b"\n</doc>\n<doc 2>\n</doc>\n")
    for unit_bytes in (1 << 30, 100, 7):
        problem, record = read_all(path, unit_bytes, begins=b"<doc ", ends=b"</doc>")
        assert problem == Problem(0, "a line of more than 0 MB")
        assert record == (1516, b"<doc 2>\n</doc>\n")


def test_a_file_that_ends_inside_a_record_is_reported(tmp_path):
    path = tmp_path / "docs"
    path.write_bytes(b"<doc 1>\nx\n</doc>\n<doc 2>\ny\n")
    record, problem = read_all(path, 1 << 30, begins=b"<doc ", ends=b"</doc>")
    assert record == (0, b"<doc 1>\nx\n</doc>\n")
    assert problem == Problem(17, "the text ends inside this record")


def test_a_record_without_an_end_costs_only_itself(tmp_path):
    path = tmp_path / "docs"
    path.write_bytes(b"<doc 1>\nx\n<doc 2>\ny\n</doc>\n")
    for unit_bytes in (1 << 30, 11, 3):
        problem, record = read_all(path, unit_bytes, begins=b"<doc ", ends=b"</doc>")
        assert problem == Problem(0, "the record that starts here does not end before the next one starts")
        assert record == (10, b"<doc 2>\ny\n</doc>\n")


@pytest.fixture
def opened(monkeypatch):
    """The paths that were opened, in order."""
    paths = []
    real = locate.open_binary
    monkeypatch.setattr(locate, "open_binary", lambda path: paths.append(path) or real(path))
    return paths


def test_the_next_range_of_a_compressed_file_goes_on_where_the_last_one_ended(tmp_path, opened):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"0123456789\n" * 1000))
    for start in range(0, 11_000, 1100):
        assert len(list(read_records(source(path), start, start + 1100))) == 100
    assert len(opened) == 1


def test_a_line_over_many_ranges_is_not_read_once_for_each(tmp_path, monkeypatch):
    (tmp_path / "text").write_bytes(b"x" * 1_000_000 + b"\nlast")
    taken = []
    real = locate._Bytes.readinto
    monkeypatch.setattr(locate, "_LOCAL_BUFFER", 100)
    monkeypatch.setattr(locate._Bytes, "readinto", lambda *args: taken.append(real(*args)) or taken[-1])
    assert len(read_all(tmp_path / "text", 10_000)) == 2
    assert sum(taken) < 3_100_000  # once by its own range, once by the others, and some at each entry


def test_what_lies_between_two_ranges_of_a_plain_file_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_bytes(b"0123456\n" * 1000)
    monkeypatch.setattr(locate, "_LOCAL_BUFFER", 16)
    monkeypatch.setattr(streams, "_kept", [])
    offsets = []
    real = locate._Bytes.readinto
    monkeypatch.setattr(locate._Bytes, "readinto", lambda self, to: offsets.append(self.tell()) or real(self, to))
    assert len(list(read_records(source(path), 0, 8))) == 1
    assert [offset for offset, _ in read_records(source(path), 7200, 7216)] == [7200, 7208]
    assert not [offset for offset in offsets if 32 < offset < 7184]
