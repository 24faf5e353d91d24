"""Saved models give the same bits wherever they are loaded from, and what cannot be loaded says why."""

import json
import shutil
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest

from corpusgen.errors import ConfigError, StoreError
from distiller.inference.word_distiller import WordDistiller
from distiller.words import saved
from distiller.words.saved import CARD, CONFIG, IN_A_RUN, WEIGHTS, load_saved, write_saved
from tests.testing.frozen_models import some_items
from tests.testing.word_models import VALIDATION, saved_on


def assert_same_bits(one, other):
    texts, spans = some_items(9)
    for a, b in zip(one.encode(texts, spans, output="both"), other.encode(texts, spans, output="both"), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_saved_model_gives_the_same_bits(model, folder, tmp_path):
    model.save_pretrained(str(tmp_path / "again"))
    again = WordDistiller.from_pretrained(str(tmp_path / "again"))
    assert_same_bits(again, model)
    assert again.config == model.config
    assert (again.config["layers"], again.config["validation"]) == ([3, 4], VALIDATION)
    for name in (WEIGHTS, CONFIG, CARD):
        assert (tmp_path / "again" / name).read_bytes() == Path(folder, name).read_bytes()


def test_the_folder_of_a_run_will_do(model, tmp_path):
    model.save_pretrained(str(tmp_path / IN_A_RUN))
    assert_same_bits(WordDistiller.from_pretrained(str(tmp_path)), model)


def test_a_model_on_s3(model, s3_root):
    model.save_pretrained(f"{s3_root}/mine/{IN_A_RUN}")
    for location in (f"{s3_root}/mine", f"{s3_root}/mine/{IN_A_RUN}"):
        assert_same_bits(WordDistiller.from_pretrained(location), model)
    with pytest.raises(ConfigError, match="holds no word model"):
        WordDistiller.from_pretrained(f"{s3_root}/other")


def test_a_model_of_the_hub(model, folder, monkeypatch):
    def download(name, revision, allow_patterns):
        assert (name, revision, set(allow_patterns)) == ("me/mine", "v1", {WEIGHTS, CONFIG, CARD})
        return folder

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert_same_bits(WordDistiller.from_pretrained("me/mine", revision="v1"), model)


def test_a_model_without_a_card_gets_one(copied):
    card = (copied / CARD).read_text()
    (copied / CARD).unlink()
    assert load_saved(str(copied)).card == card


def test_the_card_names_the_frozen_model_for_the_hub_only_if_it_is_there(frozen):
    assert "base_model: owner/encoder\n" in saved_on("owner/encoder", {"revision": "abc"}).card
    card = saved_on(frozen).card
    assert "base_model" not in card
    assert f"distilled from {Path(frozen).name}\n" in card
    assert frozen not in card
    assert "95.0% of held-out triples ordered, also counting those whose positive is the same word." in card


def test_the_frozen_model_may_have_moved_but_not_changed(model, folder, frozen, tmp_path):
    moved = shutil.copytree(frozen, tmp_path / "moved")
    assert_same_bits(WordDistiller.from_pretrained(folder, backbone=str(moved)), model)
    described = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps({**described, "layer_norm_eps": 1e-5}))
    with pytest.raises(ConfigError, match="moved is not the frozen model that this one was trained on"):
        WordDistiller.from_pretrained(folder, backbone=str(moved))
    with pytest.raises(ConfigError, match="absent; give its folder as `backbone`"):
        WordDistiller.from_pretrained(folder, backbone=str(tmp_path / "absent"))


def test_a_frozen_model_of_another_size_is_refused(frozen, tmp_path):
    write_saved(str(tmp_path), saved_on(frozen, {}, dimension=32))
    with pytest.raises(ConfigError, match=r"has 16 dimensions, but the distillers expect 32"):
        WordDistiller.from_pretrained(str(tmp_path))


def spoil_config(folder, **changes):
    described = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**described, **changes}))


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda folder: (folder / WEIGHTS).write_bytes(b"no weights"), StoreError, f"{WEIGHTS} is damaged"),
        (lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-9]), StoreError, "is damaged"),
        (lambda folder: spoil_config(folder, dimension=32), StoreError, f"or does not belong to this {CONFIG}"),
        (lambda folder: (folder / WEIGHTS).unlink(), StoreError, f"{WEIGHTS} is missing; download the model again"),
        (lambda folder: (folder / CONFIG).write_text('{"format": 1,'), StoreError, f"{CONFIG} is damaged; download"),
        (lambda folder: spoil_config(folder, format=saved.FORMAT + 1), ConfigError, "saved by a newer version"),
        (lambda folder: (folder / CONFIG).unlink(), ConfigError, f"holds no word model ({CONFIG} is missing)"),
        (shutil.rmtree, ConfigError, "no such folder; give the folder of a model or a run, s3://…, or a hub id"),
    ],
)
def test_what_cannot_be_loaded_says_why(copied, spoil, error, message):
    spoil(copied)
    with pytest.raises(error) as refused:
        WordDistiller.from_pretrained(str(copied))
    assert message in str(refused.value)


def test_another_kind_of_model_is_refused(frozen):
    with pytest.raises(ConfigError, match="holds another kind of model; give one made by `distiller train`"):
        WordDistiller.from_pretrained(frozen)


def test_what_is_neither_here_nor_on_the_hub_is_refused(monkeypatch):
    def download(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(
        ConfigError, match=r"runs/absent is neither a local folder nor a model that can be downloaded .*no route"
    ):
        WordDistiller.from_pretrained("runs/absent")


def test_pushing_uploads_the_files_of_the_model(model, folder, monkeypatch):
    calls = []

    class Hub:
        def __init__(self, token):
            calls.append(token)

        def create_repo(self, repository, private, exist_ok):
            calls.append((repository, private, exist_ok))
            return f"https://hub.example/{repository}"

        def create_commit(self, repository, operations, commit_message):
            calls.append((repository, {one.path_in_repo: one.path_or_fileobj for one in operations}))

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    assert model.push_to_hub("me/mine", private=True, token="secret") == "https://hub.example/me/mine"
    files = {name: Path(folder, name).read_bytes() for name in (WEIGHTS, CONFIG, CARD)}
    assert calls == ["secret", ("me/mine", True, True), ("me/mine", files)]
