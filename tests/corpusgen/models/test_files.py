"""Models that lie on S3 come to a node once, whole or not at all; the hash of a model is computed once on a node."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from corpusgen.errors import StageError, StoreError
from corpusgen.models import files as model_files
from corpusgen.models.files import content_hash_of, hash_files, is_on_s3, local_path
from tests.testing.s3_proxy import S3Proxy

FILES = {"config.json": b"{}", "model.safetensors": b"weights" * 5000, "onnx/deep/model.onnx": b"graph" * 100}
FORK = multiprocessing.get_context("fork")


def upload(s3_server, url, files):
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    for name, data in files.items():
        s3_server.client().put_object(Bucket=bucket, Key=f"{prefix}/{name}".rstrip("/"), Body=data)


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def node(monkeypatch, tmp_path):
    """The cache of a node."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "node"))
    return tmp_path / "node/wicdistil"


@pytest.fixture
def proxy(s3_server, s3_root, monkeypatch):
    with S3Proxy(s3_server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


@pytest.fixture
def model(s3_server, s3_root, node, proxy):
    upload(s3_server, f"{s3_root}/bert", FILES)
    upload(s3_server, f"{s3_root}/bert-large", {"config.json": b"of another model"})
    return f"{s3_root}/bert"


def started(target, *arguments):
    process = FORK.Process(target=target, args=arguments)
    process.start()
    return process


# ------------------------------------------------------------------- fetching


def test_workers_that_start_at_once_fetch_each_object_once(model, proxy):
    at_once, answers = FORK.Barrier(6), FORK.Queue()

    def work():
        at_once.wait()
        answers.put(local_path(model))

    workers = [started(work) for _ in range(6)]
    paths = {answers.get(timeout=60) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(paths) == 1
    folder = Path(paths.pop())
    assert folder.name == "bert"
    assert contents(folder) == FILES
    assert sorted(key.rpartition("bert/")[2] for key in proxy.fetched) == sorted(FILES)
    assert local_path(f"{model}/") == str(folder)  # later workers find it
    assert len(proxy.fetched) == len(FILES)


def test_a_killed_fetch_leaves_nothing_that_is_taken_for_real(model, proxy, node):
    proxy.stall_at = "model.safetensors"
    fetching = started(local_path, model)
    assert proxy.stalled.wait(60)
    os.kill(fetching.pid, signal.SIGKILL)
    fetching.join()
    assert list(node.glob("models/*/bert/config.json"))  # it really died in the middle
    assert not list(node.glob("models/*/complete.json"))
    proxy.stall_at = None
    assert contents(Path(local_path(model))) == FILES


def test_an_object_may_be_a_model_too(model, proxy):
    path = Path(local_path(f"{model}/model.safetensors"))
    assert path.name == "model.safetensors"
    assert path.read_bytes() == FILES["model.safetensors"]
    assert len(proxy.fetched) == 1


def test_what_has_changed_on_s3_is_fetched_again_and_the_old_copy_stays(model, s3_server):
    before = Path(local_path(model))
    upload(s3_server, model, {"config.json": b'{"new": 1}'})
    after = Path(local_path(model))
    assert (after / "config.json").read_bytes() == b'{"new": 1}'
    assert (before / "config.json").read_bytes() == b"{}"


def test_a_damaged_copy_is_fetched_again(model, proxy):
    path = Path(local_path(model))
    (path / "onnx/deep/model.onnx").unlink()
    assert contents(Path(local_path(model))) == FILES
    assert len(proxy.fetched) == 2 * len(FILES)


def test_what_is_not_there_is_named(model, s3_root):
    assert is_on_s3(model)
    assert not is_on_s3(f"{s3_root}/ber")
    with pytest.raises(StageError, match=r"/ber: no such object, and nothing under this prefix"):
        local_path(f"{s3_root}/ber")


def test_other_names_are_what_they_are(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert local_path("~/models/x") == "/home/me/models/x"
    assert local_path("bert-base-cased") == "bert-base-cased"


@pytest.mark.parametrize("name", ["s3://bucket/models/..", "s3://bucket/.."])
def test_a_name_cannot_lead_out_of_the_cache(name, node, monkeypatch):
    from corpusgen.io.files import FileInfo
    from corpusgen.io.s3 import S3Files

    # S3 itself takes such keys; the server of the tests does not.
    monkeypatch.setattr(S3Files, "tree", lambda self: iter([FileInfo("a", 1, 1.0)]))
    with pytest.raises(StoreError, match="points outside"):
        local_path(name)
    monkeypatch.setattr(S3Files, "tree", lambda self: iter([FileInfo("../../../evil", 1, 1.0)]))
    with pytest.raises(StoreError, match="points outside"):
        local_path("s3://bucket/models/bert")
    assert not list(node.rglob("evil"))


def test_a_cache_that_cannot_be_written_is_named(model, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(StageError, match=r"cannot download .*with XDG_CACHE_HOME"):
        local_path(model)


# -------------------------------------------------------------------- hashing


@pytest.fixture
def folder(tmp_path, node):
    for name, data in {**FILES, ".cache/notes": b"no part of the model"}.items():
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_bytes(data)
    return tmp_path / "model"


def test_a_hash_is_computed_once_on_a_node(folder, monkeypatch):
    answers = FORK.Queue()
    first = started(lambda: answers.put(content_hash_of(folder)))
    known = answers.get(timeout=60)
    first.join()
    assert known == hash_files(folder)
    monkeypatch.setattr(model_files, "hash_files", lambda path: pytest.fail("computed again"))
    assert content_hash_of(folder) == known
    assert content_hash_of(folder.parent / "node/.." / "model") == known


def test_a_change_is_noticed_even_if_size_and_time_are_as_before(folder):
    before = content_hash_of(folder)
    file = folder / "model.safetensors"
    status = file.stat()
    while file.stat().st_ctime_ns == status.st_ctime_ns:  # clocks of file systems tick every few milliseconds
        file.write_bytes(FILES["model.safetensors"].replace(b"weights", b"strange"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert content_hash_of(folder) == hash_files(folder) != before


def test_a_file_that_is_added_or_renamed_counts_and_a_hidden_one_does_not(folder):
    before = content_hash_of(folder)
    (folder / ".cache/notes").write_bytes(b"other notes")
    assert content_hash_of(folder) == before
    (folder / "config.json").rename(folder / "configuration.json")
    renamed = content_hash_of(folder)
    (folder / "more.txt").write_text("")
    assert len({before, renamed, content_hash_of(folder)}) == 3


def test_a_damaged_note_does_no_harm(folder, node):
    before = content_hash_of(folder)
    (node / "hashes.json").write_text('{"state')
    assert content_hash_of(folder) == before


def test_notes_of_what_is_gone_are_forgotten(folder, node):
    content_hash_of(folder / "config.json")
    content_hash_of(folder)
    notes = (node / "hashes.json").read_text()
    (folder / "config.json").unlink()
    content_hash_of(folder)
    assert f'{folder}/config.json"' in notes
    assert f'{folder}/config.json"' not in (node / "hashes.json").read_text()


def test_a_copy_has_the_hash_of_the_original(model, folder):
    assert content_hash_of(Path(local_path(model))) == content_hash_of(folder)
