"""Multistream dumps: a damaged stream costs only itself, and no line takes more memory than one may."""

import bz2
import subprocess
import sys

import pytest

from corpusgen.errors import ConfigError
from corpusgen.sources import streams
from corpusgen.sources.multistream import multistream_records
from corpusgen.sources.readers import MediaWikiPages, mediawiki_slices
from corpusgen.sources.streams import Problem
from tests.corpusgen.sources.support import run, source

PAGE = "<page>\n<title>T{0}</title><ns>0</ns><id>{0}</id><revision><id>1</id><text>{1}</text></revision>\n</page>\n"
MARKS = (b"<page>", b"</page>")


def stream(first, number=10, size=500):
    return bz2.compress(
        "".join(PAGE.format(n, f"word{n} " * (size // 8)) for n in range(first, first + number)).encode()
    )


def dump(folder, *parts):
    """A dump of a header and these streams; the index names each."""
    head = bz2.compress(b"<mediawiki>\n")
    starts = [len(head) + sum(map(len, parts[:n])) for n in range(len(parts))]
    path = folder / "x-multistream.xml.bz2"
    path.write_bytes(b"".join([head, *parts]))
    index = "".join(f"{start}:1:x\n" for start in starts)
    (folder / "x-multistream-index.txt.bz2").write_bytes(bz2.compress(index.encode()))
    return path, starts


def damaged(data, offset):
    return data[:offset] + bytes([data[offset] ^ 0x10]) + data[offset + 1 :]


@pytest.mark.parametrize("unit_bytes", [1, 1 << 30])
@pytest.mark.parametrize("offset", [0, 3, 5, 60, -60, -2], ids=str)
def test_a_damaged_stream_costs_only_itself(tmp_path, unit_bytes, offset):
    good = [stream(first) for first in (0, 10, 20, 30)]
    bad = damaged(good[1], offset % len(good[1]))
    path, starts = dump(tmp_path, good[0], bad, *good[2:])
    rows, _, quarantined = run(MediaWikiPages(), mediawiki_slices([str(path)], unit_bytes))
    articles = [int(row["article"]) for row in rows]
    assert [n for n in articles if not 10 <= n < 20] == [*range(10), *range(20, 40)]
    assert all(row["text"] == f"word{row['article']} " * (500 // 8) for row in rows)
    assert [entry["record"]["offset"] for entry in quarantined] == [starts[1]]
    assert "the stream that starts here is damaged or cut off" in quarantined[0]["error"]


def test_several_damaged_streams_are_told_each_with_its_offset(tmp_path):
    parts = [stream(10 * n) for n in range(8)]
    for n in (1, 2, 5):
        parts[n] = damaged(parts[n], 70)
    parts[7] = parts[7][:-20]
    path, starts = dump(tmp_path, *parts)
    rows, _, quarantined = run(MediaWikiPages(), mediawiki_slices([str(path)], 1 << 30))
    assert {int(row["article"]) // 10 for row in rows} == {0, 3, 4, 6}
    assert [entry["record"]["offset"] for entry in quarantined] == [starts[n] for n in (1, 2, 5, 7)]


def test_a_page_that_a_stream_does_not_end_is_told_with_its_stream(tmp_path):
    cut = bz2.compress(PAGE.format(5, "x").encode()[:60])
    path, starts = dump(tmp_path, stream(0), cut, stream(20))
    rows, _, quarantined = run(MediaWikiPages(), mediawiki_slices([str(path)], 1 << 30))
    assert [int(row["article"]) for row in rows] == [*range(10), *range(21, 30)]  # the line goes on into the next
    assert [entry["record"]["offset"] for entry in quarantined] == [starts[1]]


def test_a_record_is_named_by_its_stream(tmp_path):
    parts = [stream(10 * n, 3) for n in range(5)]
    path, starts = dump(tmp_path, *parts)
    found = list(multistream_records(source(path), starts[0], path.stat().st_size, *MARKS))
    assert [offset for offset, _ in found] == [start for start in starts for _ in range(3)]


def test_a_line_that_is_too_long_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_RECORD", 10_000)
    long = bz2.compress((PAGE.format(1, "x" * 50_000) + PAGE.format(2, "good")).encode())
    path, starts = dump(tmp_path, long)
    problem, (_, data) = multistream_records(source(path), starts[0], path.stat().st_size, *MARKS)
    assert problem == Problem(starts[0], "a line of more than 0 MB")
    assert b"good" in data


def test_a_long_line_takes_bounded_memory(tmp_path):
    """Of 400 MB in one line, out of a few hundred bytes."""
    packer = bz2.BZ2Compressor()
    text = [b"<page>\n", *[b"x" * (1 << 20)] * 400, b"\n"]
    packed = [*map(packer.compress, text), packer.flush()]
    path, _ = dump(tmp_path, b"".join(packed), stream(7, 1))
    code = f"""
import resource
from corpusgen.sources.readers import MediaWikiPages, mediawiki_slices
import pyarrow as pa
(slice_,) = mediawiki_slices([{str(path)!r}], 1 << 30)
table = pa.Table.from_pylist(slice_)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = MediaWikiPages().process(table)
assert result.rows["article"].to_pylist() == ["7"], result.rows
assert len(result.quarantined) == 1, result.quarantined
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 220 << 10  # kB: the longest line that is taken, some times over


def test_a_multistream_dump_on_s3(s3_root, s3_server, tmp_path):
    from corpusgen.io.files import open_files

    path, starts = dump(tmp_path, stream(0), damaged(stream(10), 70), stream(20))
    files = open_files(s3_root)
    for name in ("x-multistream.xml.bz2", "x-multistream-index.txt.bz2"):
        files.write(f"in/{name}", (tmp_path / name).read_bytes())
    rows, _, quarantined = run(MediaWikiPages(), mediawiki_slices([f"{s3_root}/in/{path.name}"], 1 << 30))
    assert [int(row["article"]) for row in rows] == [*range(10), *range(20, 30)]
    assert [entry["record"]["offset"] for entry in quarantined] == [starts[1]]


def test_an_index_without_the_first_pages_is_refused(tmp_path):
    path, starts = dump(tmp_path, stream(0), stream(10), stream(20))
    (tmp_path / "x-multistream-index.txt.bz2").write_bytes(bz2.compress(f"{starts[1]}:1:x\n".encode()))
    with pytest.raises(ConfigError, match=r"index\.txt\.bz2 does not name the first pages of .*download it again"):
        mediawiki_slices([str(path)], 1)
