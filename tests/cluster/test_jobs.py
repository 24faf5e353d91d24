"""Jobs on a real Ray that asks for a token: submitted, resumed, failed, refused, stopped."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from corpusgen.store import CommittedTable, Store
from corpusgen.store.check import verify
from tests.cluster.head import PROGRAMS, Head
from tests.testing import PROJECT

pytestmark = pytest.mark.slow

CONFIG = "configs/quickstart.yaml"


@pytest.fixture(scope="module")
def head():
    head = Head()
    try:
        head.wait()
        yield head
    finally:
        head.stop()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """What a user has checked out, and a store and an environment in it that are not to be sent."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("corpusgen", "distiller", "configs"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for mark in ("corpora/old/corpus.json", "environment/pyvenv.cfg"):
        (folder / mark).parent.mkdir(parents=True)
        (folder / mark).write_text("")
        with (folder / mark).with_name("large").open("wb") as large:
            large.truncate(200_000_000)
    return folder


def run(program, *arguments, cwd, env):
    command = [str(PROGRAMS / program), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert not set("\x1b\r") & set(done.stdout + done.stderr), "signs that only a terminal understands"
    return done


def submit(head, project, *arguments, env=None):
    options = ("--address", head.address, *arguments)
    return run("corpusgen", "submit", *options, cwd=project, env=env or head.environment())


def test_a_build_is_done_once_also_when_it_is_submitted_again_by_rays_own_command(head, project, tmp_path):
    overrides = ("--set", f"store={tmp_path}/store")
    done = submit(head, project, CONFIG, *overrides)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sample: 1 of 1 units, 7 targets" in done.stdout
    assert f"store: {tmp_path}/store" in done.stdout
    assert done.stdout.endswith(": succeeded\n")
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert CommittedTable(f"{tmp_path}/store", "sample", "targets").num_rows == 7

    folder = tmp_path / "project"  # its text goes with the job too, and is unpacked anew
    shutil.copytree(project / "configs", folder / "configs")
    options = ("--address", head.address, "--working-dir", ".", "--log-style", "record", "--log-color", "false")
    command = ("corpusgen", "build", CONFIG, *overrides)
    again = run("ray", "job", "submit", *options, "--", *command, cwd=folder, env=head.environment())
    assert again.returncode == 0, again.stdout + again.stderr
    assert "sample: 1 of 1 units, 7 targets" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_a_build_that_fails_says_why_and_exits_as_it_does_here(head, project, tmp_path):
    overrides = ("--set", f"store={tmp_path}/store", "--set", "source.paths=[nowhere/*.txt]")
    failed = submit(head, project, CONFIG, *overrides)
    assert failed.returncode == 2
    assert "source.paths: nowhere/*.txt: no such file" in failed.stdout
    assert failed.stdout.endswith(": failed\n")
    assert "Traceback" not in failed.stdout + failed.stderr


def test_without_the_token_nothing_is_taken(head, project, tmp_path):
    store = ("--set", f"store={tmp_path}/store")
    without = {**head.environment(), "HOME": str(tmp_path)}
    del without["RAY_AUTH_TOKEN"], without["RAY_AUTH_MODE"]
    for environment in (head.environment(token="wrong"), without):
        refused = submit(head, project, CONFIG, *store, env=environment)
        assert refused.returncode == 1
        assert f"{head.address} refuses the token, or there is none" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert not (tmp_path / "store").exists()


def test_without_the_token_no_driver_joins(head, project, tmp_path):
    wrong = {**head.environment(token="wrong"), "RAY_NUM_REDIS_GET_RETRIES": "1"}  # Ray would knock for 20 s
    options = ("--address", head.ray_address, "--set", f"store={tmp_path}/store")
    refused = run("corpusgen", "build", CONFIG, *options, cwd=project, env=wrong)
    assert refused.returncode == 1
    assert f"{head.ray_address} refuses the token, or there is none" in refused.stderr
    assert "RAY_AUTH_TOKEN" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_ctrl_c_stops_the_job(head, project, tmp_path):
    (project / "long.txt").write_text((PROJECT / "configs/quickstart.txt").read_text() * 500)
    overrides = [f"store={tmp_path}/store", "source.paths=[long.txt]", "source.unit_bytes=1000"]
    command = [PROGRAMS / "corpusgen", "submit", CONFIG, "--address", head.address]
    command += [word for override in overrides for word in ("--set", override)]
    process = subprocess.Popen(command, cwd=project, env=head.environment(), stdout=subprocess.PIPE, text=True)
    said = []
    for line in process.stdout:
        said.append(line)
        if "Running entrypoint" in line:
            os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert said[-1].endswith(": stopped; submit it again to resume\n")
    job = said[0].split()[1].rstrip(":")
    options = ("--address", head.address, "--log-style", "record", "--log-color", "false")
    status = run("ray", "job", "status", *options, job, cwd=project, env=head.environment())
    assert f"Job '{job}' was stopped" in status.stdout


def test_when_the_head_was_lost_the_same_job_goes_on_with_another(head, project, tmp_path):
    (tmp_path / "long.txt").write_text((PROJECT / "configs/quickstart.txt").read_text() * 400)
    overrides = [f"store={tmp_path}/store", f"source.paths=[{tmp_path}/long.txt]", "source.unit_bytes=1000"]
    arguments = [CONFIG, *(word for override in overrides for word in ("--set", override))]
    command = [PROGRAMS / "corpusgen", "submit", *arguments, "--address", head.address]
    first = subprocess.Popen(
        command, cwd=project, env=head.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    harvest = Store.at(f"{tmp_path}/store").pass_store("harvest")
    while len(harvest.committed()) < 20 and first.poll() is None:
        time.sleep(0.02)
    head.stop()
    head.start()
    before = {commit.unit: commit for commit in harvest.commits()}
    head.wait()
    _, said = first.communicate(timeout=120)
    assert first.returncode == 1
    assert "submit it again to resume" in said
    assert 20 <= len(before) < len(harvest.plan().units)

    again = submit(head, project, *arguments)
    assert again.returncode == 0, again.stdout + again.stderr
    after = {commit.unit: commit for commit in harvest.commits()}
    assert {unit: after[unit] for unit in before} == before
    (run,) = {commit.attempt.partition("-")[0] for unit, commit in after.items() if unit not in before}
    lines = [line for file in tmp_path.glob(f"store/harvest/events/{run}-*") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["unit"] for line in lines) == sorted(after.keys() - before.keys())
    assert all(check.ok for check in verify(Store.at(f"{tmp_path}/store")))
