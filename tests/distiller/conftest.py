"""What tests of word models share."""

import shutil
from pathlib import Path

import pytest
import torch

from distiller.inference.word_distiller import WordDistiller
from distiller.settings import TrainSettings
from distiller.words.model import WordModel
from distiller.words.saved import SavedModel, write_saved
from tests.testing import triple_builds
from tests.testing.frozen_models import save
from tests.testing.word_models import VALIDATION, saved_on


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small models are many times slower on two threads than on one, if both cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    return save("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def folder(frozen, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("model"))
    write_saved(path, saved_on(frozen))
    return path


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    """A saved model with random weights, whose frozen one knows the words of `triple_builds` and is beside it."""
    folder = tmp_path_factory.mktemp("model")
    backbone = triple_builds.write_masked_lm(folder / "backbone")
    settings = TrainSettings.model_validate(
        {"corpus": "corpora/none", "output": "runs/none", "backbone": {"model": backbone}, "heads": 4}
    )
    saved = SavedModel.of(WordModel(16, 4, seed=3), settings, [2, 3], {}, VALIDATION)
    write_saved(str(folder / "model"), saved)
    return str(folder / "model")


@pytest.fixture
def copied(folder, tmp_path):
    """A folder of one's own, to spoil."""
    return Path(shutil.copytree(folder, tmp_path / "copied"))


@pytest.fixture(scope="module")
def model(folder):
    return WordDistiller.from_pretrained(folder)


@pytest.fixture(scope="module")
def baseline(frozen):
    return WordDistiller.baseline(frozen)
