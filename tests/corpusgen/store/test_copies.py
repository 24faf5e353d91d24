"""Copies within a store, on a disk and on S3: whole or not at all, and without moving the bytes where that can be."""

from __future__ import annotations

import errno
import os

import pytest

from corpusgen.errors import StoreError
from corpusgen.io.files import Files, LocalFiles, open_files
from tests.corpusgen.store.support import names, unfinished


@pytest.fixture
def files(root: str) -> Files:
    return open_files(root)


def test_a_copy_has_the_same_bytes_and_outlives_its_source(files: Files):
    data = os.urandom(100_000)
    files.write("folder/last", data)
    files.copy("folder/last", "elsewhere/previous")
    files.write("folder/last", b"new")

    assert files.read("elsewhere/previous") == data
    assert files.read("folder/last") == b"new"


def test_a_copy_replaces_what_was_there_and_leaves_nothing_else_behind(files: Files):
    for content in (b"first", b"second", b"third"):
        files.write("folder/last", content)
        files.copy("folder/last", "folder/previous")
        files.copy("folder/last", "folder/previous")  # both are the same file already

        assert files.read("folder/previous") == content
    assert names(files, "folder") == ["folder/last", "folder/previous"]
    assert unfinished(files, "folder") == []


def test_a_missing_source_is_named_and_the_target_stays(files: Files):
    files.write("folder/previous", b"old")
    with pytest.raises(FileNotFoundError, match="folder/last"):
        files.copy("folder/last", "folder/previous")
    assert files.read("folder/previous") == b"old"


def test_neither_name_may_lead_out(files: Files):
    files.write("folder/last", b"x")
    for source, target in (("../outside", "folder/y"), ("folder/last", "../outside")):
        with pytest.raises(StoreError, match="points outside"):
            files.copy(source, target)


def test_on_a_disk_no_bytes_are_moved(tmp_path):
    files = LocalFiles(str(tmp_path))
    files.write("last", b"x")
    files.copy("last", "previous")
    assert (tmp_path / "previous").stat().st_ino == (tmp_path / "last").stat().st_ino


def test_on_a_disk_without_links_the_bytes_are_copied(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    files = LocalFiles(str(tmp_path))
    files.write("last", b"x")
    monkeypatch.setattr(os, "link", refuse)
    files.copy("last", "previous")
    assert (tmp_path / "previous").read_bytes() == b"x"
    assert (tmp_path / "previous").stat().st_ino != (tmp_path / "last").stat().st_ino
