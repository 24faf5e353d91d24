"""What `corpusgen submit` sends, says and returns, without a cluster; with one: test_jobs.py."""

import asyncio
import contextlib
import http.server
import subprocess
import threading
import zipfile
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml
from ray.job_submission import JobStatus

import corpusgen.ops.submit
from corpusgen.config.job import find_job
from corpusgen.errors import ConfigError, CorpusgenError
from corpusgen.ops.submit import BUILD, entrypoint, environment, files_to_send, packed, submit
from tests.testing import PROJECT

STORE = "store=s3://bucket/corpus"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project with everything in it that must not travel."""
    files = {
        "build.yaml": yaml.safe_dump({"store": "corpora/mine", "source": {"kind": "text", "paths": ["a.txt"]}}),
        "train.yaml": yaml.safe_dump({"corpus": "c", "output": "runs/r", "backbone": {"model": "m"}}),
        "mine/code.py": "",
        ".env": "SECRET=1",
        ".git-like/config": "",
        "mine/__pycache__/code.pyc": "",
        "environment/pyvenv.cfg": "",
        "environment/lib/large.py": "",
        "somewhere/wiki/corpus.json": "{}",
        "somewhere/wiki/harvest/parts/a.parquet": "",
        "trained/checkpoints/last.pt": "",
        "trained/steps.csv": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class FakeClient:
    """A cluster's answers: what its log says, connection by connection, and how the job stands after each."""

    def __init__(self, connections=(("", JobStatus.SUCCEEDED),), code=0):
        self.connections, self.code = list(connections), code
        self.status, self.submitted, self.sent, self.stops = JobStatus.PENDING, None, [], 0
        self.silent = 0
        """How many more questions about the job get no answer."""

    def submit_job(self, entrypoint, runtime_env):
        self.submitted = SimpleNamespace(entrypoint=entrypoint, env=runtime_env["env_vars"])
        with zipfile.ZipFile(runtime_env["working_dir"]) as package:
            self.sent = package.namelist()
        return "job_1"

    async def tail_job_logs(self, job):
        await asyncio.sleep(0)
        text, self.status = self.connections.pop(0)
        for start in range(0, len(text), 3):
            yield text[start : start + 3]
        if isinstance(self.status, BaseException):
            error, self.status = self.status, JobStatus.RUNNING
            raise error

    def get_job_info(self, job):
        if self.silent:
            self.silent -= 1
            raise ConnectionError("refused")
        return SimpleNamespace(status=self.status, driver_exit_code=self.code)

    def stop_job(self, job):
        self.stops += 1
        self.status = JobStatus.STOPPED


@pytest.fixture
def cluster(monkeypatch):
    def connect_to(client):
        monkeypatch.setattr(corpusgen.ops.submit, "_connected", lambda address: client)
        monkeypatch.setattr(corpusgen.ops.submit, "_LOOK_AGAIN_SECONDS", 0)
        return client

    return connect_to


# --------------------------------------------------------------------- package


def test_code_and_settings_go_data_stays(folder):
    assert [str(path) for path in files_to_send(folder)] == ["build.yaml", "train.yaml", "mine/code.py"]


def test_what_git_ignores_stays_too(folder):
    (folder / "dumps").mkdir()
    (folder / "dumps/wiki.bz2").write_text("")
    (folder / ".gitignore").write_text("dumps/\n*.tmp\n")
    (folder / "mine/notes.tmp").write_text("")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    subprocess.run(["git", "add", "build.yaml", "train.yaml"], cwd=folder, check=True)
    (folder / "train.yaml").unlink()
    assert [str(path) for path in files_to_send(folder)] == ["build.yaml", "mine/code.py"]


def test_a_repository_that_git_cannot_read_is_not_taken_for_none(folder):
    (folder / ".git").mkdir()
    with pytest.raises(ConfigError, match=r"git cannot say which files are ignored: .*not a git repository"):
        files_to_send(folder)


def test_the_same_files_are_the_same_package(folder):
    files = files_to_send(folder)
    first = packed(files, folder / "first.zip").read_bytes()
    (folder / "mine/code.py").touch()
    assert packed(files, folder / "second.zip").read_bytes() == first


def test_a_folder_that_is_too_large_is_refused_by_name(folder, cluster, monkeypatch):
    client = cluster(FakeClient())
    monkeypatch.setattr(corpusgen.ops.submit, "_LARGEST_REQUEST", 2_000_000)
    (folder / "vectors.bin").write_bytes(bytes(3_000_000))
    with pytest.raises(ConfigError, match=r"at most 2 MB.*\n  vectors.bin: 3.0 MB") as refused:
        submit("build.yaml", "http://head:8265", overrides=[STORE])
    assert refused.value.exit_code == 2
    assert client.submitted is None


# -------------------------------------------------------------------- settings


def test_the_command_survives_a_shell():
    assert entrypoint("my configs/a.yaml", ["seed=1", "source.paths=[s3://b/*.txt]"], BUILD) == (
        "python -m corpusgen.cli build 'my configs/a.yaml' --set seed=1 --set 'source.paths=[s3://b/*.txt]'"
    )
    assert entrypoint("a.yaml", [], find_job("train")) == "python -m distiller.cli train a.yaml"


def test_variables_go_by_name_and_secrets_not_at_all(monkeypatch, caplog):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:9000")
    assert environment(["AWS_ENDPOINT_URL"]) == {"AWS_ENDPOINT_URL": "http://store:9000"}
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "HF_TOKEN", "Password"):
        monkeypatch.setenv(name, "very secret")
        with pytest.raises(ConfigError, match=f"--env {name}: Ray logs the variables of a job") as refused:
            environment([name])
        assert "very secret" not in str(refused.value)
    with pytest.raises(ConfigError, match="--env NOBODY_SET_THIS: not set in your environment"):
        environment(["NOBODY_SET_THIS"])
    with pytest.raises(ConfigError, match="--env PASSWORD: give only the name") as refused:
        environment(["PASSWORD=very secret"])
    assert "very secret" not in str(refused.value) + caplog.text


@pytest.mark.parametrize(
    ("config", "overrides", "train", "message"),
    [
        ("build.yaml", [], False, "store: corpora/mine would be inside the job's own folder"),
        ("build.yaml", [STORE, "sample.sise=1"], False, "sample.sise: unknown key; did you mean 'size'"),
        ("train.yaml", ["corpus=s3://b/c"], True, "output: runs/r would be"),
        ("build.yaml", [], True, "corpus: missing"),
        ("../build.yaml", [STORE], False, "cannot be sent with the job; it must be in this folder"),
        (".hidden.yaml", [STORE], False, "cannot be sent with the job"),
    ],
)
def test_settings_that_cannot_work_there_are_refused_here(folder, cluster, config, overrides, train, message):
    client = cluster(FakeClient())
    for copy in (folder.parent / "build.yaml", folder / ".hidden.yaml"):
        copy.write_text((folder / "build.yaml").read_text())
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        submit(config, "http://head:8265", overrides=overrides, train=train)
    assert client.submitted is None


# ------------------------------------------------------------------------- job


def test_a_job_is_followed_to_its_end(folder, cluster, capsys, monkeypatch):
    monkeypatch.setenv("LEVEL", "3")
    client = cluster(FakeClient([("harvest: 3 units\n", JobStatus.SUCCEEDED)]))
    config = str(folder / "build.yaml")  # a full path inside of the folder is as good
    assert submit(config, "http://head:8265", overrides=[STORE], env=["LEVEL"]) == 0
    assert client.submitted.entrypoint == f"python -m corpusgen.cli build build.yaml --set {STORE}"
    assert client.submitted.env == {"LEVEL": "3"}
    assert client.sent == ["build.yaml", "train.yaml", "mine/code.py"]
    assert capsys.readouterr().out == (
        "job job_1: 3 files sent to http://head:8265\nharvest: 3 units\njob job_1: succeeded\n"
    )


def test_a_job_that_nobody_waits_for(folder, cluster, capsys):
    client = cluster(FakeClient([]))
    assert submit("build.yaml", "http://head:8265", overrides=[STORE], wait=False) == 0
    assert client.submitted
    assert "ray job logs --follow --address http://head:8265 job_1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (JobStatus.FAILED, 2, 2),
        (JobStatus.FAILED, 1, 1),
        (JobStatus.FAILED, -9, 1),
        (JobStatus.FAILED, None, 1),
        (JobStatus.STOPPED, None, 1),
        (JobStatus.STOPPED, 0, 1),
    ],
)
def test_only_success_is_zero(folder, cluster, status, code, expected):
    cluster(FakeClient([("", status)], code))
    assert submit("build.yaml", "http://head:8265", overrides=[STORE]) == expected


def test_a_connection_that_breaks_is_made_again_and_nothing_is_said_twice(folder, cluster, capsys):
    log = "one\ntwo\nthree\n"
    cluster(FakeClient([(log[:5], RuntimeError("gone")), (log[:2], JobStatus.RUNNING), (log, JobStatus.SUCCEEDED)]))
    assert submit("build.yaml", "http://head:8265", overrides=[STORE]) == 0
    assert log in capsys.readouterr().out


def test_a_dashboard_that_is_away_for_a_while_is_asked_again(folder, cluster, capsys):
    client = cluster(FakeClient([("one\n", RuntimeError("gone")), ("one\ntwo\n", JobStatus.SUCCEEDED)]))
    client.silent = 3
    assert submit("build.yaml", "http://head:8265", overrides=[STORE]) == 0
    assert "one\ntwo\n" in capsys.readouterr().out


def test_a_dashboard_that_stays_away_is_given_up_and_the_job_is_named(folder, cluster, monkeypatch):
    client = cluster(FakeClient([("one\n", RuntimeError("gone"))]))
    client.silent = 10**9
    monkeypatch.setattr(corpusgen.ops.submit, "_GIVE_UP_SECONDS", 0)
    with pytest.raises(CorpusgenError, match="ray job logs --follow --address http://head:8265 job_1"):
        submit("build.yaml", "http://head:8265", overrides=[STORE])


def test_a_job_that_the_cluster_does_not_know_any_more_is_not_waited_for(folder, cluster):
    client = cluster(FakeClient([("one\n", RuntimeError("gone"))]))
    client.get_job_info = Mock(side_effect=RuntimeError("Request failed with status code 404: no such job."))
    with pytest.raises(CorpusgenError, match=r"job job_1: http://head:8265 no longer knows it.*submit it again"):
        submit("build.yaml", "http://head:8265", overrides=[STORE])
    assert client.get_job_info.call_count == 1


def test_links_that_lead_nowhere_or_to_folders_are_named(folder, cluster, caplog):
    client = cluster(FakeClient())
    (folder / "elsewhere").symlink_to(folder.parent, target_is_directory=True)
    (folder / "nowhere").symlink_to("gone")
    with pytest.raises(ConfigError, match="nowhere: a broken link"):
        submit("build.yaml", "http://head:8265", overrides=[STORE])
    assert "elsewhere: a link to a folder, which is not sent" in caplog.text
    assert client.submitted is None


def test_ctrl_c_stops_the_job_and_waits_for_its_end(folder, cluster, capsys):
    client = cluster(FakeClient([("begun\n", KeyboardInterrupt())]))
    assert submit("build.yaml", "http://head:8265", overrides=[STORE]) == 130
    assert client.stops == 1
    assert "stopped; submit it again to resume" in capsys.readouterr().out


def test_ctrl_c_when_the_dashboard_has_gone_says_how_to_follow_the_job(folder, cluster, monkeypatch):
    client = cluster(FakeClient([("begun\n", KeyboardInterrupt())]))
    client.silent = 10**9
    monkeypatch.setattr(corpusgen.ops.submit, "_GIVE_UP_SECONDS", 0)
    with pytest.raises(CorpusgenError, match="ray job logs --follow --address http://head:8265 job_1"):
        submit("build.yaml", "http://head:8265", overrides=[STORE])


# ------------------------------------------------------------------ connection


@contextlib.contextmanager
def server_that_answers(status, text):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (401, b"Unauthorized", "refuses the token, or there is none\nset RAY_AUTH_MODE=token"),
        (403, b"Forbidden", "refuses the token, or there is none\nset RAY_AUTH_MODE=token"),
        (404, b"nothing here", "Version check returned 404"),
        (200, b"<html>", "cannot reach a Ray dashboard at"),
    ],
)
def test_who_answers_otherwise_than_ray_does(folder, monkeypatch, status, text, message):
    monkeypatch.setenv("RAY_ADDRESS", "http://another.cluster:8265")  # an address that is given counts for more
    with server_that_answers(status, text) as address, pytest.raises(CorpusgenError, match=message):
        submit("build.yaml", address, overrides=[STORE])


def test_nobody_answers(folder):
    with pytest.raises(CorpusgenError, match=r"cannot reach a Ray dashboard at http://127\.0\.0\.1:1"):
        submit("build.yaml", "http://127.0.0.1:1", overrides=[STORE])


@pytest.mark.parametrize("address", ["head:8265", "ray://head:10001", "auto", "http://"])
def test_addresses_of_other_kinds(folder, address):
    with pytest.raises(ConfigError, match="expected the dashboard's address"):
        submit("build.yaml", address, overrides=[STORE])


def test_files_to_send_of_the_project_itself():
    project = PROJECT
    sent = {path.parts[0] for path in files_to_send(project)}
    assert {"corpusgen", "distiller", "configs"} <= sent
    assert not sent & {"corpora", "runs", "models", "dumps"}
