"""Checkpoints: what is damaged is never gone on from, and no single file's damage ends a run."""

import errno
import io
import json
import os
import random
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from corpusgen.errors import ConfigError, StoreError
from corpusgen.io.files import LocalFiles
from distiller.settings import TrainSettings
from distiller.training.checkpoints import DamagedCheckpointError, packed, unpacked
from distiller.training.loop import Training
from distiller.training.run_folder import History, RunFolder
from tests.distiller.support import made_features, settings
from tests.distiller.training.report.support import start, train

STATE = {"model": {"weight": torch.arange(2000.0)}, "progress": {"step": 3}}
LAST, PREVIOUS, OLDER_BEST = ("checkpoints/last.pt", "checkpoints/previous.pt", "checkpoints/best.pt")


def saved_by_torch(state):
    """A checkpoint as earlier versions wrote it."""
    data = io.BytesIO()
    torch.save(state, data)
    return data.getvalue()


def flipped(data, index, bit):
    damaged = bytearray(data)
    damaged[index] ^= 1 << bit
    return bytes(damaged)


def flip_in(path, index=-2000, bit=3):
    path.write_bytes(flipped(path.read_bytes(), index, bit))


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_checkpoint_is_read_as_it_was_written():
    state = unpacked(packed(STATE))
    assert same(state["model"], STATE["model"])
    assert state["progress"] == STATE["progress"]


def test_no_flipped_bit_is_ever_loaded():
    data, chance = packed(STATE), random.Random(0)
    indices = [*range(120), *(chance.randrange(len(data)) for _ in range(300))]
    for index in indices:
        with pytest.raises(DamagedCheckpointError):
            unpacked(flipped(data, index, chance.randrange(8)))


@pytest.mark.parametrize("make", [packed, saved_by_torch])
def test_what_is_cut_short_or_something_else_is_refused_by_name(tmp_path, make):
    data, chance = make(STATE), random.Random(0)
    lengths = [0, 1, 10, 60, 93, 94, 95, 200, len(data) - 1, *(chance.randrange(len(data)) for _ in range(30))]
    others = [b"not a checkpoint", b"PK\x03\x04 nor an archive", bytes(5000), data[1:], b"x" + data]
    run = RunFolder(str(tmp_path))
    for content in [*(data[:length] for length in lengths), *others]:
        run.files.write(LAST, content)
        with pytest.raises(StoreError, match=f"{tmp_path}/{LAST} is damaged"):
            run.last()


def test_a_checkpoint_of_an_earlier_version_is_read():
    assert same(unpacked(saved_by_torch(STATE))["model"], STATE["model"])


# --- runs ---


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return made_features(tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, features):
    """A run that nothing happens to."""
    return train(str(tmp_path_factory.mktemp("runs") / "whole"), features)


@pytest.fixture(scope="module")
def half(tmp_path_factory, features):
    """A run that was killed after step 20, and after its checkpoint."""
    return train(str(tmp_path_factory.mktemp("runs") / "half"), features, until=20)


@pytest.fixture
def copy(half, tmp_path):
    """The same run, to spoil."""
    return Path(shutil.copytree(half.url, tmp_path / "copy"))


def step_of(data):
    return unpacked(data)["progress"]["step"]


def assert_same_end(run, whole):
    mine, theirs = (unpacked(folder.last()) for folder in (run, whole))
    assert mine["progress"] == theirs["progress"]
    assert same(mine["best"], theirs["best"])
    assert (Path(run.url) / "steps.csv").read_bytes() == (Path(whole.url) / "steps.csv").read_bytes()


def test_the_last_two_checkpoints_are_kept(copy):
    assert step_of((copy / LAST).read_bytes()) == 20
    assert step_of((copy / PREVIOUS).read_bytes()) == 18
    assert sorted(path.name for path in (copy / "checkpoints").iterdir()) == ["last.pt", "previous.pt"]


@pytest.mark.parametrize(
    "damage", [flip_in, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"no"), Path.unlink]
)
def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one_and_says_so(copy, features, whole, damage):
    damage(copy / LAST)
    said = []
    assert step_of(RunFolder(str(copy)).last(said.append)) == 18
    (line,) = said
    assert f"{copy}/{LAST} is " in line
    assert "resuming from the previous checkpoint, at step 18" in line
    assert_same_end(train(str(copy), features), whole)


def test_a_damaged_checkpoint_before_the_last_does_not_matter(copy, features, whole):
    flip_in(copy / PREVIOUS)
    assert_same_end(train(str(copy), features), whole)


def test_without_any_good_checkpoint_the_user_is_told_what_to_do(copy, features, whole):
    flip_in(copy / LAST)
    flip_in(copy / PREVIOUS)
    with pytest.raises(StoreError) as refused:
        RunFolder(str(copy)).last()
    message = str(refused.value)
    assert f"{copy}/{LAST} is damaged: its content no longer matches its hash" in message
    assert f"{copy}/{PREVIOUS} is damaged" in message
    assert f"remove {copy}/checkpoints to train from the beginning" in message
    shutil.rmtree(copy / "checkpoints")
    assert_same_end(train(str(copy), features), whole)


class FullDisk(LocalFiles):
    """No room for another checkpoint."""

    def write(self, path, data):
        if path == LAST:
            raise OSError(errno.ENOSPC, "no space left")
        super().write(path, data)


def test_one_good_checkpoint_is_there_at_every_moment(copy, features):
    """Even if it ends between keeping the last one and writing the next, after the last one was damaged."""
    flip_in(copy / LAST)
    run, chosen = start(str(copy))
    training = Training(chosen, features)
    state = unpacked(run.last(lambda line: None))
    history = History(**state.pop("history"))
    training.load_state(state)
    run.files = FullDisk(run.url)
    with pytest.raises(OSError, match="no space left"):
        run.save(training, history)
    assert step_of((copy / LAST).read_bytes()) == step_of((copy / PREVIOUS).read_bytes()) == 18


def test_a_checkpoint_holds_the_best_weights_once(features):
    training = Training(settings(max_epochs=1), features)
    sizes = {}
    for step, _, _ in training.run():
        state = unpacked(packed(training.state()))
        assert (state["best"] is None) == (step < training.validation_interval)
        if state["best"] is not None:
            sizes[same(state["best"], state["model"])] = len(packed(training.state()))
        if step == training.validation_interval:
            best = {name: value.clone() for name, value in training.model.state_dict().items()}
        if step == training.validation_interval + 1:
            assert same(state["best"], best)
    assert sizes[True] < 0.8 * sizes[False]


# --- runs of earlier versions ---


def make_older(folder):
    """The files that an earlier version would have written."""
    (folder / PREVIOUS).unlink()
    state = unpacked((folder / LAST).read_bytes())
    best = {"step": state["progress"]["best_step"], "model": state.pop("best")}
    (folder / LAST).write_bytes(saved_by_torch(state))
    (folder / OLDER_BEST).write_bytes(saved_by_torch(best))
    return state["progress"], best


@pytest.fixture
def older(tmp_path, features):
    """A run of an earlier version, killed some steps after its best validation."""
    run = train(str(tmp_path / "older"), features, until=22)
    progress, best = make_older(Path(run.url))
    assert progress["step"] == 22 > best["step"] > 0
    return Path(run.url)


def test_a_run_of_an_earlier_version_goes_on_and_ends_the_same(older, features, whole):
    said = []
    state = unpacked(RunFolder(str(older)).last(said.append))
    assert same(state["best"], unpacked((older / OLDER_BEST).read_bytes())["model"])
    assert said == []
    assert_same_end(train(str(older), features), whole)


@pytest.mark.parametrize("lacking", [("contrast",), ("contrast", "reconstruction"), ("decay",)])
def test_a_setting_that_an_earlier_version_did_not_have_is_its_default(copy, lacking):
    path = copy / "settings.json"
    stored = json.loads(path.read_text())
    *sections, name = lacking
    of = stored[sections[0]] if sections else stored
    assert of.pop(name) is not None
    path.write_text(json.dumps(stored))
    start(str(copy))
    with pytest.raises(ConfigError, match=r"contrast: .*'reconstruction': 0.0.* there, .*'reconstruction': 0.5.* now"):
        start(str(copy), contrast={"reconstruction": 0.5})


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (Path.unlink, "is missing"),
        (lambda path: os.truncate(path, 5000), "is damaged"),
        (lambda path: path.write_bytes(saved_by_torch({"step": 1, "model": {}})), "is of step 1, not of step 18"),
    ],
)
def test_a_run_of_an_earlier_version_is_not_stuck_without_its_best_weights(older, features, damage, what):
    damage(older / OLDER_BEST)
    said = []
    assert unpacked(RunFolder(str(older)).last(said.append))["best"] is None
    assert f"{older}/{OLDER_BEST} {what}" in said[0]
    state = unpacked(train(str(older), features).last())
    assert state["progress"]["best_step"] > 22
    assert state["best"] is not None


@pytest.mark.parametrize(
    "unknown_then", [name for name, field in TrainSettings.model_fields.items() if not field.is_required()]
)
def test_a_setting_that_an_earlier_version_did_not_have_is_at_its_default(tmp_path, unknown_then):
    run = RunFolder(str(tmp_path))
    values = {"corpus": "nowhere", "output": str(tmp_path), "backbone": {"model": "none"}}
    run.ensure_same(TrainSettings.model_validate(values), {})
    stored = json.loads((tmp_path / "settings.json").read_text())
    stored.pop(unknown_then, None)
    (tmp_path / "settings.json").write_text(json.dumps(stored))
    run.ensure_same(TrainSettings.model_validate(values), {})


def test_a_finished_run_of_an_earlier_version_has_its_best_weights(whole, tmp_path):
    folder = Path(shutil.copytree(whole.url, tmp_path / "copy"))
    _, best = make_older(folder)
    assert same(unpacked(RunFolder(str(folder)).last())["best"], best["model"])


def test_a_run_on_s3_keeps_two_checkpoints_too(features, s3_root):
    run = train(f"{s3_root}/run", features, until=15)
    data = run.files.read(LAST)
    run.files.write(LAST, flipped(data, -2000, 0))
    said = []
    assert step_of(run.last(said.append)) == 12
    assert len(said) == 1
    assert step_of(run.files.read(LAST)) == 12


def test_a_history_survives_a_checkpoint(half):
    state = unpacked(half.last())
    assert asdict(History(**state["history"])) == state["history"]


def test_a_contrast_that_began_without_a_correction_for_sentences_resumes_without_one(tmp_path):
    """Its checkpoints have no weights for it."""
    run = RunFolder(str(tmp_path))

    def settings(**contrast):
        values = {"corpus": "nowhere", "output": str(tmp_path), "backbone": {"model": "none"}}
        return TrainSettings.model_validate({**values, "objective": "contrast", "contrast": contrast})

    run.ensure_same(settings(), {})
    stored = json.loads((tmp_path / "settings.json").read_text())
    del stored["contrast"]["sentence_temperature"]
    (tmp_path / "settings.json").write_text(json.dumps(stored))
    with pytest.raises(ConfigError, match=r"'sentence_temperature': None.* there, .*'sentence_temperature': 0.4.* now"):
        run.ensure_same(settings(), {})
    run.ensure_same(settings(sentence_temperature=None), {})
