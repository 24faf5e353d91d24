"""Runs whose store is on a real S3 server, and what becomes of them when it fails."""

import os
import subprocess
import time

import pytest

from corpusgen.store import Store
from corpusgen.store.check import verify
from tests.corpusgen.engine.helpers import committed_files, drive, run_demo


def committed_bytes(root: str) -> dict[str, bytes]:
    store = Store.at(root).pass_store("demo")
    paths = [part.path for commit in store.commits() for part in commit.parts.values()]
    return {path: store.files.read(path) for path in paths}


def finish(driver: subprocess.Popen) -> tuple[int, str]:
    output, _ = driver.communicate(timeout=180)
    return driver.returncode, output


@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_server_that_is_away_for_some_seconds_costs_nothing_but_time(s3_server, s3_root, executor, undisturbed):
    driver = drive(s3_root, executor, seconds=0.3)
    store = Store.at(s3_root).pass_store("demo")
    while len(store.committed()) < 2 and driver.poll() is None:
        time.sleep(0.1)
    s3_server.stop()
    time.sleep(6)
    s3_server.start()
    code, output = finish(driver)
    assert code == 0, output
    (check,) = verify(Store.at(s3_root))
    assert check.ok, check.problems
    assert committed_bytes(s3_root) == committed_files(undisturbed)


def test_a_server_that_stays_away_ends_the_run_with_a_message_and_the_run_resumes_when_it_is_back(
    s3_server, s3_root, monkeypatch
):
    monkeypatch.setenv("CORPUSGEN_S3_PATIENCE_SECONDS", "2")
    driver = drive(s3_root, "local", seconds=0.3)
    store = Store.at(s3_root).pass_store("demo")
    while len(store.committed()) < 2 and driver.poll() is None:
        time.sleep(0.1)
    s3_server.stop()
    try:
        code, output = finish(driver)
    finally:
        s3_server.start()
    assert code == 1, output
    assert "cannot reach the server" in output
    assert "Traceback" not in output
    run_demo(Store.at(s3_root))
    (check,) = verify(Store.at(s3_root))
    assert check.ok, check.problems


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AWS_SECRET_ACCESS_KEY", "not-the-secret", "check AWS_SECRET_ACCESS_KEY"),
        ("AWS_ACCESS_KEY_ID", "not-the-key", "check AWS_ACCESS_KEY_ID"),
    ],
)
def test_wrong_credentials_stop_a_run_before_it_begins(s3_root, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    code, output = finish(drive(s3_root, "ray"))
    assert code == 1
    assert message in output
    assert "Traceback" not in output
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in output


def test_a_missing_bucket_stops_a_run_before_it_begins(s3_root):
    code, output = finish(drive("s3://no-such-bucket-here/x", "ray"))
    assert code == 1
    assert "no such bucket; create it first" in output
    assert "Traceback" not in output
