"""The command `static`."""

import pytest
import yaml
from typer.testing import CliRunner

from corpusgen.errors import ConfigError, CorpusgenError, StoreError
from distiller.cli.app import app
from distiller.static.vectors import StaticVectors
from tests.distiller.commands import command
from tests.testing import PROJECT, paragraph_builds, triple_builds


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return paragraph_builds.make(tmp_path_factory.mktemp("paragraphs")).url


@pytest.fixture
def config(corpus, frozen, tmp_path):
    path = tmp_path / "static.yaml"
    values = {"corpus": corpus, "output": str(tmp_path / "out"), "kind": "ase", "backbone": {"model": frozen}}
    path.write_text(yaml.safe_dump(values))
    return path


def static(config, *changes):
    return command("static", config, "--executor", "local", *(part for c in changes for part in ("--set", c)))


def test_it_says_what_it_costs_and_where_the_vectors_are(config, tmp_path):
    printed = static(config, "ase.contexts_per_word=2", "words=30").splitlines()
    assert printed[0] == "30 words, 60 contexts to read, in 24 paragraphs (1 units); layers 0–2, dimension 16"
    assert printed[1] == "to store: at most 0.00 GB of sums, 0.00 GB of vectors"
    path = tmp_path / "out" / "vectors.txt"
    assert f"30 words, 16 dimensions: {path}" in printed
    assert f"to score them: distiller evaluate --static {path} --data eval" in printed
    assert "Not scored" in (tmp_path / "out" / "report.html").read_text()
    table = StaticVectors.load(path)
    assert (len(table), table.dimension) == (30, 16)
    assert static(config, "ase.contexts_per_word=2", "words=30")  # it resumes, and has nothing to do


@pytest.mark.parametrize(
    ("form", "name"), [("binary", "vectors.bin"), ("npy", "vectors.npy"), ("model2vec", "vectors")]
)
def test_formats_have_names_that_loading_knows(config, tmp_path, form, name):
    command("static", config, "--executor", "local", "--format", form, "--set", "ase.contexts_per_word=1")
    assert len(StaticVectors.load(tmp_path / "out" / name)) > 30


def test_the_example_is_complete():
    shown = yaml.safe_load(command("static", PROJECT / "configs/static_ase.yaml", "--show-config"))
    assert shown["ase"]["contexts_per_word"] == 100
    assert shown["kind"] == "ase"


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ("corpus=/nowhere", StoreError, "no corpus here"),
        ("kind=word2vec", ConfigError, "kind"),
        ("ase.layer=[1]", ConfigError, "did you mean 'layers'"),
        ("preset=published", ConfigError, "preset: published is only for x2static"),
    ],
)
def test_mistakes_are_named(config, change, kind, message):
    with pytest.raises(kind, match=message):
        static(config, change)


def test_a_corpus_of_something_else_is_refused(config, tmp_path):
    from corpusgen.config.build import BuildConfig
    from corpusgen.corpus.build import build
    from corpusgen.engine import LocalExecutor

    store = build(BuildConfig.model_validate(triple_builds.settings(tmp_path)), LocalExecutor(), "harvest")
    with pytest.raises(CorpusgenError, match="holds triples, not paragraphs"):
        static(config, f"corpus={store.url}")


def test_an_output_that_cannot_be_written_is_said(config, tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["static", str(config), "--executor", "local", "--set", f"output={tmp_path}/file"])
    assert isinstance(result.exception, CorpusgenError), result.output


def test_with_benchmarks_the_card_and_the_page_have_scores(config, tmp_path):
    scores = tmp_path / "eval/wordsim"
    scores.mkdir(parents=True)
    (scores / "EN-RG-65.txt").write_text("river bank 3\nvalley garden 2\nmoney river 1\n")
    printed = command("static", config, "--executor", "local", "--data", str(tmp_path / "eval"))
    assert "distiller evaluate" not in printed
    assert "| RG-65 | Spearman | 3 |" in (tmp_path / "out/vectors.txt.README.md").read_text()
    page = (tmp_path / "out/report.html").read_text()
    assert "RG-65" in page
    assert "contexts per word" in page
    assert page.count('<th scope="row">') >= 8


def test_a_folder_without_benchmarks_is_refused_before_any_work(config, tmp_path):
    with pytest.raises(ConfigError, match="has no benchmark for static vectors"):
        command("static", config, "--executor", "local", "--data", str(tmp_path))
    assert not (tmp_path / "out").exists()


def test_few_words_are_shown_too(config, tmp_path):
    static(config, "ase.contexts_per_word=1", "words=4")  # none of them has four letters
    assert (tmp_path / "out/report.html").exists()
