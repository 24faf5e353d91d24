"""Models of a hub: the commit that it has is recorded, and workers that start together fetch that very one, once."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.testing import PROJECT
from tests.testing import triple_builds as support

MODEL, WEIGHTS = "org/mlm", "model.safetensors"
FIRST, SECOND = "a" * 40, "b" * 40
WORKERS = 3
RECORD = """
import json, sys
from corpusgen.models.identity import describe_hub_model
print(json.dumps(describe_hub_model(sys.argv[1], None)))
"""
LOAD = """
import json, sys
from corpusgen.models.masked_lm import MaskedPredictor
from corpusgen.models.identity import confirmed
model, revision = confirmed(sys.argv[1], None, json.loads(sys.argv[2]))
print(MaskedPredictor(model, revision=revision)._model.config.words)
"""


class FakeHub(ThreadingHTTPServer):
    """As much of a model hub as its client asks for: the commits of one model, and a branch that can be moved."""

    daemon_threads = True

    def __init__(self, commits):
        super().__init__(("127.0.0.1", 0), Handler)
        self.commits, self.main = commits, FIRST
        self.requests = []
        self._news = threading.Condition()

    @property
    def fetched(self):
        return Counter((commit, name) for command, commit, name in self.requests if command == "GET")

    def note(self, command, commit, name):
        """Nobody gets the weights before all workers have asked about them: they really come at the same time."""
        with self._news:
            self.requests.append((command, commit, name))
            self._news.notify_all()
            if command == "GET" and name == WEIGHTS:
                self._news.wait_for(lambda: self.requests.count(("HEAD", commit, name)) == WORKERS, timeout=120)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, path = self.server, self.path.partition("?")[0]
        described = re.fullmatch(rf"/api/models/{MODEL}(?:/revision/(?P<revision>[^/]+))?", path)
        resolved = re.fullmatch(rf"/{MODEL}/resolve/(?P<revision>[^/]+)/(?P<name>.+)", path)
        revision = (described or resolved or {"revision": None})["revision"]
        commit = hub.main if revision in (None, "main") else revision
        if described:
            self._send(200, commit, json.dumps({"id": MODEL, "sha": commit, "tags": []}).encode())
        elif resolved and resolved["name"] in hub.commits[commit]:
            hub.note(self.command, commit, resolved["name"])
            self._send(200, commit, hub.commits[commit][resolved["name"]])
        else:
            self._send(404, commit, b"")

    def _send(self, status, commit, body):
        self.send_response(status)
        headers = {"Content-Length": len(body), "X-Repo-Commit": commit, "ETag": hashlib.sha256(body).hexdigest()}
        for name, value in (headers | ({"X-Error-Code": "EntryNotFound"} if status == 404 else {})).items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def hub(tmp_path):
    """Two commits of a model; its branch stands at the first."""
    support.write_masked_lm(tmp_path / "model")
    files = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    commits = {}
    for commit, words in ((FIRST, "first"), (SECOND, "second")):
        config = json.dumps(json.loads(files["config.json"]) | {"words": words})
        commits[commit] = files | {"config.json": config.encode()}
    with FakeHub(commits) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def start(hub, node, code, *arguments):
    """A process on a node: its client of the hub knows nothing but the address and the node's cache."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(node), "NO_PROXY": "127.0.0.1"}
    environment |= {"HF_HUB_DOWNLOAD_TIMEOUT": "150", "XDG_CACHE_HOME": str(node), "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", code, MODEL, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out.strip()


def test_the_commit_that_the_hub_has_now_is_recorded(hub, tmp_path):
    for commit in (FIRST, SECOND):
        hub.main = commit
        assert json.loads(said(start(hub, tmp_path, RECORD))) == {"id": MODEL, "revision": commit}
    assert not hub.requests  # no file was looked at


@pytest.mark.slow
def test_workers_that_start_together_fetch_the_recorded_commit_once_although_the_branch_has_moved(hub, tmp_path):
    recorded = said(start(hub, tmp_path / "driver", RECORD))
    hub.main = SECOND
    workers = [start(hub, tmp_path / "node", LOAD, recorded) for _ in range(WORKERS)]
    assert [said(worker) for worker in workers] == ["first"] * WORKERS
    assert hub.requests.count(("HEAD", FIRST, WEIGHTS)) == WORKERS  # none of them found the weights on its node
    assert hub.fetched == {(FIRST, name): 1 for name in hub.commits[FIRST]}
