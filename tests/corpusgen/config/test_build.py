"""Settings: every mistake is one line that names the key and says what would be right."""

import pytest

from corpusgen.config.build import BuildConfig, TranslationSettings, load_config
from corpusgen.config.loading import load_settings
from corpusgen.errors import ConfigError
from distiller.settings import TrainSettings
from distiller.static.settings import StaticSettings
from tests.testing import PROJECT

CONFIGS = sorted([*(PROJECT / "configs").glob("*.yaml"), *(PROJECT / "benchmarks/configs").glob("*.yaml")])


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "build.yaml"
    path.write_text("store: out\nsource:\n  kind: text\n  paths: [a.txt]\n")
    return path


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_configs_that_come_with_the_project_are_valid(path):
    if path.name.startswith("distill_"):
        assert load_settings(TrainSettings, path).corpus
    elif path.name.startswith("static_"):
        assert load_settings(StaticSettings, path).corpus
    else:
        assert load_config(path).store


def test_overrides_reach_any_depth_and_are_typed(config_file):
    config = load_config(
        config_file, ["seed=7", "run.workers.read.max_workers=3", "source.paths=[b.txt, c.txt]", "store=s3://b/c"]
    )
    assert config.seed == 7
    assert config.run.workers["read"].max_workers == 3
    assert config.source.paths == ["b.txt", "c.txt"]
    assert config.store == "s3://b/c"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("source.pahts=x", "source.pahts: unknown key; did you mean 'paths'?"),
        ("run.workers.read.max_worker=1", "run.workers.read.max_worker: unknown key; did you mean 'max_workers'?"),
        ("zzz=1", "zzz: unknown key; choose from discourse, filters, generate, language"),
        ("seed=many", "seed: input should be a valid integer, unable to parse string as an integer, not 'many'"),
        ("run.failure_limit=2", "run.failure_limit: input should be less than or equal to 1, not 2"),
        ("seed.deeper=1", "--set seed.deeper=1: 'seed' is a single value"),
        ("seed", "--set seed: expected key.path=value"),
    ],
)
def test_a_mistake_is_named_with_its_key_and_a_suggestion(config_file, override, message):
    with pytest.raises(ConfigError) as caught:
        load_config(config_file, ["seed=1", override] if override.startswith("seed.") else [override])
    assert message in str(caught.value)


def test_a_missing_key_says_how_to_give_it(tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text("seed: 1\n")
    with pytest.raises(ConfigError, match=r"store: missing; set it in the file or with --set store=…"):
        load_config(path)


def test_a_missing_file_suggests_the_one_that_was_meant(config_file):
    with pytest.raises(ConfigError, match=r"bild\.yaml: no such file; did you mean .*build\.yaml\?"):
        load_config(config_file.with_name("bild.yaml"))


@pytest.mark.parametrize("text", ["a: [1", "- a\n- b\n", ""])
def test_a_file_that_is_not_settings_is_refused(tmp_path, text):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"bad\.yaml: "):
        load_config(path)


def test_where_and_how_do_not_count_as_content(config_file):
    a = load_config(config_file)
    b = load_config(config_file, ["store=elsewhere", "run.failure_limit=0.5"])
    assert a.content() == b.content()
    assert a.content() != load_config(config_file, ["seed=1"]).content()


def test_settings_that_came_later_are_content_only_if_they_are_used(config_file):
    content = load_config(config_file).content()
    assert content["sample"] == {"size": 1_000_000, "vocabulary": 50_000, "drop_top_share": 0.001}
    changed = load_config(config_file, ["sample.sentences_per_word=4"]).content()
    assert changed["sample"] == {**content["sample"], "sentences_per_word": 4}
    assert "sentences_per_word" in load_config(config_file).to_yaml()


TRIP = {"pivot": "pt", "forward": {"model": "en-pt"}, "back": {"model": "pt-en", "beam": 4}}
BERGAMOT = {"backend": "bergamot", "source": "pt", "target": "en"}


def test_hypotheses_are_at_most_the_beam_and_all_translators_are_known():
    other = {**TRIP, "pivot": "de", "back": {"model": "de-en", "beam": 6}}
    translation = TranslationSettings(**TRIP, hypotheses=4, others=[other])
    assert [one.model for one in translation.translators.values()] == ["en-pt", "pt-en", "en-pt", "de-en"]
    assert TranslationSettings(**{**TRIP, "back": BERGAMOT}).hypotheses == 1
    with pytest.raises(ValueError, match=r"translation\.back: a beam of 4 gives fewer than 5 .*back\.beam"):
        TranslationSettings(**TRIP, hypotheses=5)
    assert TranslationSettings(**TRIP, avoid_target=True).avoid_target
    with pytest.raises(ValueError, match=r"avoid_target: translation\.back: bergamot cannot avoid a word"):
        TranslationSettings(**{**TRIP, "back": BERGAMOT}, avoid_target=True)
    with pytest.raises(ValueError, match="avoid_max_loss: has no effect without avoid_target"):
        TranslationSettings(**TRIP, avoid_max_loss=5)
    with pytest.raises(ValueError, match=r"translation\.others\.0\.back: bergamot gives one translation"):
        TranslationSettings(**TRIP, hypotheses=2, others=[{**TRIP, "back": BERGAMOT}])


def test_what_is_shown_can_be_used_as_a_config(config_file, tmp_path):
    config = load_config(config_file)
    shown = tmp_path / "shown.yaml"
    shown.write_text(config.to_yaml())
    assert load_config(shown) == config


def test_every_setting_is_described():
    def undescribed(model, path=""):
        for name, field in model.model_fields.items():
            if hasattr(field.annotation, "model_fields"):
                yield from undescribed(field.annotation, f"{path}{name}.")
            elif not field.description:
                yield path + name

    assert list(undescribed(BuildConfig)) == []


def test_translators_are_replaced_by_their_roles():
    translation = TranslationSettings(**TRIP, others=[TRIP])
    changed = {
        role: translator.model_copy(update={"revision": role}) for role, translator in translation.translators.items()
    }
    assert len(changed) == 4
    assert translation.with_translators(changed).translators == changed
    last = {"translation.others.0.back": changed["translation.others.0.back"]}
    assert translation.with_translators(last).translators == translation.translators | last
