"""Files and folders appear whole or not at all, and nothing else stays behind."""

import os
import stat

import pytest

from corpusgen.io import atomic


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_takes_the_place_of_another(tmp_path, durable):
    target = tmp_path / "file"
    for content in ("first", "über"):
        atomic.write_text(target, content, durable)
        assert target.read_bytes() == content.encode()
        assert names(tmp_path) == ["file"]


def test_it_is_on_the_disk_before_it_is_renamed_if_that_is_asked_for(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (done.append("fsync"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replace"), replace(*names)))
    atomic.write_bytes(tmp_path / "file", b"x")
    atomic.write_bytes(tmp_path / "file", b"x", durable=True)
    assert done == ["replace", "fsync", "replace"]


def test_it_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "ordinary").touch()
    atomic.write_bytes(tmp_path / "file", b"x")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "file")}
    assert len(modes) == 1


def test_what_fails_while_it_is_written_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def fail():
        with atomic.replacing(target) as temporary:
            temporary.write_bytes(b"ne")
            assert names(tmp_path) == sorted(["file", temporary.name])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_folder_in_the_way_is_an_error_and_stays(tmp_path):
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        atomic.write_bytes(tmp_path / "file", b"x")
    assert names(tmp_path) == ["file"]


def test_two_writers_never_share_a_temporary_name(tmp_path):
    with atomic.temporary_path(tmp_path / "file") as one, atomic.temporary_path(tmp_path / "file") as other:
        assert one != other


def test_a_folder_takes_the_place_of_another(tmp_path):
    for name in ("first", "second"):
        with atomic.temporary_path(tmp_path / "folder") as temporary:
            temporary.mkdir()
            (temporary / name).touch()
            atomic.replace_folder(temporary, tmp_path / "folder")
        assert names(tmp_path) == ["folder"]
        assert names(tmp_path / "folder") == [name]


def test_an_unfinished_folder_is_removed_with_all_that_is_in_it(tmp_path):
    def fail():
        with atomic.temporary_path(tmp_path / "folder") as temporary:
            (temporary / "deep").mkdir(parents=True)
            raise ValueError("half of it")

    with pytest.raises(ValueError, match="half"):
        fail()
    assert names(tmp_path) == []


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "kept").touch()
    with pytest.raises(FileNotFoundError):
        atomic.replace_folder(tmp_path / "absent", target)
    assert names(tmp_path) == ["folder"]
    assert names(target) == ["kept"]
