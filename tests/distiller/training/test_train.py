"""The job as a user runs it: from a corpus to a saved model, on Ray Train, whatever dies on the way."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch
import yaml
from safetensors.torch import load_file

from corpusgen.config.build import BuildConfig
from corpusgen.config.loading import load_settings
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.errors import CorpusgenError
from corpusgen.io.files import open_files
from corpusgen.store.products import open_product
from distiller.inference.word_distiller import WordDistiller
from distiller.settings import TrainSettings
from distiller.training.checkpoints import unpacked
from distiller.training.job import features_run
from distiller.training.job import train as run_training
from distiller.words.model import WordModel
from tests.testing import PROJECT
from tests.testing import triple_builds as support

SLOW = pytest.mark.slow
EPOCHS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus and the settings of a training on it."""
    folder = tmp_path_factory.mktemp("train")
    build(BuildConfig.model_validate(support.settings(folder)), LocalExecutor())
    settings = {
        "corpus": str(folder / "store"),
        "output": "runs/whole",
        "backbone": {"model": str(folder / "masked")},
        "heads": 4,
        "batch_size": 8,
        "learning_rate": 0.001,
        "warmup_steps": 2,
        "max_epochs": EPOCHS,
        "validation_share": 0.3,
        "validate_every": 2.5,
        "checkpoint_steps": 7,
        "log_steps": 1,
        "patience": 1000,
        "workers": 2,
    }
    (folder / "train.yaml").write_text(yaml.safe_dump(settings))
    return folder


def start(folder, *arguments):
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "distiller.cli", "train", folder / "train.yaml", *arguments]
    return subprocess.Popen(
        list(map(str, command)), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def train(folder, *overrides, options=()):
    settings = [part for override in overrides for part in ("--set", override)]
    process = start(folder, *options, *settings)
    output, errors = process.communicate(timeout=400)
    return subprocess.CompletedProcess("train", process.returncode, output, errors)


def losses(folder, name):
    with open(folder / "runs" / name / "steps.csv") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def whole(folder):
    """A run that nothing interrupts."""
    trained = train(folder)
    assert trained.returncode == 0, trained.stderr
    return trained


@SLOW
def test_a_corpus_becomes_a_model_and_the_same_command_does_nothing_more(folder, whole):
    run = folder / "runs/whole"
    described = json.loads((run / "model/config.json").read_text())
    model = WordModel(described["dimension"], described["heads"])
    model.load_state_dict(load_file(run / "model/model.safetensors"))
    assert described["layers"] == [2, 3]
    # What the model says of itself is of the weights that it has.
    last = unpacked((run / "checkpoints/last.pt").read_bytes())
    assert described["validation"]["step"] == last["progress"]["best_step"]
    assert all(torch.equal(value, last["best"][name]) for name, value in model.state_dict().items())
    assert "layers 2 to 3" in (run / "model/README.md").read_text()
    steps = losses(folder, "whole")
    assert list(steps[0])[:3] == ["step", "loss", "self_original"]
    assert [int(row["step"]) for row in steps] == list(range(1, len(steps) + 1))
    assert len(steps) % EPOCHS == 0
    assert "held out" in (run / "loss.svg").read_text()
    assert list((run / "tensorboard").glob("events.*"))
    assert "rows/s" in whole.stderr
    assert re.search(r"\d% of \d+ held-out triples whose positive is another word ordered, .*% by the", whole.stdout)
    assert f"report: {run}/report.html" in whole.stdout
    page = (run / "report.html").read_text()
    assert f"Trained to the end: {EPOCHS} epochs, {len(steps):,} steps." in page
    assert "2 workers" in page
    assert "reload this page" not in page

    again = train(folder)
    assert again.returncode == 0
    assert "already trained" in again.stdout
    refused = train(folder, "seed=1")
    assert refused.returncode == 2
    assert "seed: 0 there, 1 now" in refused.stderr


def wait_for_steps(folder, name, number, process):
    deadline = time.monotonic() + 200
    while process.poll() is None and time.monotonic() < deadline:
        path = folder / "runs" / name / "steps.csv"
        if path.exists() and len(path.read_text().splitlines()) > number:
            return
        time.sleep(0.05)
    raise AssertionError(f"it ended before step {number}: {process.communicate()}")


def processes_of(process):
    return psutil.Process(process.pid).children(recursive=True)


@SLOW
def test_a_killed_worker_leaves_no_trace_in_the_losses(folder, whole):
    process = start(folder, "--set", f"output={folder}/runs/worker")
    wait_for_steps(folder, "worker", 10, process)
    workers = [one for one in processes_of(process) if "TrainWorker" in "".join(one.cmdline())]
    assert len(workers) == 2
    os.kill(workers[1].pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    assert len(list((folder / "runs/worker/tensorboard").glob("events.*"))) == 2  # it really was started again
    assert losses(folder, "worker") == losses(folder, "whole")


@SLOW
def test_a_killed_job_goes_on_with_the_same_losses(folder, whole):
    process = start(folder, "--set", f"output={folder}/runs/job")
    wait_for_steps(folder, "job", 10, process)
    doomed = processes_of(process)
    process.kill()
    for one in doomed:
        one.kill()
    process.communicate()
    assert len(losses(folder, "job")) < len(losses(folder, "whole"))  # it really died in the middle
    assert "reload this page" in (folder / "runs/job/report.html").read_text()
    resumed = train(folder, f"output={folder}/runs/job")
    assert resumed.returncode == 0, resumed.stderr
    assert losses(folder, "job") == losses(folder, "whole")
    assert "the training was stopped and later resumed" in (folder / "runs/job/report.html").read_text()


def flip_bit(path, index):
    data = bytearray(path.read_bytes())
    data[index] ^= 1
    path.write_bytes(data)


@SLOW
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_gone_on_from(folder, whole):
    run = shutil.copytree(folder / "runs/whole", folder / "runs/damaged")
    shutil.rmtree(run / "model")
    flip_bit(run / "checkpoints/last.pt", 50_000)
    resumed = train(folder, f"output={run}")
    assert resumed.returncode == 0, resumed.stderr
    assert f"{run}/checkpoints/last.pt is damaged: its content no longer matches its hash" in resumed.stdout
    assert "resuming from the previous checkpoint, at step" in resumed.stdout
    assert losses(folder, "damaged") == losses(folder, "whole")
    same_model = "model/model.safetensors"
    assert (run / same_model).read_bytes() == (folder / "runs/whole" / same_model).read_bytes()
    for path in (run / "checkpoints").iterdir():
        flip_bit(path, 50_000)
    shutil.rmtree(run / "model")
    refused = train(folder, f"output={run}")
    assert refused.returncode == 1
    assert f"remove {run}/checkpoints to train from the beginning" in refused.stderr
    assert "Traceback" not in refused.stderr


@SLOW
def test_a_damaged_copy_on_the_node_is_made_again_while_it_trains(folder, whole):
    (states,) = (folder / "cache/wicdistil").glob("*/states.f16")
    before = states.read_bytes()
    for row in range(0, len(before), 192):  # whichever row is read first
        flip_bit(states, row + 5)
    trained = train(folder, f"output={folder}/runs/healed")
    assert trained.returncode == 0, trained.stderr
    assert losses(folder, "healed") == losses(folder, "whole")
    assert states.read_bytes() == before
    flip_bit(states, 5)
    flip_bit(states, len(before) // 2)
    refused = train(folder, f"output={folder}/runs/refuses", "max_failures=0")
    assert refused.returncode == 1
    assert "this node's copy of the layer states is damaged, for example in row" in refused.stderr
    assert "run the same command again to resume from the last checkpoint" in refused.stderr
    assert "Traceback" not in refused.stderr


@SLOW
def test_of_two_trainings_into_one_output_the_second_is_refused_by_the_name_of_the_first(folder, whole):
    first = start(folder, "--set", f"output={folder}/runs/shared")
    wait_for_steps(folder, "shared", 10, first)
    second = train(folder, f"output={folder}/runs/shared")
    assert second.returncode == 1
    assert f"{folder}/runs/shared is in use: a training by" in second.stderr
    assert f"process {first.pid}, since" in second.stderr
    assert "Traceback" not in second.stderr
    _, errors = first.communicate(timeout=400)
    assert first.returncode == 0, errors
    assert losses(folder, "shared") == losses(folder, "whole")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 300 kB, and a function that enlarges it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk], check=False).returncode
    ):
        pytest.skip("only root can make a small disk")
    yield disk, lambda: subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
    subprocess.run(["umount", "-l", disk], check=True)


@SLOW
def test_a_full_disk_is_one_message_and_the_run_goes_on_when_there_is_room(folder, whole, small_disk):
    disk, enlarge = small_disk
    failed = train(folder, f"output={disk}/run")
    assert failed.returncode == 1
    assert f"no space left to write {disk}/run/checkpoints; free some" in failed.stderr
    assert "run the same command again to resume from the last checkpoint" in failed.stderr
    assert "Traceback" not in failed.stderr + failed.stdout
    assert unpacked((disk / "run/checkpoints/last.pt").read_bytes())["progress"]["step"] > 0
    assert not list((disk / "run/checkpoints").glob(".tmp-*"))
    enlarge()
    resumed = train(folder, f"output={disk}/run")
    assert resumed.returncode == 0, resumed.stderr
    assert (disk / "run/steps.csv").read_bytes() == (folder / "runs/whole/steps.csv").read_bytes()


def assert_same_curve(one, other):
    assert len(one) == len(other)
    for mine, theirs in zip(one, other, strict=True):
        assert {name: float(value) for name, value in mine.items()} == pytest.approx(
            {name: float(value) for name, value in theirs.items()}, abs=1e-5
        )


@SLOW
def test_one_worker_learns_what_two_do(folder, whole):
    trained = train(folder, f"output={folder}/runs/one", "workers=1")
    assert trained.returncode == 0, trained.stderr
    assert_same_curve(losses(folder, "one"), losses(folder, "whole"))


@SLOW
def test_states_computed_online_teach_the_same_as_cached_ones(folder, whole):
    trained = train(folder, f"output={folder}/runs/online", "features=online", "max_epochs=5")
    assert trained.returncode == 0, trained.stderr
    few = len(losses(folder, "online"))
    # Cached states are rounded to half precision.
    for mine, theirs in zip(losses(folder, "online"), losses(folder, "whole")[:few], strict=True):
        assert float(mine["loss"]) == pytest.approx(float(theirs["loss"]), rel=2e-3)


@SLOW
def test_a_run_may_lie_on_s3_is_ended_by_ctrl_c_and_goes_on_there(folder, whole, s3_root):
    process = start(folder, "--set", f"output={s3_root}/run")
    files = open_files(f"{s3_root}/run")
    deadline = time.monotonic() + 200
    while not files.exists("steps.csv") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "stopped; run the same command again to resume from the last checkpoint" in errors
    assert "Traceback" not in output + errors
    whole_run = (folder / "runs/whole/steps.csv").read_bytes()
    assert len(files.read("steps.csv")) < len(whole_run)
    resumed = train(folder, f"output={s3_root}/run")
    assert resumed.returncode == 0, resumed.stderr
    assert files.read("steps.csv") == whole_run
    assert {"config.json", "model.safetensors"} <= {info.path.rpartition("/")[2] for info in files.list("model")}
    assert len(list(files.list("tensorboard"))) >= 1
    assert b"Trained to the end" in files.read("report.html")


@SLOW
def test_a_learning_rate_is_suggested(folder):
    found = train(folder, f"output={folder}/runs/find", options=["--find-lr"])
    assert found.returncode == 0, found.stderr
    assert "suggested: learning_rate:" in found.stdout
    with open(folder / "runs/find/find_lr.csv") as file:
        rates = [float(row["learning_rate"]) for row in csv.DictReader(file)]
    assert rates == sorted(rates)
    assert "suggested: " in (folder / "runs/find/find_lr.svg").read_text()
    assert not (folder / "runs/find/model").exists()


@SLOW
def test_a_loss_that_is_no_number_ends_the_run_at_once_with_advice(folder):
    failed = train(folder, f"output={folder}/runs/soars", "learning_rate=1e30", "warmup_steps=0")
    assert failed.returncode == 2
    assert "lower learning_rate" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.fixture(scope="module")
def both(folder):
    """What to change for a training on triples and pairs."""
    settings = support.settings(folder, **support.AND_PAIRS, store=str(folder / "both"))
    settings["discourse"] = {**settings["discourse"], "unit_pairs": 10}
    build(BuildConfig.model_validate(settings), LocalExecutor())
    contrast = ["objective=contrast", "contrast.reconstruction=0.2", "backbone.first_layer=1", "table=triples+pairs"]
    return [f"corpus={folder}/both", *contrast, "max_epochs=4"]


@SLOW
def test_triples_and_pairs_become_one_model(folder, both):
    trained = train(folder, *both, f"output={folder}/runs/both")
    assert trained.returncode == 0, trained.stderr
    for table in ("triples", "pairs"):
        assert re.search(rf"features: \d+ {table} × ", trained.stdout)
    run = folder / "runs/both"
    assert json.loads((run / "model/config.json").read_text())["training"]["table"] == "triples+pairs"
    assert "Trained by wicdistil on triples and pairs" in (run / "model/README.md").read_text()
    page = (run / "report.html").read_text()
    counts = {table: open_product(str(folder / "both"), table).num_rows for table in ("triples", "pairs")}
    for table, count in counts.items():
        assert re.search(rf">{table}<.*?>{count}<", page, re.DOTALL)
    names = ["step", "loss", "meaning", "context", "preservation", "sentence", "reconstruction"]
    assert list(losses(folder, "both")[0]) == names
    progress = json.loads((run / "progress.json").read_text())
    assert sum(progress[name] for name in ("trained_on", "held_out", "left_out")) == sum(counts.values())
    assert f"{progress['left_out']:,} left out" in page  # rows that share a sentence with held-out ones
    assert WordDistiller.from_pretrained(str(run)).encode_words(["river"], ["The river rose."]).shape == (1, 16)
    online = train(folder, *both, f"output={folder}/runs/both-online", "features=online", "workers=1")
    assert online.returncode == 0, online.stderr
    for mine, theirs in zip(losses(folder, "both-online"), losses(folder, "both"), strict=True):
        assert float(mine["loss"]) == pytest.approx(float(theirs["loss"]), rel=2e-3)


def refusal(folder, *overrides):
    """The message of a training that must not start."""
    started = []
    settings = load_settings(TrainSettings, folder / "train.yaml", overrides)
    with pytest.raises(CorpusgenError) as refused:
        run_training(settings, say=started.append)
    assert not started
    return str(refused.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("corpus=nowhere", "nowhere"),
        ("backbone.model=/no/such/model", "backbone /no/such/model: no such folder"),
        ("heads=5", "heads: 5 heads cannot share 16 dimensions evenly"),
        ("objective=contrast contrast.base_layers=5", "contrast.base_layers: 5, but only 3 layers"),
        ("objective=contrast batch_size=1", "batch_size: 1, but contrast needs at least 2 rows"),
        ("objective=contrast contrast.head=transformer heads=5", "heads: 5 heads cannot share 16 dimensions evenly"),
        ("validation_share=0.000001", "0 to validate with; build a larger corpus, or change validation_share or"),
        pytest.param("workers=99", "workers: 99, but there are", marks=SLOW),
    ],
)
def test_what_cannot_work_is_named_before_any_work_starts(folder, override, message):
    assert message in refusal(folder, f"output={folder}/runs/refused", *override.split())
    assert not (folder / "runs/refused/checkpoints").exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("table=triples+pears", "/both holds triples and pairs, not pears"),
        ("objective=reconstruct", "needs a negative in the sentence of the original"),
        ("corpus={folder}/store", "/store holds triples, not pairs"),
        ("corpus={folder}/unfinished", "is still being built, so its pairs would change during training"),
    ],
)
def test_both_tables_must_be_there_whole_and_fit(folder, both, override, message):
    unfinished = folder / "unfinished"
    if not unfinished.exists():
        shutil.copytree(folder / "both", unfinished)
        next((unfinished / "pairs/commits").iterdir()).unlink()
    found = refusal(folder, *both, f"output={folder}/runs/refused", override.format(folder=folder))
    assert message in found


def test_a_run_does_not_go_on_with_other_triples(folder, tmp_path):
    (tmp_path / "settings.json").write_text(json.dumps({"made of": {"triples": {"rows": 1}}}))
    message = refusal(folder, f"output={tmp_path}")
    assert "holds a run with different settings or data" in message
    assert "made of: {'triples': {'rows': 1}} there" in message


def test_a_damaged_run_is_named(folder, tmp_path):
    (tmp_path / "settings.json").write_text("{")
    assert "settings.json is damaged" in refusal(folder, f"output={tmp_path}")


def test_a_corpus_without_triples_is_named(folder, tmp_path):
    settings = support.settings(tmp_path, rules={"negative_min_probability": 1.0})
    build(BuildConfig.model_validate(settings), LocalExecutor())
    assert "has no triples yet" in refusal(folder, f"corpus={tmp_path}/store", f"output={tmp_path}/run")


def test_a_corpus_that_is_still_being_built_is_refused(folder, tmp_path):
    shutil.copytree(folder / "store", tmp_path / "store")
    commits = sorted((tmp_path / "store/generate/commits").iterdir())
    assert len(commits) > 1
    commits[0].unlink()
    message = refusal(folder, f"corpus={tmp_path}/store", f"output={tmp_path}/run")
    assert "is still being built" in message
    assert "`corpusgen build`" in message
    assert not (tmp_path / "run").exists()


def test_a_mistake_in_the_settings_is_one_message_and_an_exit_code(folder):
    refused = train(folder, "learning_rat=1")
    assert refused.returncode == 2
    assert "learning_rat: unknown key; did you mean 'learning_rate'?" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_features_are_computed_on_all_gpus_or_on_cpus():
    assert features_run(0).workers == {}
    assert features_run(4).workers["features"].model_dump(exclude_none=True) == {"gpus": 1, "max_workers": 4}
