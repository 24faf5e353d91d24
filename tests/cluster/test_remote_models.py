"""A build and a training on Ray with models on S3: fetched once by a node, the same or refused, and no secret told."""

import os
from pathlib import Path

import psutil
import pytest
import ray

from corpusgen.config import BuildConfig
from corpusgen.engine import LocalExecutor
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import StageError
from corpusgen.inspect.rows import plain_rows
from corpusgen.passes import build
from corpusgen.report import write_report
from corpusgen.store import Store, TripleStore
from distiller.settings import TrainSettings
from distiller.train import train
from distiller.word_distiller import WordDistiller
from tests.generate import support
from tests.s3_proxy import S3Proxy

pytestmark = pytest.mark.slow

HUB_TOKEN = "hf_" + "planted" * 5


class Site:
    """A cluster of one node whose cache is not the driver's, and a bucket with the models."""

    def __init__(self, folder: Path, url: str, proxy: S3Proxy) -> None:
        self.folder, self.url, self.proxy = folder, url, proxy
        self.node = folder / "node/wicdistil"
        self.said: list[str] = []

    def settings(self, store: str) -> BuildConfig:
        models = {"vectors": {"path": f"{self.url}/vectors.vec"}, "masked": {"model": f"{self.url}/masked"}}
        run = {"workers": {"mask": {"min_workers": 2, "max_workers": 2}}}
        return BuildConfig.model_validate(support.settings(self.folder, **models, run=run, store=store))

    def build(self, store: str) -> None:
        """Only the pass that needs models is one for the cluster."""
        config = self.settings(store)
        build(config, LocalExecutor(), until="sample")
        build(config, RayExecutor(config.run), say=self.said.append)


@pytest.fixture(scope="module")
def site(tmp_path_factory, s3_server, s3_bucket):
    folder = tmp_path_factory.mktemp("site")
    support.settings(folder)
    files = [folder / "vectors.vec", *(folder / "masked").iterdir()]
    for path in files:
        key = f"remote/{path.relative_to(folder).as_posix()}"
        s3_server.client().put_object(Bucket=s3_bucket, Key=key, Body=path.read_bytes())
    with S3Proxy(s3_server.endpoint) as proxy, pytest.MonkeyPatch.context() as environment:
        known = {**s3_server.env(), "AWS_ENDPOINT_URL": proxy.endpoint, "HF_TOKEN": HUB_TOKEN}
        for name, value in {**known, "XDG_CACHE_HOME": str(folder / "node")}.items():
            environment.setenv(name, value)
        with ray_cluster("local"):
            environment.setenv("XDG_CACHE_HOME", str(folder / "driver"))
            yield Site(folder, f"s3://{s3_bucket}/remote", proxy)


@pytest.fixture(scope="module")
def built(site):
    """A build with two workers that load the models at the same time."""
    site.build(str(site.folder / "remote"))
    return str(site.folder / "remote")


@pytest.fixture(scope="module")
def trained(site, built):
    settings = {"corpus": built, "output": str(site.folder / "run"), "backbone": {"model": f"{site.url}/masked"}}
    settings |= {
        "features": "online",
        "heads": 4,
        "batch_size": 8,
        "validation_share": 0.3,
        "validate_every": 1.0,
        "max_epochs": 1,
    }
    return train(TrainSettings.model_validate(settings), say=site.said.append)


def rows(root):
    return [
        {name: value for name, value in row.items() if name != "unit"}
        for batch in TripleStore(root).batches()
        for row in plain_rows(batch)
    ]


def test_triples_are_those_that_local_files_give_and_each_object_comes_once_to_a_node(site, built):
    here = str(site.folder / "here")
    build(BuildConfig.model_validate(support.settings(site.folder, store=here)), LocalExecutor())
    assert rows(built) == rows(here)
    models, of_files = Store.at(built).corpus()["models"], Store.at(here).corpus()["models"]
    assert models["vectors"] == {"id": f"{site.url}/vectors.vec", "sha256": of_files["vectors"]["sha256"]}
    assert models["masked"] == {"id": f"{site.url}/masked", "sha256": of_files["masked"]["sha256"]}
    objects = {"remote/vectors.vec", *(f"remote/masked/{path.name}" for path in (site.folder / "masked").iterdir())}
    assert set(site.proxy.fetched) == objects
    # The driver has a cache of its own here; the two workers share that of the node.
    assert {site.proxy.fetched.count(key) for key in objects} == {2}


def test_a_model_is_trained_on_a_backbone_from_s3(site, trained):
    before = len(site.proxy.fetched)
    model = WordDistiller.from_pretrained(trained)
    assert model.config["backbone"]["model"] == f"{site.url}/masked"
    assert len(site.proxy.fetched) == before  # the driver had it


def test_no_secret_is_told_anywhere(site, built, trained, s3_server, capfd):
    page = site.folder / "report.html"
    write_report(built, page)
    logs = Path(ray._private.worker._global_node.get_session_dir_path()) / "logs"
    places = [Path(built), site.folder / "run", page, logs, site.node]
    files = [path for place in places for path in (place.rglob("*") if place.is_dir() else [place]) if path.is_file()]
    assert len(files) > 50
    for secret in (s3_server.access_key, s3_server.secret_key, HUB_TOKEN):
        assert os.environ.get("AWS_SECRET_ACCESS_KEY") == s3_server.secret_key
        for path in files:
            assert secret.encode() not in path.read_bytes(), path
        assert secret not in "".join(site.said) + "".join(capfd.readouterr())


def test_our_own_ray_listens_on_this_machine_only(site):
    here = [psutil.Process(), *psutil.Process().children(recursive=True)]
    ports = [
        connection.laddr
        for process in here
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(ports) > 5
    assert {port.ip.removeprefix("::ffff:") for port in ports} == {"127.0.0.1"}


def test_a_node_with_other_files_refuses(site, built):
    """Last of all: it spoils the node's cache."""
    (weights,) = site.node.glob("models/*/masked/model.safetensors")
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    store = str(site.folder / "refused")
    with pytest.raises(StageError, match=r"remote/masked is another one on the node \S+ than") as refused:
        site.build(store)
    assert Store.at(built).corpus()["models"]["masked"]["sha256"] in str(refused.value)
    assert not Store.at(store).pass_store("generate").committed()
