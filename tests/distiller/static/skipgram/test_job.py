"""`distiller static` with dynamic skip-gram: the vectors of a plain computation, resumed to the bit, on Ray too."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from corpusgen.engine import LocalExecutor
from corpusgen.errors import ConfigError, CorpusgenError, StoreError
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import open_product, read_vocabulary
from distiller.static import job
from distiller.static.settings import StaticSettings
from distiller.static.skipgram import training
from distiller.static.skipgram.objective import new_map
from distiller.static.skipgram.teacher import FEW_WORDS, TOO_LONG, TOO_SHORT, words_store
from distiller.static.skipgram.trainer import SkipgramTrainer
from distiller.static.vectors import StaticVectors
from distiller.static.x2static.kernel import alias_table, permuted, stream_key, with_negatives
from tests.distiller.static.skipgram.plain import PlainTrainer, window
from tests.distiller.static.x2static.teaching import LAYERS, save_corpus, save_frozen

PROJECT = Path(__file__).parents[4]
SHORT = {"min_tokens": 6, "max_tokens": 16}


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    return save_frozen(tmp_path_factory.mktemp("frozen"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return save_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def asked(corpus, frozen, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "wicdistil").mkdir(parents=True)
    return settings_for(corpus, frozen, tmp_path)


def settings_for(corpus, frozen, folder):
    def settings(output="vectors", workers=1, more=None, **skipgram):
        own = {"dimension": 6, "epochs": 2, "checkpoint_steps": 7, "optimizer": "adagrad", "batch_lines": 5, **SHORT}
        return StaticSettings.model_validate(
            {
                "corpus": corpus,
                "output": output if "://" in output else str(folder / output),
                "kind": "skipgram",
                "backbone": {"model": frozen},
                "workers": workers,
                "skipgram": own | skipgram,
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


# --- the same by hand ---


def read_plainly(corpus, model, rare_words):
    """Tokens of each sentence with their vectors, from plain transformers."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    encoder = transformers.AutoModel.from_pretrained(model, dtype=torch.float32).eval()
    words, _ = read_vocabulary(corpus)
    number = {word: n for n, word in enumerate(words)}
    for row in open_product(corpus, "paragraphs").to_table().to_pylist():
        spans = list(zip(row["token_starts"], row["token_ends"], strict=True))
        for begin, end in zip(row["sentence_starts"], row["sentence_ends"], strict=True):
            own = [(a, b) for a, b in spans if begin <= a and b <= end]
            tokens = [number.get(row["text"][a:b].lower(), -1) for a, b in own]
            if not SHORT["min_tokens"] <= len(tokens) <= SHORT["max_tokens"] and rare_words == "keep":
                continue
            text, places = row["text"][begin:end].lower(), [(a - begin, b - begin) for a, b in own]
            if rare_words == "drop":
                tokens = [token for token in tokens if token >= 0]
                if not SHORT["min_tokens"] <= len(tokens) <= SHORT["max_tokens"]:
                    continue
                text, places = "", []
                for token in tokens:
                    text += " " if text else ""
                    places.append((len(text), len(text) + len(words[token])))
                    text += words[token]
            if sum(token >= 0 for token in tokens) < 2:
                continue
            read = tokenizer(text, return_offsets_mapping=True)
            with torch.no_grad():
                hidden = encoder(torch.tensor([read["input_ids"]]), output_hidden_states=True).hidden_states
            states, vectors = hidden[LAYERS][0].numpy(), {}
            for place, (a, b) in enumerate(places):
                pieces = [n for n, (c, d) in enumerate(read["offset_mapping"]) if c < d and c < b and a < d]
                if tokens[place] >= 0 and pieces:
                    vectors[place] = states[pieces].mean(0).astype(np.float16).astype(np.float64)
            yield tokens, vectors


def trained_plainly(settings, corpus, model):
    import torch

    own = settings.skipgram
    sentences = list(read_plainly(corpus, model, own.rare_words))
    begun = np.cumsum([0, *(len(tokens) for tokens, _ in sentences)])
    _, counts = read_vocabulary(corpus)
    share, other = alias_table(counts.astype(np.float64) ** own.negative_exponent)
    start = new_map(own, 16, torch.Generator().manual_seed(own.seed))
    bias = np.zeros(own.dimension) if start.bias is None else start.bias.detach().numpy()
    per_epoch = -(-len(sentences) // own.batch_lines)
    trainer = PlainTrainer(own, start.weight.detach().numpy(), bias, len(counts), own.epochs * per_epoch)
    losses = []
    for step in range(own.epochs * per_epoch):
        epoch, at = divmod(step, per_epoch)
        first, last = at * own.batch_lines, min((at + 1) * own.batch_lines, len(sentences))
        key = stream_key(own.seed, b"dsg negatives", epoch)
        states, contexts, negatives = [], [], []
        for number in permuted(first, last, len(sentences), stream_key(own.seed, b"dsg lines", epoch)):
            tokens, vectors = sentences[number]
            for place, state in vectors.items():
                around = window(tokens, place, own.window, own.centre)
                words = [tokens[j] for j in around if tokens[j] >= 0]
                if words:
                    states.append(state)
                    contexts.append(words)
                    assert own.negatives_per == "centre"
                    places = np.array([begun[number] + place])
                    none = np.zeros(1, np.int32)
                    negatives += [with_negatives(none, places, share, other, own.negatives, key)[0, 1:]]
        losses.append(trainer.train(states, contexts, negatives))
    return trainer.table, losses


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"optimizer": "sgd", "batch_lines": None, "clip_gradient": 0.5},
        {"centre": "include", "attention": "none", "bias": True, "decay": "none"},
        {"rare_words": "drop", "attention": "pairs"},
    ],
    ids=lambda form: " ".join(form) or "defaults",
)
def test_vectors_are_those_of_a_plain_computation(asked, corpus, frozen, form, monkeypatch):
    monkeypatch.setattr(training, "_LOG_STEPS", 1000)  # all steps in one row
    settings = asked(checkpoint_steps=1000, **form)
    found = made(settings)
    table, losses = trained_plainly(settings, corpus, frozen)
    assert list(found.source.vocabulary) == read_vocabulary(corpus)[0]
    assert np.abs(table).max() > 0.005
    np.testing.assert_allclose(found.vectors, table, atol=2e-5)
    last = Path(settings.output, "work/loss.csv").read_text().splitlines()[-1].split(",")
    means = np.mean(losses, axis=0)
    np.testing.assert_allclose([float(value) for value in last[1:]], [means.sum(), *means], rtol=1e-4)


def test_vectors_made_while_training_are_those_from_disk_up_to_rounding(asked):
    cached, online = made(asked("cached")), made(asked("online", teacher="online"))
    np.testing.assert_allclose(online.vectors, cached.vectors, atol=2e-3)
    assert bits(online) == bits(made(asked("again", teacher="online")))


def test_sentences_that_are_not_trained_on_are_counted_with_a_reason(asked, corpus):
    made(asked(min_tokens=7, max_tokens=9))
    stores = Path(corpus, "static").iterdir()
    (own,) = [store for store in stores if '"max_tokens": 9' in (store / "corpus.json").read_text()]
    reasons = CommittedTable(Store.at(str(own)), "words", "rejects").to_table()["reason"].to_pylist()
    assert {TOO_SHORT, TOO_LONG} <= set(reasons) <= {TOO_SHORT, TOO_LONG, FEW_WORDS}


def test_the_published_preset_is_what_the_published_code_does(asked):
    settings = asked(more={"preset": "published"}, optimizer="sgd", batch_lines=None)
    own = settings.skipgram
    form = (own.centre, own.attention, own.negatives_per, own.bias, own.rare_words, own.learning_rate, own.batch_lines)
    assert form == ("published", "pairs", "pair", True, "drop", 0.08, 1)
    assert np.isfinite(made(settings).vectors).all()


# --- resuming ---


KILLED = """
import os, signal, sys
from pathlib import Path
from distiller.static.skipgram import training
from tests.distiller.static.skipgram.test_job import made, settings_for

corpus, frozen, folder, where = sys.argv[1:]
save, calls = training.save, []

def dying(files, trainer, losses):
    calls.append(0)
    if len(calls) == 3 and where == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    save(files, trainer, losses)
    if len(calls) == 2 and where == "after":
        os.kill(os.getpid(), signal.SIGKILL)

training.save = dying
made(settings_for(corpus, frozen, Path(folder))())
"""


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_killed_job_resumes_to_the_bit(asked, corpus, frozen, tmp_path, where):
    arguments = [sys.executable, "-c", KILLED, corpus, frozen, str(tmp_path), where]
    ended = subprocess.run(arguments, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    said = []
    resumed = made(asked(), said.append)
    assert any("resuming from the checkpoint at step 14" in line for line in said), said
    assert bits(resumed) == bits(made(asked("whole")))
    tables = [(tmp_path / name / "work/loss.csv").read_text() for name in ("vectors", "whole")]
    assert tables[0] == tables[1]


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(asked, tmp_path):
    whole = made(asked())
    newest = sorted((tmp_path / "vectors/work/checkpoints").glob("*.pt"))[-1]
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    said = []
    assert bits(made(asked(), said.append)) == bits(whole)
    assert any("is damaged" in line for line in said)


def test_a_finished_job_only_writes_its_vectors_again(asked):
    first = made(asked())
    said = []
    assert bits(made(asked(), said.append)) == bits(first)
    assert not [line for line in said if line.startswith("step ")]


def test_s3_holds_the_same_vectors(asked, s3_root):
    assert bits(made(asked())) == bits(made(asked(s3_root)))


# --- refusals ---


def test_an_output_of_other_settings_is_refused(asked):
    made(asked())
    with pytest.raises(ConfigError, match=r"skipgram\.window: 5 there, 4 now"):
        made(asked(window=4))


def test_sentences_of_which_none_is_fit_are_refused_with_the_settings(asked):
    with pytest.raises(StoreError, match=r"no sentence is fit for training; .* min_tokens and max_tokens"):
        made(asked(min_tokens=200, max_tokens=300))


def test_a_disk_that_is_too_small_is_noticed_before_anything_is_read(asked, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10}))
    with pytest.raises(
        StoreError, match=r"vectors of words and their copy on this node may need .* or use skipgram\.teacher: online"
    ):
        made(asked(min_tokens=8))
    made(asked("online", min_tokens=8, teacher="online"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_tokens": 50}, "min_tokens: 50 is more than max_tokens: 16"),
        ({"centre": "often"}, "skipgram.centre"),
    ],
)
def test_settings_without_sense_are_refused(asked, wrong, message):
    with pytest.raises(ValueError, match=message):
        asked(**wrong)


def test_more_workers_than_sentences_in_a_step_are_refused(asked):
    with pytest.raises(ConfigError, match=r"workers: 2, but skipgram\.batch_lines: 1: each worker needs a sentence"):
        made(asked(workers=2, batch_lines=1))


def test_a_checkpoint_that_cannot_be_written_ends_the_training_with_the_remedy(asked, monkeypatch):
    def full(files, trainer, losses):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(training, "save", full)
    with pytest.raises(CorpusgenError, match="No space left on device\nrun the same command again to resume"):
        made(asked())


@pytest.mark.parametrize("teacher", ["cached", "online"])
def test_a_worker_without_a_sentence_of_a_small_step_takes_part_all_the_same(asked, frozen, teacher):
    settings = asked(teacher=teacher)
    made(settings)
    method, _ = job.prepare(settings)
    states = words_store(settings.corpus, method._made_with) if teacher == "cached" else None
    own = settings.skipgram
    task = training.Task(own, method._teacher, method._made_with, states, len(method.inputs.words), None)
    lines = task.lines("cpu")
    alone = SkipgramTrainer(own, method.inputs.counts, lines)
    last = alone.steps_per_epoch - 1
    assert len(lines) % own.batch_lines  # the last step is smaller
    sizes = [
        len(SkipgramTrainer(own, method.inputs.counts, lines, rank, 5).batch(last).bounds) - 1 for rank in range(5)
    ]
    assert min(sizes) == 0
    assert sum(sizes) == len(lines) % own.batch_lines


# --- on Ray ---


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
def test_two_workers_make_the_steps_of_one_and_repeat_to_the_bit(asked, ray_here):
    alone, together = made(asked("one")), made(asked("two", 2), executor=on_ray)
    np.testing.assert_allclose(together.vectors, alone.vectors, atol=1e-5)
    assert bits(together) == bits(made(asked("again", 2), executor=on_ray))


@pytest.mark.slow
def test_a_killed_worker_on_ray_is_replaced_and_the_vectors_stay_the_same(asked, ray_here, tmp_path):
    killed = []

    def kill_one():
        while not list((tmp_path / "ray/work/checkpoints").glob("*.pt")):
            time.sleep(0.02)
        workers = [one for one in psutil.Process().children(recursive=True) if "TrainWorker" in "".join(one.cmdline())]
        workers[-1].kill()
        killed.append(workers[-1].pid)

    thread = threading.Thread(target=kill_one)
    thread.start()
    found = made(asked("ray", 2, epochs=100, checkpoint_steps=20), executor=on_ray)
    thread.join()
    assert killed
    assert bits(found) == bits(made(asked("quiet", 2, epochs=100, checkpoint_steps=20), executor=on_ray))
