"""`distiller static` with X2Static: the same vectors by any number of workers, on Ray too, whoever is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from corpusgen.config.loading import load_settings
from corpusgen.engine import LocalExecutor
from corpusgen.errors import ConfigError, StageError, StoreError
from corpusgen.store.products import read_vocabulary
from distiller.static import job
from distiller.static.settings import StaticSettings
from distiller.static.vectors import StaticVectors
from distiller.static.x2static import training
from distiller.static.x2static.sentences import Sentences, batches
from distiller.static.x2static.trainer import ShardTrainer
from distiller.static.x2static.training import WorkerDiedError
from tests.distiller.static.x2static.teaching import save_corpus, save_frozen, taught, teacher

PROJECT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    return save_frozen(tmp_path_factory.mktemp("frozen"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return save_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def asked(corpus, frozen, tmp_path, monkeypatch):
    """Settings of a training of 18 or 12 steps."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "wicdistil").mkdir(parents=True)
    monkeypatch.setattr(training, "_LOG_STEPS", 3)
    return settings_for(corpus, frozen, tmp_path)


def settings_for(corpus, frozen, folder):
    def settings(output="vectors", workers=1, more=None, **x2static):
        own = {"batch_lines": 8, "epochs": 2, "threshold": 0.01, "learning_rate": 0.05, "checkpoint_steps": 5}
        return StaticSettings.model_validate(
            {
                "corpus": corpus,
                "output": output if "://" in output else str(folder / output),
                "kind": "x2static",
                "backbone": {"model": frozen},
                "workers": workers,
                "x2static": own | x2static,
                **(more or {}),
            }
        )

    return settings


def local(method):
    return LocalExecutor(), method.run_settings(0)


def made(settings, say=lambda line: None, executor=local):
    result = job.run(settings, executor, "npy", say)
    assert list(result["files"]) == ["vectors.npy"]
    return StaticVectors.load(f"{settings.output}/vectors.npy")


def bits(vectors):
    return np.stack([vectors[word] for word in vectors.source.vocabulary]).tobytes()


@pytest.mark.parametrize("contexts", ["sentence", "paragraph"])
def test_vectors_are_those_of_a_training_on_the_plain_models_sentences(asked, corpus, frozen, contexts):
    settings = asked(contexts=contexts, workers=2)
    found = made(settings)
    words, counts = read_vocabulary(corpus)
    assert list(found.source.vocabulary) == words
    _, rows, _ = taught(teacher(corpus, frozen, contexts=contexts))
    offsets = np.concatenate([[0], np.cumsum([len(of) for _, of in rows.values()])])
    places = [place for place, _ in rows]
    is_first = [a != b for a, b in zip(places, [None, *places[:-1]], strict=True)]
    lines = np.flatnonzero(is_first) if contexts == "paragraph" else np.arange(len(rows))
    sentences = Sentences(
        np.stack([vector for vector, _ in rows.values()]),
        np.concatenate([of for _, of in rows.values()]).astype(np.int32),
        offsets,
        np.append(lines, len(rows)),
    )
    trainer = ShardTrainer(settings.x2static, counts, 16)
    for batch in batches(sentences, settings.x2static):
        trainer.step(batch)
    assert bits(found) == trainer.vectors.tobytes()


def test_any_number_of_workers_gives_the_same_bits_and_losses(asked):
    several = [asked(f"of-{workers}", workers) for workers in (1, 2, 3, 5)]
    assert len({bits(made(settings)) for settings in several}) == 1
    (table,) = {Path(settings.output, "work", "loss.csv").read_text() for settings in several}
    header, *rows = table.splitlines()
    assert header == "step,loss,targets,negatives"
    assert [int(row.split(",")[0]) for row in rows][:3] == [3, 5, 6]
    assert float(rows[-1].split(",")[1]) < float(rows[0].split(",")[1])


KILLED = """
import os, signal, sys
from pathlib import Path
from distiller.static.x2static import training, workers
from tests.distiller.static.x2static.test_job import made, settings_for

corpus, frozen, folder, where = sys.argv[1:]
training._LOG_STEPS = 3
calls = {"commit": 0, "write_shard": 0}

def dying(module, name, after):
    original = getattr(module, name)
    def call(*arguments):
        calls[name] += 1
        if calls[name] > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)
    setattr(module, name, call)

if where == "before the manifest":
    dying(training, "commit", 2)
else:
    dying(workers, "write_shard", 4)  # of the third checkpoint, which workers begin when the first is complete
made(settings_for(corpus, frozen, Path(folder))(workers=2))
"""


@pytest.mark.parametrize("where", ["before the manifest", "with one worker's rows written"])
def test_a_killed_job_resumes_to_the_bit_with_another_number_of_workers(asked, corpus, frozen, tmp_path, where):
    arguments = [sys.executable, "-c", KILLED, corpus, frozen, str(tmp_path), where]
    ended = subprocess.run(arguments, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    said = []
    resumed = made(asked(workers=3, checkpoint_steps=4), said.append)
    assert any("resuming from the checkpoint at step" in line for line in said), said
    whole = asked("whole")
    assert bits(resumed) == bits(made(whole))
    last = [(tmp_path / name / "work/loss.csv").read_text().splitlines()[-1] for name in ("vectors", "whole")]
    assert last[0].partition(",")[0] == last[1].partition(",")[0]


def test_a_finished_job_only_writes_its_vectors_again(asked):
    first = made(asked())
    said = []
    assert bits(made(asked(workers=4), said.append)) == bits(first)
    assert not [line for line in said if line.startswith("step ")]


def test_fewer_words_share_the_vectors_of_sentences(asked, corpus):
    made(asked("all"))
    before = {path: path.stat().st_mtime_ns for path in Path(corpus, "static").rglob("*.parquet")}
    few = made(asked("few", more={"words": 5}))
    assert {path: path.stat().st_mtime_ns for path in Path(corpus, "static").rglob("*.parquet")} == before
    assert list(few.source.vocabulary) == read_vocabulary(corpus)[0][:5]


def test_s3_holds_the_same_vectors(asked, s3_root):
    here, there = made(asked(workers=2)), made(asked(s3_root, workers=2))
    assert bits(here) == bits(there)


def test_a_damaged_copy_of_the_sentences_is_noticed_and_made_again(asked, tmp_path):
    wanted = made(asked("first"))
    (copy,) = (tmp_path / "cache/wicdistil").glob("*/contexts.f16")
    data = bytearray(copy.read_bytes())
    data[len(data) // 2] ^= 1
    copy.write_bytes(data)
    with pytest.raises(StageError, match="this node's copy of the sentences is damaged, for example in sentence"):
        made(asked("second"))
    assert bits(made(asked("second"))) == bits(wanted)


def test_an_output_of_other_settings_is_refused(asked):
    made(asked())
    with pytest.raises(ConfigError, match=r"x2static\.negatives: 10 there, 4 now"):
        made(asked(negatives=4))
    with pytest.raises(ConfigError, match=r"x2static\.weights"):
        made(asked(more={"preset": "published"}))


def test_a_corpus_without_paragraphs_is_refused(asked, tmp_path):
    with pytest.raises(StoreError, match="no corpus here"):
        made(asked(more={"corpus": str(tmp_path / "nothing")}))


@pytest.fixture(scope="module")
def ray_here():
    from corpusgen.engine.cluster import ray_cluster

    with ray_cluster("local"):
        yield


def on_ray(method):
    from corpusgen.engine.ray_executor import RayExecutor

    settings = method.run_settings(0)
    return RayExecutor(settings), settings


@pytest.mark.slow
def test_workers_on_ray_give_the_same_bits(asked, ray_here):
    assert bits(made(asked("ray", 2), executor=on_ray)) == bits(made(asked("here")))


@pytest.mark.slow
def test_a_killed_worker_on_ray_is_replaced_and_the_vectors_stay_the_same(asked, ray_here, monkeypatch):
    killed = kill_after_commits(monkeypatch, 1)
    said = []
    found = made(asked("ray", 2, epochs=60, checkpoint_steps=20), said.append, on_ray)
    assert len(killed) == 1
    assert [line for line in said if line.startswith("a worker has died")], said
    assert bits(found) == bits(made(asked("here", epochs=60, checkpoint_steps=500)))


@pytest.mark.slow
def test_workers_that_keep_dying_end_the_job_with_the_remedy(asked, ray_here, monkeypatch):
    kill_after_commits(monkeypatch, 2)
    with pytest.raises(WorkerDiedError, match=r"died 2 times, .*\nrun the same command again to resume"):
        made(asked("ray", 2, epochs=60, checkpoint_steps=20, max_failures=1), executor=on_ray)


def kill_after_commits(monkeypatch, times):
    """Let a worker be killed after each of the first commits."""
    commit, killed = training.commit, []

    def deadly(files, checkpoint):
        commit(files, checkpoint)
        if len(killed) < times:
            mine = psutil.Process().children(recursive=True)
            found = next(one for one in mine if "ray::ShardWorker" in " ".join(one.cmdline()))
            os.kill(found.pid, signal.SIGKILL)
            killed.append(found.pid)

    monkeypatch.setattr(training, "commit", deadly)
    return killed


@pytest.mark.slow
def test_more_workers_than_the_cluster_has_cores_are_refused(asked, ray_here):
    with pytest.raises(ConfigError, match="workers: 999, but the cluster has"):
        made(asked("ray", 999), executor=on_ray)


def test_a_cache_that_cannot_be_written_is_named(asked):
    with pytest.raises(StageError, match=r"a worker cannot read or write: .*/proc/nothing.*check `cache`"):
        made(asked(cache="/proc/nothing"))


def test_the_ready_made_settings_are_the_papers():
    found = load_settings(StaticSettings, PROJECT / "configs/static_x2static.yaml", []).x2static
    assert (found.contexts, found.weights, found.special_tokens, found.max_pieces) == ("sentence", "word", False, 200)
