"""Where text comes from and where the corpus goes, on a disk and on a real S3 server."""

import os
from pathlib import Path

import pytest

from corpusgen.corpus.build import build, content_of
from corpusgen.engine import LocalExecutor
from corpusgen.errors import ConfigError, StoreError
from corpusgen.io.files import LocalFiles, open_files
from corpusgen.ops.doctor import source_and_store
from corpusgen.ops.doctor.findings import reported
from corpusgen.sources.locate import find_files
from corpusgen.store import Store, check
from corpusgen.store.check import try_out
from tests.testing.forgetful_s3 import ForgetfulS3
from tests.testing.privileges import bound_by_permissions, public_folder
from tests.testing.shared_data import shared_data


def statuses(lines):
    return [(line.status, line.what) for line in lines]


def test_a_location_that_works_is_green_and_left_as_it_was(root, config):
    lines = list(source_and_store.store_location(config(store=root)))
    assert statuses(lines) == [("green", "store"), ("green", "clock")]
    assert list(open_files(root).list("")) == []
    if "://" not in root:
        assert not os.path.exists(root), "a store that is not begun is not begun by looking at it"


def test_a_store_that_is_being_built_is_not_disturbed(root, config):
    settings = config(store=root)
    build(settings, LocalExecutor(), until="vocabulary")
    before = sorted(info.path for info in open_files(root).list(""))
    assert statuses(source_and_store.store_location(settings)) == [("green", "store"), ("green", "clock")]
    (line,) = source_and_store.store_content(settings, content_of(settings, Store.at(settings.store)))
    assert line.status == "green"
    assert "harvest, vocabulary" in line.finding
    assert sorted(info.path for info in open_files(root).list("")) == before
    other = config(store=root, seed=3)
    with pytest.raises(StoreError, match=r"settings.seed: 0 in the store, 3 now"):
        list(source_and_store.store_content(other, content_of(other, Store.at(other.store))))


def test_credentials_that_may_only_read_are_found_out(s3_server, s3_root, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.reader_access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.reader_secret_key)
    with pytest.raises(StoreError, match="access denied"):
        try_out(open_files(s3_root))


class Forgetful(LocalFiles):
    """Like an S3 server that does not know If-None-Match and replaces what is there."""

    def create(self, path: str, data: bytes) -> bool:
        self.write(path, data)
        return True


def test_a_server_that_ignores_conditional_writes_is_found_out_and_nothing_stays_there(tmp_path):
    with pytest.raises(StoreError, match="ignores conditional writes"):
        try_out(Forgetful(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def look_alike(monkeypatch):
    """A server on the network that ignores If-None-Match, and the environment to use it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    with ForgetfulS3() as server:
        for name, value in (("ENDPOINT_URL", server.endpoint), ("DEFAULT_REGION", "us-east-1")):
            monkeypatch.setenv(f"AWS_{name}", value)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "anything")
        yield server


def test_through_the_real_client_too_it_is_red(look_alike, config):
    (line,) = reported("store", source_and_store.store_location(config(store="s3://bucket/corpus")))
    assert (line.status, line.what) == ("red", "store")
    assert "ignores conditional writes" in line.finding
    assert look_alike.conditional == 2
    assert look_alike.objects == {}
    look_alike.honours = True
    assert next(source_and_store.store_location(config(store="s3://bucket/corpus"))).status == "green"


def test_and_no_store_is_begun_there_however_often_one_tries(look_alike, config):
    for _ in range(2):
        with pytest.raises(StoreError, match="ignores conditional writes"):
            build(config(store="s3://bucket/corpus"), LocalExecutor(), until="harvest")
        assert not any("/harvest/" in key for key in look_alike.objects)
    look_alike.honours = True
    build(config(store="s3://bucket/other"), LocalExecutor(), until="harvest")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
def test_a_location_that_takes_no_files_is_red(config):
    (line,) = reported("store", source_and_store.store_location(config(store="/proc/x")))
    assert line.status == "red"
    assert "cannot write to /proc: no files can be created there" in line.finding


def test_a_file_in_the_way_is_red(config, tmp_path):
    (tmp_path / "file").write_text("")
    lines = list(source_and_store.store_location(config(store=str(tmp_path / "file" / "store"))))
    assert statuses(lines) == [("red", "store")]


@pytest.mark.parametrize(("off", "status"), [(0, "green"), (90, "yellow"), (-90, "yellow"), (1000, "red")])
def test_a_clock_that_is_off_is_measured(root, config, monkeypatch, off, status):
    now = check.time.time
    monkeypatch.setattr(check, "time", type("Clock", (), {"time": staticmethod(lambda: now() - off)}))
    _, line = source_and_store.store_location(config(store=root))
    assert (line.what, line.status) == ("clock", status)
    if off:
        assert ("ahead of" if off > 0 else "behind") in line.finding
        seconds = int(line.finding.split(" s ")[0].rpartition(" ")[2].replace(",", ""))
        assert abs(seconds - abs(off)) <= 2


def test_files_that_are_missing_empty_or_there(config, tmp_path):
    def lines(path):
        return statuses(source_and_store.sources(config(source={"kind": "text", "paths": [str(path)]})))

    assert statuses(source_and_store.sources(config())) == [("green", "source.paths")]
    (tmp_path / "empty.txt").write_text("")
    assert lines(tmp_path / "empty.txt") == [("red", "source.paths")]
    with pytest.raises(ConfigError, match=r"none\.txt: no such file"):
        lines(tmp_path / "none.txt")


def test_files_that_may_not_be_read_are_red(config):
    with public_folder() as folder:
        (folder / "closed.txt").write_text("closed")
        settings = config(source={"kind": "text", "paths": [str(folder / "closed.txt")]})
        assert statuses(source_and_store.sources(settings)) == [("green", "source.paths")]
        (folder / "closed.txt").chmod(0)
        with bound_by_permissions():
            (line,) = source_and_store.sources(settings)
    assert line.status == "red"
    assert "ermission" in f"{line.finding} {line.remedy}"


def test_a_source_on_s3_is_read_a_little(s3_root, config):
    open_files(s3_root).write("a.txt", b"A river.\n" * 10_000)
    settings = config(source={"kind": "text", "paths": [f"{s3_root}/*.txt"]})
    assert statuses(source_and_store.sources(settings)) == [("green", "source.paths")]
    assert list(source_and_store.first_bytes(settings)) == []


def test_a_source_that_cannot_be_cut_into_units_is_red_and_one_message_everywhere(config, tmp_path, command):
    (tmp_path / "a.parquet").write_bytes(b"no Parquet at all")
    settings = config(source={"kind": "parquet", "paths": [str(tmp_path / "a.parquet")]})
    (line,) = reported("source.paths", source_and_store.first_bytes(settings))
    assert line.status == "red"
    assert "a.parquet as Parquet" in line.finding
    (tmp_path / "my.yaml").write_text(settings.to_yaml())
    for arguments in (("estimate",), ("build", "--executor", "local")):
        ended = command(arguments[0], tmp_path / "my.yaml", *arguments[1:])
        assert (ended.code, ended.out) == (2, "")
        assert "a.parquet as Parquet" in ended.err


def test_a_disk_that_is_too_small_is_red_before_a_build_and_yellow_within_one(config, tmp_path):
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as file:
        file.truncate(14 << 40)  # takes no room: there is nothing in it
    settings = config(source={"kind": "text", "paths": [str(huge)]}, sample={"size": 1000})
    assert statuses(source_and_store.disk(config())) == [("green", "room for the store")]
    assert statuses(source_and_store.disk(settings)) == [("red", "room for the store")]
    Path(settings.store).mkdir()
    Path(settings.store, "corpus.json").write_text("{}")
    assert statuses(source_and_store.disk(settings)) == [("yellow", "room for the store")]


def test_room_on_s3_is_not_asked_for(s3_root, config):
    assert list(source_and_store.disk(config(store=s3_root))) == []


@pytest.mark.real
def test_the_estimate_is_right_within_a_factor_of_two(config, tmp_path):
    """On text that the figures were not taken from alone: three files of forty, and a dump."""
    for number, (kind, path) in enumerate(
        [("wikiextractor", "wikipedia/extracted/wiki_0[0-2].gz"), ("mediawiki", "wikipedia/dumps/enwiki-table-*.bz2")]
    ):
        shared_data(os.path.dirname(path))
        pattern = str(shared_data(".") / path)
        settings = config(
            store=str(tmp_path / f"real-{number}"),
            source={"kind": kind, "paths": [pattern]},
            sample={"size": 1000, "vocabulary": 5000},
            vectors=None,
            masked=None,
        )
        build(settings, LocalExecutor())
        files = (file for file in Path(settings.store).rglob("*") if file.is_file())
        size = sum(file.stat().st_size for file in files if file.suffix == ".parquet")
        estimate = source_and_store.estimated_bytes(settings, find_files([pattern]))
        assert size / 2 < estimate < size * 2, (kind, size, estimate)


def test_passes_of_another_recipe_with_our_names_are_not_given_our_sizes(config):
    def estimate(**changed):
        settings = config(recipe="tests.extending.outside:RECIPE", **changed)  # it has a pass `pairs` of its own
        return source_and_store.estimated_bytes(settings, find_files(settings.source.paths))

    assert estimate() == estimate(discourse={"size": 1}) == estimate(sample={"size": 1})
    ours = config(recipe="discourse")
    assert source_and_store.estimated_bytes(ours, find_files(ours.source.paths)) > estimate()
