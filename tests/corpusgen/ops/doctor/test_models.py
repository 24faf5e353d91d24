"""Models that are named: absent, of other words than the corpus, or as they should be."""

import shutil

import pytest

from corpusgen.corpus.build import build, stages_of
from corpusgen.engine import LocalExecutor
from corpusgen.errors import StageError
from corpusgen.io.files import open_files
from corpusgen.ops.doctor import models
from corpusgen.store import Store
from tests.testing import triple_builds as support


def statuses(lines):
    return {line.what: line.status for line in lines}


def all_stages(settings, until=None):
    return stages_of(settings, Store.at(settings.store), until)


def test_what_is_there_is_not_mentioned(config):
    assert list(models.present(all_stages(config()), here=True)) == []


@pytest.mark.parametrize(
    ("others", "role", "finding"),
    [
        ({"vectors": {"path": "no.bin"}}, "vectors", "no.bin is not on this machine"),
        ({"masked": {"model": "/no/such/model"}}, "masked", "/no/such/model is not on this machine"),
        ({"masked": {"model": "./model"}}, "masked", "./model is not on this machine"),
        ({"masked": {"model": "nobody/has-this"}}, "masked", "is not a folder, is not in the cache"),
        ({"segmenter": {"kind": "stanza", "model_dir": "no/dir"}}, "segmenter", "no/dir is not on this machine"),
        ({"language": {"model": "lid.bin"}}, "language", "lid.bin is not on this machine"),
    ],
)
def test_what_is_absent_is_red_here_and_yellow_where_workers_are_elsewhere(config, monkeypatch, others, role, finding):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (line,) = models.present(all_stages(config(**others)), here=True)
    assert (line.status, line.what) == ("red", role)
    assert finding in line.finding
    assert line.remedy
    (line,) = models.present(all_stages(config(**others)), here=False)
    assert line.status == "yellow"


def test_a_model_on_s3_is_looked_for_there_and_used(config, made, s3_root, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = open_files(s3_root)
    settings = config(vectors={"path": f"{s3_root}/vectors.vec"})
    (line,) = models.present(all_stages(settings), here=True)
    assert (line.status, line.finding) == ("red", f"{s3_root}/vectors.vec is empty or does not exist")
    files.write("vectors.vec", (made / "vectors.vec").read_bytes())
    assert list(models.present(all_stages(settings), here=True)) == []
    assert {line.status for line in models.match(settings)} == {"green"}


def test_models_of_triples_are_not_asked_for_before_their_pass(config):
    assert list(models.present(all_stages(config(vectors={"path": "no.bin"}), until="sample"), here=True)) == []


def test_the_words_of_models_that_belong_together(config):
    found = {line.what: line for line in models.match(config())}
    assert {line.status for line in found.values()} == {"green"}
    assert "cover 100% of the" in found["vectors"].finding
    assert "most frequent words of the vectors" in found["vectors"].finding
    assert "of which 100% have a vector" in found["masked"].finding


def test_the_words_are_those_of_the_corpus_once_it_has_some(config):
    settings = config()
    build(settings, LocalExecutor(), until="vocabulary")
    assert all("vocabulary of the corpus" in line.finding for line in models.match(settings) if line.what != "masked")


def test_vectors_of_another_language_are_red(config, made, tmp_path):
    foreign = tmp_path / "foreign.vec"
    words = support.vocabulary()
    rows = [f"{word[::-1]}x {' '.join(['0.5'] * 12)}" for word in words[:-3]]
    rows += [f"{word} {' '.join(['0.5'] * 12)}" for word in words[-3:]]
    foreign.write_text(f"{len(rows)} 12\n" + "\n".join(rows) + "\n")
    settings = config(vectors={"path": str(foreign)})
    build(settings, LocalExecutor(), until="vocabulary")
    found = statuses(models.match(settings))
    assert found == {"vectors": "red", "masked": "red", "words of one piece": "green"}


def test_a_masked_lm_that_does_not_load_says_why(config, made, tmp_path):
    shutil.copytree(made / "masked", tmp_path / "masked")
    (tmp_path / "masked" / "config.json").write_text("{}")
    with pytest.raises(StageError, match="cannot load"):
        list(models.match(config(masked={"model": str(tmp_path / "masked")})))


def test_stages_that_load_something_are_set_up(config):
    settings = config(segmenter={"kind": "stanza", "model_dir": "no/dir"})
    lines = list(models.loads(all_stages(settings), here=True))
    assert statuses(lines) == {"stage segment": "red"}
    settings = config()
    lines = list(models.loads(all_stages(settings), here=True))
    assert statuses(lines) == {"stage segment": "green"}
