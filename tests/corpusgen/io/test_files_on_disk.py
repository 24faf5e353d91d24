"""`LocalFiles`: interrupted writes, full and broken disks, and what is in the way."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corpusgen.errors import StoreError, StoreUnavailableError
from corpusgen.io.files import LocalFiles, open_files
from tests.corpusgen.store.support import names, unfinished
from tests.testing.privileges import bound_by_permissions, public_folder


@pytest.fixture
def local(tmp_path: Path) -> LocalFiles:
    return LocalFiles(str(tmp_path / "store"))


def test_local_paths_can_be_path_objects_or_below_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert open_files(tmp_path / "store").url == open_files("~/store").url == str(tmp_path / "store")


@contextmanager
def failing_fsync(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> Iterator[None]:
    def fail(descriptor: int) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        yield


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize("method", ["write", "create"])
def test_a_killed_write_is_listed_only_as_unfinished(local: LocalFiles, method: str):
    local.write("folder/file", b"before")
    script = f"""
import os, signal
from corpusgen.io.files import LocalFiles
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
LocalFiles({local.url!r}).{method}("folder/file", b"after")
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)

    assert killed.returncode == -signal.SIGKILL
    assert local.read("folder/file") == b"before"
    assert names(local, "folder") == ["folder/file"]
    [left] = unfinished(local, "folder")
    local.delete(left)
    assert unfinished(local, "folder") == []
    assert names(local, "folder") == ["folder/file"]


@pytest.mark.parametrize("method", ["write", "create"])
def test_an_interrupted_write_leaves_nothing_behind(local: LocalFiles, monkeypatch: pytest.MonkeyPatch, method: str):
    local.write("folder/file", b"before")
    with failing_fsync(monkeypatch, KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        getattr(local, method)("folder/file", b"after")

    assert local.read("folder/file") == b"before"
    assert unfinished(local, "folder") == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_explained_and_leaves_nothing_behind(
    local: LocalFiles, monkeypatch: pytest.MonkeyPatch, number: int
):
    local.write("folder/file", b"before")
    explained = pytest.raises(StoreError, match=r"no space left to write .*folder; free some and run the same command")
    with failing_fsync(monkeypatch, os_error(number)), explained:
        local.write("folder/file", b"after")

    assert local.read("folder/file") == b"before"
    assert unfinished(local, "folder") == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_disk_that_does_not_answer_may_answer_later(local: LocalFiles, monkeypatch: pytest.MonkeyPatch, number: int):
    explained = pytest.raises(StoreUnavailableError, match="folder does not answer")
    with failing_fsync(monkeypatch, os_error(number)), explained:
        local.write("folder/file", b"x")


def in_own_mount_namespace(mount: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with a mount that nobody else sees and that ends with the process."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare is absent")
    prefix = [unshare, "--map-root-user", "--mount", "sh", "-ec"]
    folder.mkdir(exist_ok=True)
    if subprocess.run([*prefix, f"{mount} '{folder}'"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount")
    run = f"{mount} '{folder}'; exec '{sys.executable}' -c \"$CODE\" '{folder}'"
    environment = {**os.environ, "CODE": textwrap.dedent(code), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([*prefix, run], capture_output=True, text=True, check=False, env=environment)


def test_a_really_full_disk_keeps_what_was_committed_and_works_again_after_freeing(tmp_path: Path):
    code = """
        import os, sys
        from corpusgen.errors import StoreError
        from corpusgen.io.files import LocalFiles

        files = LocalFiles(sys.argv[1])
        files.write("folder/first", b"x" * 40_000)
        for method in (files.write, files.create):
            try:
                method("folder/second", b"x" * 40_000)
            except StoreError as error:
                print(error)
        print([info.path for info in files.list("folder")], list(files.list_unfinished("folder")))
        files.delete("folder/first")
        files.write("folder/second", b"x" * 40_000)
        print(len(files.read("folder/second")))
    """
    done = in_own_mount_namespace("mount -t tmpfs -o size=64k none", code, tmp_path / "disk")

    assert not done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all("no space left to write" in line and "run the same command again" in line for line in lines[:2])
    assert lines[2:] == ["['folder/first'] []", "40000"]


def test_a_read_only_disk_is_explained(tmp_path: Path):
    code = """
        import sys
        from corpusgen.errors import StoreError
        from corpusgen.io.files import LocalFiles

        for path in ("file", "folder/file"):
            try:
                LocalFiles(sys.argv[1]).write(path, b"x")
            except StoreError as error:
                print(error)
    """
    done = in_own_mount_namespace("mount -t tmpfs -o ro none", code, tmp_path / "disk")

    assert not done.returncode, done.stderr
    assert done.stdout.count("cannot write to") == done.stdout.count("Read-only file system") == 2


def test_a_folder_without_permission_is_explained():
    with public_folder() as root:
        local = LocalFiles(str(root))
        local.write("folder/file", b"x")
        (root / "folder").chmod(0o500)

        with bound_by_permissions(), pytest.raises(StoreError, match=r"cannot write to .*folder: Permission denied"):
            local.write("folder/other", b"x")


@pytest.mark.parametrize("in_the_way", ["store", "store/folder", "store/folder/sub"])
@pytest.mark.parametrize("method", ["write", "create"])
def test_a_file_in_the_way_of_a_folder_is_explained(local: LocalFiles, tmp_path: Path, in_the_way: str, method: str):
    obstacle = tmp_path / in_the_way
    obstacle.parent.mkdir(parents=True, exist_ok=True)
    obstacle.write_text("I was here first")

    with pytest.raises(StoreError, match=r"cannot write to .*sub: a file or folder with that name is in the way"):
        getattr(local, method)("folder/sub/file", b"x")
    assert obstacle.read_text() == "I was here first"


def test_a_folder_in_the_way_of_a_file_is_explained_and_leaves_nothing_behind(local: LocalFiles, tmp_path: Path):
    (tmp_path / "store/folder/file").mkdir(parents=True)

    with pytest.raises(StoreError):
        local.write("folder/file", b"x")
    assert unfinished(local, "folder") == []


def test_a_root_that_is_a_file_is_explained_to_readers_too(tmp_path: Path):
    (tmp_path / "store").write_text("not a store")
    files = LocalFiles(str(tmp_path / "store"))

    with pytest.raises((StoreError, FileNotFoundError)):
        files.read("corpus.json")
    assert names(files, "folder") == []


@pytest.mark.parametrize("said", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EMLINK])
def test_a_disk_without_hard_links_is_refused_with_a_way_out(
    local: LocalFiles, monkeypatch: pytest.MonkeyPatch, said: int
):
    def no_links(source: str, target: str) -> None:
        raise os_error(said)

    monkeypatch.setattr(os, "link", no_links)  # FAT says EPERM, others what they like
    with pytest.raises(StoreError, match=r"no hard links.*another disk or on S3"):
        local.create("folder/file", b"x")

    assert names(local, "folder") == unfinished(local, "folder") == []


@pytest.mark.parametrize("said", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
@pytest.mark.parametrize("what", ["write", "create"])
def test_a_disk_that_cannot_promise_durability_is_refused_with_a_way_out(
    local: LocalFiles, monkeypatch: pytest.MonkeyPatch, said: int, what: str
):
    with (
        failing_fsync(monkeypatch, os_error(said)),
        pytest.raises(StoreError, match=r"files survive a power failure \(fsync: .*another disk or S3"),
    ):
        getattr(local, what)("folder/file", b"x")
    assert unfinished(local, "folder") == []


@pytest.mark.parametrize("said", [errno.ENAMETOOLONG, errno.EBUSY, errno.ENXIO, errno.EFBIG])
def test_whatever_a_disk_says_is_told_with_the_path(local: LocalFiles, monkeypatch: pytest.MonkeyPatch, said: int):
    with (
        failing_fsync(monkeypatch, os_error(said)),
        pytest.raises(StoreError, match=f"cannot write to {local.url}/folder: {os.strerror(said)}"),
    ):
        local.write("folder/file", b"x")


def test_what_may_not_be_read_listed_or_removed_is_named():
    with public_folder() as folder:
        local = LocalFiles(str(folder / "store"))
        local.write("folder/file", b"x")
        Path(local.url, "folder/file").chmod(0)
        Path(local.url, "folder").chmod(0o555)
        with bound_by_permissions():
            with pytest.raises(StoreError, match=r"cannot read .*/folder/file: Permission denied"):
                local.read("folder/file")
            with pytest.raises(StoreError, match=r"cannot remove .*/folder/file: Permission denied"):
                local.delete("folder/file")
        Path(local.url, "folder").chmod(0)
        with bound_by_permissions(), pytest.raises(StoreError, match=r"cannot list .*/folder: Permission denied"):
            list(local.list("folder"))


def test_a_file_system_that_is_read_only_is_named(tmp_path: Path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", tmp_path], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with pytest.raises(StoreError, match=f"cannot write to {tmp_path}/store.*: Read-only file system"):
            LocalFiles(str(tmp_path / "store")).write("file", b"x")
    finally:
        subprocess.run(["umount", tmp_path], check=True)
