"""The contract of `Files`, on a disk and on S3: everything above relies on nothing else."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from corpusgen.errors import CorpusgenError, StoreError, StoreUnavailableError
from corpusgen.store.files import Files, LocalFiles, open_files
from tests.privileges import bound_by_permissions, public_folder
from tests.s3_server import S3Server, free_ports

RACERS = 16


@pytest.fixture
def files(root: str) -> Files:
    return open_files(root)


@pytest.fixture
def local(tmp_path: Path) -> LocalFiles:
    return LocalFiles(str(tmp_path / "store"))


def names(files: Files, folder: str) -> list[str]:
    return [info.path for info in files.list(folder)]


def unfinished(files: Files, folder: str) -> list[str]:
    return [info.path for info in files.list_unfinished(folder)]


# ------------------------------------------------------------------------ both


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


def test_the_url_leads_to_the_same_place(files: Files):
    files.write("folder/file", b"x")

    assert open_files(files.url).read("folder/file") == b"x"


def test_other_kinds_of_urls_are_refused():
    with pytest.raises(StoreError, match=r"gs://bucket/x.*only local folders and s3://"):
        open_files("gs://bucket/x")


# ----------------------------------------------------------------------- local


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
from corpusgen.store.files import LocalFiles
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
    explained = pytest.raises(StoreError, match=r"no space left for .*folder; free some and run the same command")
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
        from corpusgen.store.files import LocalFiles

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
    assert all("no space left for" in line and "run the same command again" in line for line in lines[:2])
    assert lines[2:] == ["['folder/first'] []", "40000"]


def test_a_read_only_disk_is_explained(tmp_path: Path):
    code = """
        import sys
        from corpusgen.errors import StoreError
        from corpusgen.store.files import LocalFiles

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

    with pytest.raises(StoreError, match=r"cannot write to .*sub: a file or folder of that name is in the way"):
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


def test_a_disk_without_hard_links_is_refused_with_a_way_out(local: LocalFiles, monkeypatch: pytest.MonkeyPatch):
    def no_links(source: str, target: str) -> None:
        raise os_error(errno.EPERM)

    monkeypatch.setattr(os, "link", no_links)  # as FAT does
    with pytest.raises(StoreError, match=r"no hard links.*another disk or on S3"):
        local.create("folder/file", b"x")

    assert names(local, "folder") == unfinished(local, "folder") == []


# -------------------------------------------------------------------------- S3


CALLS = {
    "read": lambda files: files.read("folder/file"),
    "read_many": lambda files: list(files.read_many(["folder/file"])),
    "write": lambda files: files.write("folder/file", b"x"),
    "create": lambda files: files.create("folder/file", b"x"),
    "list": lambda files: list(files.list("folder")),
    "list_unfinished": lambda files: list(files.list_unfinished("folder")),
    "delete": lambda files: files.delete("folder/file"),
}
# S3 answers HEAD without a body, so with a bare 403 or 404: no more can be known than that access is denied.
ALL_CALLS = {**CALLS, "exists": lambda files: files.exists("folder/file")}


def errors_of(files: Files, calls=CALLS) -> dict[str, CorpusgenError]:
    """The error of each call; they all must fail, and in a way that the user understands."""
    errors = {}
    for name, call in calls.items():
        with pytest.raises(StoreError) as caught:
            call(files)
        errors[name] = caught.value
    return errors


def test_a_wrong_secret_names_the_variable_to_check(s3_root: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    files = open_files(s3_root)

    for error in errors_of(files).values():
        assert str(error) == f"{s3_root}: the secret key is wrong; check AWS_SECRET_ACCESS_KEY or the profile"
    with pytest.raises(StoreError, match="access denied; check the credentials"):
        files.exists("folder/file")


def test_an_unknown_access_key_names_the_variable_to_check(s3_root: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NOBODY")
    files = open_files(s3_root)

    for error in errors_of(files).values():
        assert str(error) == f"{s3_root}: the access key is unknown; check AWS_ACCESS_KEY_ID or the profile"
    with pytest.raises(StoreError, match="access denied; check the credentials"):
        files.exists("folder/file")


def test_credentials_that_may_only_read_name_the_rights_that_are_missing(
    s3_root: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
):
    open_files(s3_root).write("folder/file", b"x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.reader_access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.reader_secret_key)
    files = open_files(s3_root)

    assert files.read("folder/file") == b"x"
    for error in errors_of(files, {name: CALLS[name] for name in ("write", "create", "delete")}).values():
        assert str(error).startswith(f"{s3_root}: access denied; the credentials need read, write, list and")


def test_a_missing_bucket_is_named_and_the_remedy_with_it(s3_root: str):
    for error in errors_of(open_files("s3://no-such-bucket/prefix")).values():
        assert str(error) == "s3://no-such-bucket/prefix: there is no such bucket; create it first"


def test_without_credentials_the_ways_to_give_them_are_named(
    s3_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    calls = {**ALL_CALLS, "open": lambda files: files.open("folder/file")}
    for error in errors_of(open_files(s3_root), calls).values():
        assert str(error).startswith(f"{s3_root}: no credentials found; set AWS_ACCESS_KEY_ID and")


def test_a_missing_profile_is_named(s3_root: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")

    for error in errors_of(open_files(s3_root), ALL_CALLS).values():
        assert "no-such-profile" in str(error)


@pytest.fixture
def nobody_there(s3_root: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A root on a server that does not run."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    return s3_root


def test_a_server_that_was_never_reached_is_named_at_once(nobody_there: str):
    for error in errors_of(open_files(nobody_there), ALL_CALLS).values():
        assert isinstance(error, StoreUnavailableError)
        assert str(error).startswith(f"{nobody_there}: the server cannot be reached")
        assert os.environ["AWS_ENDPOINT_URL"] in str(error)


def test_a_server_that_went_away_is_waited_for_and_then_given_up(
    s3_root: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("corpusgen.store.s3._PATIENCE_SECONDS", 0.5)  # enough for one more try on a busy machine
    monkeypatch.setattr("corpusgen.store.s3._PAUSE_SECONDS", (0.5, 0.5))
    files = open_files(s3_root)
    files.write("folder/file", b"x")
    s3_server.stop()
    try:
        errors = errors_of(files, ALL_CALLS)
    finally:
        s3_server.start()

    for error in errors.values():
        assert isinstance(error, StoreUnavailableError)
        assert str(error).startswith(f"{s3_root}: the server cannot be reached")
    assert caplog.text.count("the server is away, trying again") >= len(errors)
    assert files.read("folder/file") == b"x"


def test_opening_on_a_server_that_cannot_be_reached_may_succeed_later(nobody_there: str):
    with pytest.raises(StoreUnavailableError):
        open_files(nobody_there).open("folder/file")


def test_opening_with_a_wrong_secret_is_explained(s3_root: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")

    with pytest.raises(StoreError, match="access denied; check the credentials"):
        open_files(s3_root).open("folder/file")


def test_an_endpoint_without_http_is_explained(s3_root: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:8333")

    with pytest.raises(StoreError, match="AWS_ENDPOINT_URL"):
        open_files(s3_root).read("folder/file")


def test_a_url_without_a_bucket_is_refused():
    with pytest.raises(StoreError, match="the bucket's name is missing"):
        open_files("s3://")


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_slashes_at_the_end_of_the_prefix_do_not_matter(s3_root: str, slashes: str):
    files = open_files(s3_root + slashes)
    files.write("folder/file", b"x")

    assert files.url == s3_root
    assert open_files(s3_root).read("folder/file") == b"x"


def test_a_store_can_be_a_whole_bucket(s3_server: S3Server, s3_root: str):
    bucket = s3_root.removeprefix("s3://").replace("/", "-")
    s3_server.client().create_bucket(Bucket=bucket)
    files = open_files(f"s3://{bucket}")
    files.write("folder/file", b"x")

    assert files.url == f"s3://{bucket}"
    assert names(files, "folder") == ["folder/file"]
    assert s3_server.client().get_object(Bucket=bucket, Key="folder/file")["Body"].read() == b"x"


def test_an_object_larger_than_one_request_is_written_whole(s3_root: str):
    files = open_files(s3_root)
    data = os.urandom(1 << 20) * 65  # a multipart upload begins at 64 MiB
    files.write("folder/file", data)

    assert files.read("folder/file") == data
    assert unfinished(files, "folder") == []


def bucket_and_key(root: str, path: str) -> dict[str, str]:
    bucket, _, prefix = root.removeprefix("s3://").partition("/")
    return {"Bucket": bucket, "Key": f"{prefix}/{path}"}


def test_an_interrupted_upload_is_listed_as_unfinished_and_can_be_deleted(s3_root: str, s3_server: S3Server):
    s3_server.client().create_multipart_upload(**bucket_and_key(s3_root, "pass/parts/file"))
    files = open_files(s3_root)

    assert names(files, "pass/parts") == []
    [left] = unfinished(files, "pass/parts")
    files.delete(left)
    files.delete(left)
    assert unfinished(files, "pass/parts") == []


def test_an_interrupted_upload_is_not_listed_in_the_folder_above(s3_root: str, s3_server: S3Server):
    s3_server.client().create_multipart_upload(**bucket_and_key(s3_root, "pass/parts/file"))

    assert unfinished(open_files(s3_root), "pass") == []


def test_the_marker_of_an_empty_folder_is_not_a_file(s3_root: str, s3_server: S3Server):
    s3_server.client().put_object(**bucket_and_key(s3_root, "folder/"), Body=b"")  # as web consoles do
    files = open_files(s3_root)
    files.write("folder/file", b"x")

    assert names(files, "folder") == ["folder/file"]


def test_no_secret_is_in_the_pickle(s3_root: str, s3_server: S3Server):
    files = open_files(s3_root)
    files.write("folder/file", b"x")  # so that a client exists, which knows the secret
    pickled = pickle.dumps(files)

    assert s3_server.secret_key.encode() not in pickled
    assert s3_server.access_key.encode() not in pickled


def test_no_secret_is_in_any_error(s3_root: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch):
    secret = "a-secret-that-is-not-for-others"
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    def shown(files: Files, calls=CALLS) -> str:
        return "".join(line for error in errors_of(files, calls).values() for line in traceback.format_exception(error))

    texts = [shown(open_files("s3://no-such-bucket/prefix"))]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.reader_access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.reader_secret_key)
    texts.append(shown(open_files(s3_root), {"write": CALLS["write"], "create": CALLS["create"]}))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    texts.append(shown(open_files(s3_root), ALL_CALLS))
    monkeypatch.setenv("AWS_ENDPOINT_URL", nobody)
    texts.append(shown(open_files(s3_root), ALL_CALLS))
    for text in texts:
        assert secret not in text
        assert s3_server.secret_key not in text
        assert s3_server.reader_secret_key not in text


def test_calls_outlive_a_restart_of_the_server(s3_root: str, s3_server: S3Server):
    files = open_files(s3_root)
    files.write("folder/before", b"before")
    s3_server.stop()
    try:
        with ThreadPoolExecutor(3) as pool:
            read = pool.submit(files.read, "folder/before")
            written = pool.submit(files.write, "folder/after", b"after")
            created = pool.submit(files.create, "folder/created", b"created")
            s3_server.start()
            assert read.result() == b"before"
            written.result()
            assert created.result()
    finally:
        if not s3_server.running:
            s3_server.start()

    assert names(files, "folder") == ["folder/after", "folder/before", "folder/created"]
    assert files.read("folder/after") == b"after"
