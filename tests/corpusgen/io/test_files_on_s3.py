"""`Files` on S3: credentials, servers that are away, uploads that were interrupted, and no secret anywhere."""

from __future__ import annotations

import os
import pickle
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corpusgen.errors import CorpusgenError, StoreError, StoreUnavailableError
from corpusgen.io.files import Files, open_files
from tests.corpusgen.store.support import names, unfinished
from tests.testing.s3_server import S3Server, free_ports

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


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("AWS_SECRET_ACCESS_KEY", "not-the-secret", "the secret key is wrong"),
        ("AWS_ACCESS_KEY_ID", "NOBODY", "the access key is unknown"),
    ],
)
def test_wrong_credentials_name_the_variable_to_check(
    s3_root: str, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, problem: str
):
    monkeypatch.setenv(variable, value)
    files = open_files(s3_root)

    for error in errors_of(files).values():
        assert str(error) == f"{s3_root}: {problem}; check {variable} or the profile"
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
        assert str(error) == "s3://no-such-bucket/prefix: no such bucket; create it first"


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
        assert str(error).startswith(f"{nobody_there}: cannot reach the server")
        assert os.environ["AWS_ENDPOINT_URL"] in str(error)


def test_a_server_that_went_away_is_waited_for_and_then_given_up(
    s3_root: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("corpusgen.io.s3._PATIENCE_SECONDS", 0.5)  # enough for one more try on a busy machine
    monkeypatch.setattr("corpusgen.io.s3._PAUSE_SECONDS", (0.5, 0.5))
    files = open_files(s3_root)
    files.write("folder/file", b"x")
    s3_server.stop()
    try:
        errors = errors_of(files, ALL_CALLS)
    finally:
        s3_server.start()

    for error in errors.values():
        assert isinstance(error, StoreUnavailableError)
        assert str(error).startswith(f"{s3_root}: cannot reach the server")
    assert caplog.text.count("cannot reach the server, trying again") >= len(errors)
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
