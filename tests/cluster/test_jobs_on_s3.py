"""Jobs whose cluster shares nothing but S3: a build that is stopped and goes on, and a training on its triples."""

import json
import signal
import subprocess
import time

import pytest
import yaml

from corpusgen.corpus.recipes.words import RECIPE
from corpusgen.io.files import open_files
from corpusgen.store import Store
from corpusgen.store.check import verify
from distiller.inference.word_distiller import WordDistiller
from tests.cluster.head import PROGRAMS, Head
from tests.cluster.test_jobs import run, submit
from tests.testing import triple_builds as support

pytestmark = pytest.mark.slow


@pytest.fixture
def head(s3_root, tmp_path, monkeypatch):
    """It has credentials from the environment in which it is started, and a cache that nobody else has."""
    head = Head(environment={"XDG_CACHE_HOME": str(tmp_path / "node")}, num_cpus=8)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "here"))
    try:
        head.wait()
        yield head
    finally:
        head.stop()


@pytest.fixture
def user(head):
    """The environment of one who may submit jobs, and has no credentials for S3 to send with them."""
    return {name: value for name, value in head.environment().items() if not name.startswith("AWS_")}


@pytest.fixture
def project(s3_root, tmp_path):
    """All that a user needs here: two files of settings. Text and models are on S3."""
    (tmp_path / "data").mkdir()
    build = support.settings(tmp_path / "data", store=f"{s3_root}/store")
    for path in (tmp_path / "data").rglob("*.*"):
        open_files(s3_root).write(path.relative_to(tmp_path / "data").as_posix(), path.read_bytes())
    build["source"]["paths"] = [f"{s3_root}/text.txt"]
    build |= {"vectors": {"path": f"{s3_root}/vectors.vec"}, "masked": {"model": f"{s3_root}/masked"}}
    train = {"corpus": build["store"], "output": f"{s3_root}/run", "backbone": build["masked"], "heads": 4}
    train |= {"batch_size": 8, "validation_share": 0.3, "validate_every": 1.0, "max_epochs": 2, "workers": 2}
    (tmp_path / "project").mkdir()
    (tmp_path / "project/build.yaml").write_text(yaml.safe_dump(build))
    (tmp_path / "project/train.yaml").write_text(yaml.safe_dump(train))
    return tmp_path / "project"


def submit_and_stop(head, project, user, store):
    """Press Ctrl-C when something is committed: there are several passes to go."""
    command = [PROGRAMS / "corpusgen", "submit", "build.yaml", "--address", head.address]
    job = subprocess.Popen(command, cwd=project, env=user, stdout=subprocess.PIPE, text=True)
    while not commits(store) and job.poll() is None:
        time.sleep(0.1)
    job.send_signal(signal.SIGINT)
    said, _ = job.communicate(timeout=120)
    assert job.returncode == 130, said


def commits(store):
    passes = [store.pass_store(name) for name in RECIPE.passes]
    return {commit.unit: commit for one in passes if one.started() for commit in one.commits()}


def events(store):
    logs = [info.path for name in RECIPE.passes for info in store.files.list(f"{name}/events")]
    return [json.loads(line) for log in logs for line in store.files.read(log).splitlines()]


def test_a_build_goes_on_and_a_model_is_trained_where_all_is_on_s3(head, project, user, s3_root):
    store = Store.at(f"{s3_root}/store")
    submit_and_stop(head, project, user, store)
    before = commits(store)
    done = submit(head, project, "build.yaml", env=user)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"store: {store.url}" in done.stdout
    after = commits(store)
    assert {unit: after[unit] for unit in before} == before
    runs_before = {commit.attempt.partition("-")[0] for commit in before.values()}
    done_later = {event["unit"] for event in events(store) if event["run"] not in runs_before}
    assert done_later
    assert not done_later & before.keys()
    assert all(check.ok for check in verify(store))

    options = ("--address", head.address, "--working-dir", ".", "--log-style", "record", "--log-color", "false")
    trained = run("ray", "job", "submit", *options, "--", "distiller", "train", "train.yaml", cwd=project, env=user)
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert f"model: {s3_root}/run/model" in trained.stdout
    assert WordDistiller.from_pretrained(f"{s3_root}/run").config["training"]["corpus"] == store.url
