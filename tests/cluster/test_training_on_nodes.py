"""A training whose workers are on different Ray nodes learns what it does on one."""

import csv

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from distiller.settings import TrainSettings
from distiller.training.job import train
from tests.testing import triple_builds as support
from tests.testing.ray_nodes import ray_nodes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    build(BuildConfig.model_validate(support.settings(folder)), LocalExecutor())
    return folder


def train_on(corpus, folder, nodes):
    """Train with two workers on nodes that have so many CPUs; the losses, and how many of the nodes had a worker.

    Each node has a cache of its own, as machines have, and a worker leaves its copy of the layer states there.
    """
    settings = {"corpus": f"{corpus}/store", "output": f"{folder}/run", "backbone": {"model": f"{corpus}/masked"}}
    settings |= {"heads": 4, "batch_size": 8, "learning_rate": 0.001, "warmup_steps": 2, "max_epochs": 10}
    settings |= {"validation_share": 0.3, "validate_every": 2.5, "log_steps": 1, "patience": 1000, "workers": 2}
    with ray_nodes(0) as cluster:
        for number, cpus in enumerate(nodes):
            cluster.add_node(num_cpus=cpus, env_vars={"XDG_CACHE_HOME": f"{folder}/cache-{number}"})
        train(TrainSettings.model_validate(settings), say=lambda text: None)
    with open(folder / "run/steps.csv") as steps:
        return list(csv.DictReader(steps)), len(list(folder.glob("cache-*/wicdistil/*/complete.json")))


def test_workers_on_two_nodes_learn_what_they_do_on_one(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    losses, used = train_on(corpus, tmp_path / "two", nodes=[1, 1])
    assert used == 2
    expected, used = train_on(corpus, tmp_path / "one", nodes=[2])
    assert used == 1
    assert len(losses) > 20
    assert losses == expected
