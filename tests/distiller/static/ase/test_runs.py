"""The same vectors, to the bit, for any number of workers and after a kill; for other units nearly the same."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from corpusgen.config.run import RunSettings, WorkerSettings
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import ConfigError
from corpusgen.io.files import open_files
from corpusgen.store import CommittedTable, Store
from distiller.static.job import run
from tests.distiller.static.ase.support import made, near, settings
from tests.testing import PROJECT
from tests.testing.killed_builds import committed_files

ASKED = {"contexts_per_word": 4, "unit_paragraphs": 3}


@pytest.fixture(scope="module")
def undisturbed(corpus, frozen, tmp_path_factory):
    """A plain loop."""
    folder = tmp_path_factory.mktemp("undisturbed")
    made(corpus, frozen, folder, **ASKED)
    return folder


def committed(output):
    return committed_files(Store.at(f"{output}/work"))


def assert_same(output, undisturbed):
    assert committed(output) == committed(undisturbed)
    for name in ("vectors.npy", "vectors.words.txt", "vectors.npy.vocab", "README.md", "result.json"):
        assert (output / name).read_bytes() == (undisturbed / name).read_bytes()


@pytest.mark.parametrize("limit", [4, None])
def test_other_units_draw_the_same_contexts_and_give_nearly_the_same_vectors(corpus, frozen, tmp_path, limit):
    runs = {}
    for units in (1, 7, 1000):
        tables, _ = made(corpus, frozen, tmp_path / str(units), contexts_per_word=limit, unit_paragraphs=units)
        store = Store.at(f"{tmp_path}/{units}/work")
        drawn = CommittedTable(store, "thresholds", "thresholds").to_table() if limit else None
        contexts = CommittedTable(store, "vectors", "vectors").to_table(["word", "contexts"])
        runs[units] = tables["vectors"], drawn, contexts
    first, *others = runs.values()
    for other in others:
        assert other[1:] == first[1:]
        near(other[0].vectors, first[0].vectors)


def test_small_ranges_of_words_give_the_same_vectors(corpus, frozen, tmp_path, undisturbed, monkeypatch):
    monkeypatch.setattr("distiller.static.ase.job._MERGED_ROWS", 1000)
    monkeypatch.setattr("distiller.static.ase.job._MERGED_BYTES", 1000)
    made(corpus, frozen, tmp_path, **ASKED)
    store = Store.at(f"{tmp_path}/work")
    assert all(len(store.pass_store(name).plan().units) > 3 for name in ("thresholds", "vectors"))
    assert (tmp_path / "vectors.npy").read_bytes() == (undisturbed / "vectors.npy").read_bytes()


@pytest.mark.slow
def test_any_number_of_workers_on_ray_commits_the_same_bytes(corpus, frozen, tmp_path, undisturbed):
    with ray_cluster("local"):
        for workers in (2, 4):  # and one, the loop
            resources = RunSettings(workers={"encode": WorkerSettings(min_workers=workers, cpus=0.5)})
            output = tmp_path / str(workers)
            with RayExecutor(resources) as executor:
                chosen = settings(corpus, frozen, output, workers=workers, **ASKED)
                run(chosen, lambda method: (executor, resources), "npy", lambda line: None)  # noqa: B023 (used at once)
            assert_same(output, undisturbed)


@pytest.mark.parametrize("during", ["priorities", "sums"])
def test_a_killed_run_resumes_and_ends_with_the_same_bytes(corpus, frozen, tmp_path, undisturbed, during):
    output, config = tmp_path / "out", tmp_path / "static.yaml"
    config.write_text(yaml.safe_dump(settings(corpus, frozen, output, **ASKED).model_dump(mode="json")))
    command = [sys.executable, "-m", "distiller.cli", "static", config, "--executor", "local", "--format", "npy"]
    killed = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not Path(output, "work", during, "commits").exists() and killed.poll() is None:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert not (output / "result.json").exists()
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    assert_same(output, undisturbed)


class Refuses:
    """An executor that has nothing to do."""

    def run(self, pass_, store, units, tally):
        pytest.fail(f"{len(units)} units of {pass_.name} would be done again")


def test_another_format_is_written_without_doing_the_work_again(corpus, frozen, tmp_path):
    made(corpus, frozen, tmp_path, **ASKED)
    run(settings(corpus, frozen, tmp_path, **ASKED), lambda method: (Refuses(), RunSettings()), "text", print)
    assert {"vectors.txt", "vectors.npy"} <= {path.name for path in tmp_path.iterdir()}


def test_the_result_may_be_on_s3(corpus, frozen, s3_root, undisturbed):
    made(corpus, frozen, s3_root, **ASKED)
    assert committed(s3_root) == committed(undisturbed)
    assert open_files(s3_root).read("vectors.npy") == (undisturbed / "vectors.npy").read_bytes()


def test_other_settings_are_refused_with_the_fields_that_differ(corpus, frozen, tmp_path):
    made(corpus, frozen, tmp_path, **ASKED)
    with pytest.raises(ConfigError) as error:
        made(corpus, frozen, tmp_path, **{**ASKED, "contexts_per_word": 5}, seed=3)
    assert "ase.contexts_per_word: 4 there, 5 now" in str(error.value)
    assert "seed: 0 there, 3 now" in str(error.value)
    made(corpus, frozen, tmp_path, **ASKED, workers=2)


def test_a_folder_with_files_of_others_is_refused(corpus, frozen, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds other files, such as README.md; choose a new or empty folder"):
        made(corpus, frozen, tmp_path, **ASKED)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_another_seed_draws_other_contexts(corpus, frozen, tmp_path, undisturbed):
    made(corpus, frozen, tmp_path, **ASKED, seed=1)
    assert not np.array_equal(np.load(tmp_path / "vectors.npy"), np.load(undisturbed / "vectors.npy"))
