"""The contract of `Files`, on a disk and on S3: everything above relies on nothing else."""

from __future__ import annotations

import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from corpusgen.errors import StoreError
from corpusgen.io.files import Files, open_files
from tests.corpusgen.store.support import names, unfinished

RACERS = 16


@pytest.fixture
def files(root: str) -> Files:
    return open_files(root)


def test_a_store_that_does_not_exist_yet_is_empty(files: Files):
    assert names(files, "folder") == []
    assert unfinished(files, "folder") == []
    assert not files.exists("folder/file")


def test_reading_a_missing_file_raises_file_not_found(files: Files):
    files.write("folder/other", b"x")

    with pytest.raises(FileNotFoundError, match="folder/file"):
        files.read("folder/file")
    with pytest.raises(FileNotFoundError, match="folder/file"):
        list(files.read_many(["folder/other", "folder/file"]))
    with pytest.raises(FileNotFoundError, match="folder/file"):
        files.open("folder/file")


@pytest.mark.parametrize("data", [b"", b"some bytes", bytes(range(256)) * 4096])
def test_what_was_written_is_read(files: Files, data: bytes):
    files.write("folder/file", data)

    assert files.exists("folder/file")
    assert files.read("folder/file") == data


def test_an_arrow_buffer_is_written_as_its_bytes(files: Files):
    files.write("folder/file", pa.py_buffer(b"some bytes"))

    assert files.read("folder/file") == b"some bytes"


def test_blocks_become_one_file(files: Files):
    files.write("folder/file", b"old")
    files.write_blocks("folder/file", (bytes([number]) * 1000 for number in range(256)))
    assert files.read("folder/file") == b"".join(bytes([number]) * 1000 for number in range(256))
    files.write_blocks("folder/empty", [])
    assert files.read("folder/empty") == b""


def test_a_file_whose_blocks_end_in_an_error_leaves_the_old_one(files: Files):
    def blocks():
        yield b"new"
        raise ValueError("no more")

    files.write("folder/file", b"old")
    with pytest.raises(ValueError, match="no more"):
        files.write_blocks("folder/file", blocks())
    assert files.read("folder/file") == b"old"
    assert (names(files, "folder"), unfinished(files, "folder")) == (["folder/file"], [])


def test_write_replaces_what_was_there(files: Files):
    files.write("folder/file", b"a long first version")
    files.write("folder/file", b"second")

    assert files.read("folder/file") == b"second"
    assert names(files, "folder") == ["folder/file"]


def test_create_leaves_what_is_there_as_it_is(files: Files):
    assert files.create("folder/file", b"first")
    assert not files.create("folder/file", b"second")

    assert files.read("folder/file") == b"first"
    assert names(files, "folder") == ["folder/file"]
    assert unfinished(files, "folder") == []


def test_create_does_not_replace_what_was_written(files: Files):
    files.write("folder/file", b"written")

    assert not files.create("folder/file", b"created")
    assert files.read("folder/file") == b"written"


def test_a_deleted_file_can_be_created_again(files: Files):
    files.create("folder/file", b"first")
    files.delete("folder/file")

    assert files.create("folder/file", b"second")
    assert files.read("folder/file") == b"second"


def test_of_many_concurrent_creators_exactly_one_wins(files: Files):
    barrier = threading.Barrier(RACERS)

    def race(racer: int) -> bool:
        barrier.wait()
        return files.create("folder/file", b"racer %d" % racer)

    with ThreadPoolExecutor(RACERS) as pool:
        won = list(pool.map(race, range(RACERS)))

    assert won.count(True) == 1
    assert files.read("folder/file") == b"racer %d" % won.index(True)
    assert names(files, "folder") == ["folder/file"]


def test_list_gives_the_files_directly_in_a_folder_in_the_order_of_their_names(files: Files):
    for path in ("folder/b", "folder/a", "folder/a-1", "folder/B", "folder/é", "folder/sub/c", "folder2/d"):
        files.write(path, path.encode())

    infos = list(files.list("folder"))

    assert [info.path for info in infos] == [f"folder/{name}" for name in ("B", "a", "a-1", "b", "é")]
    assert [info.size for info in infos] == [len(info.path.encode()) for info in infos]
    assert all(abs(info.modified - time.time()) < 3600 for info in infos)


def test_more_files_are_listed_than_fit_on_a_page(files: Files):
    expected = [f"folder/{number:04}" for number in range(1_050)]  # a page of S3 has 1,000
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda path: files.create(path, b"x"), reversed(expected)))

    assert names(files, "folder") == expected


def test_deleting_what_is_gone_is_no_error(files: Files):
    files.write("folder/file", b"x")
    files.delete("folder/file")
    files.delete("folder/file")
    files.delete("elsewhere/file")

    assert not files.exists("folder/file")
    assert names(files, "folder") == []


def test_a_folder_is_not_a_file(files: Files):
    files.write("folder/file", b"x")

    assert not files.exists("folder")


def test_open_reads_at_any_position(files: Files):
    data = os.urandom(1 << 16)
    files.write("folder/file", data)

    with files.open("folder/file") as file:
        assert file.size() == len(data)
        file.seek(50_000)
        assert file.read(10) == data[50_000:50_010]
        assert file.read_at(20, 3) == data[3:23]
        file.seek(-5, os.SEEK_END)
        assert file.read() == data[-5:]


def test_read_many_keeps_the_order_asked_for(files: Files):
    for number in range(50):
        files.write(f"folder/{number}", b"%d" % number)
    order = [(number * 17) % 50 for number in range(50)]

    assert list(files.read_many(f"folder/{number}" for number in order)) == [b"%d" % n for n in order]


def test_read_many_of_nothing_is_nothing(files: Files):
    assert list(files.read_many([])) == []


def test_it_works_after_pickling(files: Files):
    files.write("folder/file", b"before")  # so that a client exists, which cannot be pickled

    copy = pickle.loads(pickle.dumps(files))
    copy.write("folder/copy", b"after")

    assert copy.url == files.url
    assert copy.read("folder/file") == b"before"
    assert files.read("folder/copy") == b"after"


def test_the_url_leads_to_the_same_files(files: Files):
    files.write("folder/file", b"x")

    assert open_files(files.url).read("folder/file") == b"x"


def test_other_kinds_of_urls_are_refused():
    with pytest.raises(StoreError, match=r"gs://bucket/x.*only local folders and s3://"):
        open_files("gs://bucket/x")
