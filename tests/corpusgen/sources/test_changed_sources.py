"""A file that is not the planned one any more stops the build, whatever it has become and whenever."""

import bz2
import gzip
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.errors import SourceChangedError, StoreUnavailableError
from corpusgen.io.files import open_files
from corpusgen.sources import locate
from corpusgen.sources.kinds import source_kind
from corpusgen.sources.locate import OpenSource
from corpusgen.sources.readers import MediaWikiPages, ParquetRows, PlainText
from corpusgen.sources.streams import read_records
from corpusgen.store import Store
from tests.corpusgen.sources.support import source

PAGE = "<page>\n<title>T</title><ns>0</ns><id>{0}</id><revision><id>1</id><text>{0}</text></revision>\n</page>\n"


def plain(folder):
    (folder / "a.txt").write_bytes(b"".join(b"A line of text, with number %05d\n" % n for n in range(4000)))
    return folder / "a.txt", "text", PlainText()


def packed(folder):
    (folder / "a.txt.gz").write_bytes(gzip.compress(plain(folder)[0].read_bytes()))
    return folder / "a.txt.gz", "text", PlainText()


def dump(folder):
    (folder / "a.xml").write_text("".join(PAGE.format(n) for n in range(2000)))
    return folder / "a.xml", "mediawiki", MediaWikiPages()


def multistream(folder):
    streams = [bz2.compress("".join(PAGE.format(n) for n in range(100 * k, 100 * k + 100)).encode()) for k in range(20)]
    path = folder / "x-multistream.xml.bz2"
    path.write_bytes(b"".join(streams))
    index = "".join(f"{sum(map(len, streams[:k]))}:1:x\n" for k in range(20))
    (folder / "x-multistream-index.txt.bz2").write_bytes(bz2.compress(index.encode()))
    return path, "mediawiki", MediaWikiPages()


def parquet(folder):
    pq.write_table(pa.table({"text": [f"Row {n}." for n in range(2000)]}), folder / "a.parquet", row_group_size=200)
    return folder / "a.parquet", "parquet", ParquetRows()


KINDS = [plain, packed, dump, multistream, parquet]


def cut_off(path):
    os.truncate(path, path.stat().st_size // 3)


def append(path):
    with path.open("ab") as file:
        file.write(path.read_bytes())


def replace(path):
    """By another one of the same size."""
    other = path.with_name("other")
    shutil.copy(path, other)
    os.utime(other, ns=(0, path.stat().st_mtime_ns + 1))
    other.rename(path)


def remove(path):
    path.unlink()


def refuse(path):
    """What a process without rights sees; the tests may run as one that has all."""
    path.unlink()
    path.mkdir()


CHANGES = [cut_off, append, replace, remove, refuse]


def process(stage, records):
    return run_stage(stage, Batch(pa.Table.from_pylist(records)))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_changed_after_it_was_planned_is_refused(tmp_path, kind, change):
    path, name, stage = kind(tmp_path)
    slices = source_kind(name).slices([str(path)], 2000)
    assert len(slices) > 2
    process(stage, slices[0])
    change(path)
    for records in (slices[1], slices[-1], slices[0]):
        with pytest.raises(SourceChangedError, match=rf"{path.name} .*run the same command again"):
            process(stage, records)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [False, True], ids=["the first range", "a later range"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, kind, change, again, monkeypatch):
    """Between the look at it and the first byte."""
    path, name, stage = kind(tmp_path)
    slices = source_kind(name).slices([str(path)], 2000)
    if again:
        process(stage, slices[0])
    real, looks = OpenSource.check, []

    def check(self):
        real(self)
        looks.append(self.planned.path)
        if len(looks) == 1:
            change(path)

    monkeypatch.setattr(OpenSource, "check", check)
    with pytest.raises(SourceChangedError, match=path.name):
        process(stage, slices[1])
    assert looks == [str(path)]


@pytest.mark.parametrize("change", [cut_off, append])
def test_nothing_of_a_unit_that_was_read_from_a_changed_file_is_committed(tmp_path, change):
    path = tmp_path / "a.txt"
    sentence = "The {} of the old town had been closed for years when the new owner came and opened it again.\n"
    path.write_text("".join(sentence.format(f"house{n}") for n in range(400)))
    settings = {
        "store": str(tmp_path / "store"),
        "source": {"kind": "text", "paths": [str(path)], "unit_bytes": 4000},
        "language": {"identify": False},
        "sample": {"size": 10, "vocabulary": 100},
    }
    real, reads = locate._Bytes.readinto, []

    def readinto(self, to):
        reads.append(1)
        if len(reads) == 30:
            change(path)
        return real(self, to)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locate, "_LOCAL_BUFFER", 1000)
        patch.setattr(locate._Bytes, "readinto", readinto)
        before, status = path.read_bytes(), path.stat()
        with pytest.raises(SourceChangedError, match=r"a\.txt has changed since this .*: it has .* bytes"):
            build(BuildConfig.model_validate(settings), LocalExecutor(), until="harvest")
    path.write_bytes(before)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    build(BuildConfig.model_validate(settings), LocalExecutor(), until="harvest")
    texts = [row["text"] for row in _sentences(settings["store"])]
    assert sorted(texts) == sorted(sentence.format(f"house{n}").strip() for n in range(400))


def _sentences(root):
    from corpusgen.store import CommittedTable

    return CommittedTable(Store.at(root), "harvest", "sentences").to_table().to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_may_not_be_opened_stops_the_build_with_its_name(tmp_path, kind, monkeypatch):
    path, name, stage = kind(tmp_path)
    slices = source_kind(name).slices([str(path)], 2000)

    def refused(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(locate, "open_binary", refused)
    with pytest.raises(SourceChangedError, match=rf"cannot read .*{path.name} on .*: Permission denied"):
        process(stage, slices[1])


def test_a_kept_stream_of_a_file_is_not_used_for_another_one_of_that_name(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"One.\nTwo.\n"))
    assert list(read_records(source(path), 0, 5)) == [(0, b"One.\n")]
    path.write_bytes(gzip.compress(b"Uno.\nDos.\nTres.\n"))
    assert [data for _, data in read_records(source(path), 5, 100)] == [b"Dos.\n", b"Tres.\n"]


def test_streams_that_are_not_kept_are_closed(tmp_path):
    paths = [tmp_path / f"{n}.txt.gz" for n in range(5)]
    for path in paths:
        path.write_bytes(gzip.compress(b"One.\nTwo.\n" * 50))
    before = len(os.listdir("/proc/self/fd"))
    for path in paths:
        list(read_records(source(path), 0, 100))
        records = read_records(source(path), 100, 200)
        next(records)
        records.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_files_that_went_with_a_job_may_be_unpacked_again(tmp_path):
    folder = tmp_path / "runtime_resources/working_dir_files/package"
    folder.mkdir(parents=True)
    path = folder / "a.txt"
    path.write_bytes(b"One.\nTwo.\n")
    file = source(path)
    os.utime(path, ns=(1, 1))
    assert len(list(read_records(file, 0, 5))) == 1
    path.write_bytes(b"One.\nZwo.\n")
    with pytest.raises(SourceChangedError):
        list(read_records(file, 5, 10))


@pytest.fixture
def remote(s3_root, s3_server):
    files = open_files(s3_root)
    files.write("in/a.txt", b"".join(b"A line, number %05d\n" % n for n in range(1000)))
    return files, f"{s3_root}/in/a.txt"


def test_objects_on_s3_are_what_was_planned(remote):
    files, path = remote
    slices = source_kind("text").slices([path], 5000)
    assert sum(process(PlainText(), records).num_rows for records in slices) == 1000
    files.write("in/a.txt", b"".join(b"A line, number %05d\n" % n for n in range(1001)))
    with pytest.raises(SourceChangedError, match=r"a\.txt has changed since .*: it has 21,021 bytes"):
        process(PlainText(), slices[1])
    files.delete("in/a.txt")
    with pytest.raises(SourceChangedError, match=r"a\.txt no longer exists"):
        process(PlainText(), slices[1])


def test_an_object_on_s3_that_is_replaced_while_it_is_read_is_found_out_by_its_tag(remote, monkeypatch):
    """Of the same size, and in the same second."""
    files, path = remote
    slices = source_kind("text").slices([path], 5000)
    monkeypatch.setattr(locate, "_HEAD_PRECISION", 10**18)
    read = read_records(locate.SourceFile.of(slices[0][0]), 0, 5000)
    next(read)
    files.write("in/a.txt", b"".join(b"A word, number %05d\n" % n for n in range(1000)))
    with pytest.raises(SourceChangedError, match="rewritten while it was being read"):
        list(read)


def test_a_network_that_fails_in_the_middle_costs_nothing(remote, monkeypatch):
    _, path = remote
    monkeypatch.setattr(locate, "_REMOTE_BUFFER", 512)
    slices = source_kind("text").slices([path], 5000)
    real, reads, found = locate._Bytes.readinto, [], []

    def readinto(self, to):
        reads.append(1)
        if len(reads) % 25 == 3:
            self._file = _Broken(self._file)
        return real(self, to)

    monkeypatch.setattr(locate._Bytes, "readinto", readinto)
    for records in slices:
        for _ in range(5):
            try:
                batch = process(PlainText(), records)
            except StoreUnavailableError:
                continue
            assert not batch.quarantined
            found += batch.rows["text"].to_pylist()
            break
    assert len(reads) > 40
    assert found == [f"A line, number {n:05d}" for n in range(1000)]


class _Broken:
    """A file of which nothing more is read."""

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def readinto(self, to):
        raise OSError("AWS Error NETWORK_CONNECTION during GetObject")
