"""The job as a user runs it: from a corpus of triples to a saved model, on Ray Train."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from corpusgen.config import BuildConfig
from corpusgen.engine import LocalExecutor
from corpusgen.passes import build
from distiller.model import WordModel
from tests.generate import support

PROJECT = Path(__file__).parents[2]


def distiller(*arguments, cwd):
    command = [sys.executable, "-m", "distiller.cli", *map(str, arguments)]
    environment = {"XDG_CACHE_HOME": str(cwd), "PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin", "HOME": str(cwd)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=400, check=False)


@pytest.fixture
def config(tmp_path):
    build(BuildConfig.model_validate(support.settings(tmp_path)), LocalExecutor())
    path = tmp_path / "train.yaml"
    settings = {
        "corpus": str(tmp_path / "store"),
        "output": str(tmp_path / "runs/tiny"),
        "backbone": {"model": str(tmp_path / "masked")},
        "heads": 4,
        "batch_size": 8,
        "learning_rate": 0.001,
        "warmup_steps": 2,
        "max_epochs": 2,
        "validation_share": 0.3,
        "validate_every": 0.5,
    }
    path.write_text(yaml.safe_dump(settings))
    return path


@pytest.mark.slow
def test_a_corpus_becomes_a_model_and_the_same_command_does_nothing_more(config, tmp_path):
    trained = distiller("train", config, cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    folder = tmp_path / "runs/tiny/model"
    described = json.loads((folder / "config.json").read_text())
    model = WordModel(described["dimension"], described["heads"])
    model.load_state_dict(load_file(folder / "model.safetensors"))
    assert described["layers"] == [2, 3]
    assert "layers 2 to 3" in (folder / "README.md").read_text()
    steps = (tmp_path / "runs/tiny/steps.csv").read_text().splitlines()
    assert steps[0].startswith("step,loss,self_original")
    assert [line.split(",")[0] for line in steps[1:]] == [str(n + 1) for n in range(len(steps) - 1)]

    again = distiller("train", config, cwd=tmp_path)
    assert again.returncode == 0
    assert "trained already" in again.stdout
    refused = distiller("train", config, "--set", "seed=1", cwd=tmp_path)
    assert refused.returncode == 2
    assert "seed: 0 there, 1 now" in refused.stderr


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learning_rat=1", "learning_rat: unknown key; did you mean 'learning_rate'?"),
        ("batch_size=0", "batch_size"),
    ],
)
def test_a_mistake_in_the_settings_is_named(tmp_path, override, message):
    path = tmp_path / "train.yaml"
    path.write_text("corpus: x\noutput: y\nbackbone: {model: z}\n")
    refused = distiller("train", path, "--set", override, cwd=tmp_path)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
