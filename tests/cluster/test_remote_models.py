"""A build and a training on Ray with models on S3: fetched once by a node, the same or refused, and no secret told."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.engine.cluster import ray_cluster
from corpusgen.ops.report import write_report
from corpusgen.store import Store, TripleStore
from corpusgen.store.rows import plain_rows
from distiller.inference.word_distiller import WordDistiller
from tests.testing import PROJECT
from tests.testing import triple_builds as support
from tests.testing.s3_proxy import S3Proxy

pytestmark = pytest.mark.slow

HUB_TOKEN = "hf_" + "planted" * 5
DRIVER = """
import os, sys
import ray
import corpusgen.cli, distiller.cli
from corpusgen.engine.cluster import ray_cluster

cache, *commands = sys.argv[1:]
with ray_cluster("local"):
    print("session:", ray._private.worker._global_node.get_session_dir_path(), flush=True)
    os.environ["XDG_CACHE_HOME"] = cache
    for command in commands:
        sys.argv = command.split()
        try:
            {"corpusgen": corpusgen.cli, "distiller": distiller.cli}[sys.argv[0]].main()
        except SystemExit as end:
            if end.code:
                raise
"""


class Site:
    """A cluster of one node whose cache is not the driver's, and a bucket with the models."""

    def __init__(self, folder: Path, url: str, proxy: S3Proxy) -> None:
        self.folder, self.url, self.proxy = folder, url, proxy
        self.node, self.driver = folder / "node", folder / "driver"
        self.store, self.run = str(folder / "remote"), str(folder / "run")

    def build(self, store: str) -> list[str]:
        """The commands of a build with two workers that load the models at the same time.

        Only the pass that needs models is one for the cluster.
        """
        models = {"vectors": {"path": f"{self.url}/vectors.vec"}, "masked": {"model": f"{self.url}/masked"}}
        run = {"workers": {"mask": {"min_workers": 2, "max_workers": 2}}}
        settings = support.settings(self.folder, **models, run=run, store=store)
        (self.folder / "build.yaml").write_text(yaml.safe_dump(settings))
        command = f"corpusgen build {self.folder}/build.yaml"
        return [f"{command} --executor local --until sample", command]

    def train(self) -> str:
        settings = {"corpus": self.store, "output": self.run, "backbone": {"model": f"{self.url}/masked"}}
        settings |= {"features": "online", "heads": 4, "batch_size": 8, "max_epochs": 1}
        settings |= {"validation_share": 0.3, "validate_every": 1.0}
        (self.folder / "train.yaml").write_text(yaml.safe_dump(settings))
        return f"distiller train {self.folder}/train.yaml"

    def execute(self, *commands: str) -> subprocess.CompletedProcess[str]:
        """Commands as a user gives them, in a process with a Ray of its own whose whole output is kept."""
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.node), "PYTHONPATH": str(PROJECT)}
        line = [sys.executable, "-c", DRIVER, str(self.driver), *commands]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory, s3_server, s3_bucket):
    folder = tmp_path_factory.mktemp("site")
    support.settings(folder)
    files = [folder / "vectors.vec", *(folder / "masked").iterdir()]
    for path in files:
        key = f"remote/{path.relative_to(folder).as_posix()}"
        s3_server.client().put_object(Bucket=s3_bucket, Key=key, Body=path.read_bytes())
    with S3Proxy(s3_server.endpoint) as proxy, pytest.MonkeyPatch.context() as environment:
        site = Site(folder, f"s3://{s3_bucket}/remote", proxy)
        known = {**s3_server.env(), "AWS_ENDPOINT_URL": proxy.endpoint, "HF_TOKEN": HUB_TOKEN}
        for name, value in {**known, "XDG_CACHE_HOME": str(site.driver)}.items():
            environment.setenv(name, value)
        yield site


@pytest.fixture(scope="module")
def done(site):
    """A build and a training."""
    done = site.execute(*site.build(site.store), site.train())
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def rows(root):
    return [
        {name: value for name, value in row.items() if name != "unit"}
        for batch in TripleStore(root).batches()
        for row in plain_rows(batch)
    ]


def test_triples_are_those_that_local_files_give_and_each_object_comes_once_to_a_node(site, done):
    here = str(site.folder / "here")
    build(BuildConfig.model_validate(support.settings(site.folder, store=here)), LocalExecutor())
    assert rows(site.store) == rows(here)
    models, of_files = Store.at(site.store).corpus()["models"], Store.at(here).corpus()["models"]
    assert models["vectors"] == {"id": f"{site.url}/vectors.vec", "sha256": of_files["vectors"]["sha256"]}
    assert models["masked"] == {"id": f"{site.url}/masked", "sha256": of_files["masked"]["sha256"]}
    objects = {"remote/vectors.vec", *(f"remote/masked/{path.name}" for path in (site.folder / "masked").iterdir())}
    assert set(site.proxy.fetched) == objects
    # The driver has a cache of its own here; the workers of the build and of the training share that of the node.
    assert {site.proxy.fetched.count(key) for key in objects} == {2}


def test_a_model_is_trained_on_a_backbone_from_s3(site, done):
    before = len(site.proxy.fetched)
    model = WordDistiller.from_pretrained(site.run)
    assert model.config["backbone"]["model"] == f"{site.url}/masked"
    assert len(site.proxy.fetched) == before  # the driver had it


def test_no_secret_is_told_anywhere(site, done, s3_server, capfd):
    """Not in what build and training print, nor in any file of theirs, of Ray's or of a report's."""
    page = site.folder / "report.html"
    write_report(site.store, page)
    logs = Path(re.search("session: (.+)", done.stdout)[1]) / "logs"
    all_written = [Path(site.store), Path(site.run), page, logs, site.node]
    files = [
        path
        for written in all_written
        for path in (written.rglob("*") if written.is_dir() else [written])
        if path.is_file()
    ]
    assert len(files) > 50
    said = "".join((done.stdout, done.stderr, *capfd.readouterr()))
    for word in (f"store: {site.store}", f"model: {site.run}/model", "rows/s"):  # the latter is told on stderr
        assert word in said
    assert os.environ.get("AWS_SECRET_ACCESS_KEY") == s3_server.secret_key
    for secret in (s3_server.access_key, s3_server.secret_key, HUB_TOKEN):
        for path in files:
            assert secret.encode() not in path.read_bytes(), path
        assert secret not in said


def test_our_own_ray_listens_on_this_machine_only():
    with ray_cluster("local"):
        here = [psutil.Process(), *psutil.Process().children(recursive=True)]
        ports = [
            connection.laddr
            for process in here
            for connection in process.net_connections()
            if connection.status == psutil.CONN_LISTEN
        ]
    assert len(ports) > 5
    assert {port.ip.removeprefix("::ffff:") for port in ports} == {"127.0.0.1"}


def test_a_node_with_other_files_refuses(site, done):
    """Last of all: it spoils the node's cache."""
    (weights,) = site.node.glob("wicdistil/models/*/masked/model.safetensors")
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    store = str(site.folder / "refused")
    refused = site.execute(*site.build(store))
    assert refused.returncode == 1
    assert re.search(r"remote/masked differs on the node \S+ from", refused.stderr)
    assert Store.at(site.store).corpus()["models"]["masked"]["sha256"] in refused.stderr
    assert not Store.at(store).pass_store("generate").committed()
