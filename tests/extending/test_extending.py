"""docs/extending.md promises that parts of other packages work: here they do, named by their import path."""

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.recipes import recipe_of_store
from corpusgen.engine import LocalExecutor
from corpusgen.errors import ConfigError, StoreError
from corpusgen.store import CommittedTable, Store, TripleStore
from corpusgen.store.check import verify
from corpusgen.store.products import WORDS, open_product, product_of
from distiller.training.loop import Training
from distiller.words.objective import check_fits, objective_of
from tests.distiller.support import made_features, settings
from tests.testing.triple_builds import sentences

OUTSIDE = "tests.extending.outside"


def config(folder, **changed):
    lines = [f"00:00:{number:02} {text}" for number, text in enumerate(sentences(40))]
    (folder / "subtitles.txt").write_text("\n".join(lines) + "\n")
    source = {"kind": f"{OUTSIDE}:SUBTITLES", "paths": [str(folder / "subtitles.txt")], "unit_bytes": 1000}
    values = {"store": str(folder / "store"), "source": source, "language": {"identify": False}}
    return BuildConfig.model_validate({**values, **changed})


def test_a_source_kind_of_another_package(tmp_path):
    store = build(config(tmp_path), LocalExecutor(), until="harvest")
    rows = CommittedTable(store, "harvest", "sentences").to_table().to_pylist()
    assert rows
    assert all(row["article"].startswith("00:00:") and not row["text"].startswith("00:00:") for row in rows)


def test_a_recipe_of_another_package(tmp_path):
    built = build(config(tmp_path, recipe=f"{OUTSIDE}:RECIPE"), LocalExecutor())
    store = Store.at(built.url)
    recipe = recipe_of_store(store)
    assert store.corpus()["recipe"] == f"{OUTSIDE}:RECIPE"
    assert product_of(store) is recipe.product
    assert all(check.ok for check in verify(store, recipe.reads, recipe.passes))
    pairs = open_product(store).to_table().to_pylist()
    assert pairs
    assert all(pair["first"][pair["first_start"] : pair["first_end"]] == "The" for pair in pairs)
    with pytest.raises(StoreError, match="holds pairs of the recipe"):
        TripleStore(store)
    with pytest.raises(ConfigError, match=r"reconstruct needs original, positive, negative in each row.*first, second"):
        check_fits(settings(), product_of(store))


def test_the_commands_know_a_recipe_of_another_package_or_refuse_it_by_name(tmp_path, command):
    settings_file = tmp_path / "build.yaml"
    settings_file.write_text(config(tmp_path, recipe=f"{OUTSIDE}:RECIPE").to_yaml())
    assert command("build", settings_file, "--executor", "local").code == 0
    for name in ("verify", "status", "stats", "gc", "sample", "export"):
        assert command(name, tmp_path / "store").code == 0
    assert command("merge", tmp_path / "merged", tmp_path / "store").code == 0
    assert command("report", tmp_path / "merged", "-o", tmp_path / "report.html").code == 0
    assert command("doctor", settings_file).code == 0
    refused = (("explain", tmp_path / "store", "x"), ("replay", tmp_path / "store", "x"), ("estimate", settings_file))
    for arguments in refused:
        ended = command(*arguments)
        assert ended.code
        assert "recipe" in ended.err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recipe": "word"}, "recipe: 'word' is unknown; did you mean 'words'?"),
        ({"recipe": "words+"}, "recipe: '' is unknown; choose from words, discourse"),
        ({"recipe": "discourse+discourse"}, "recipe: 'discourse[+]discourse' names a recipe twice"),
        ({"recipe": f"discourse+{OUTSIDE}:RECIPE"}, "each define their own pass 'pairs'"),
        ({"recipe": "no.such:RECIPE"}, r"recipe: cannot import no.such:RECIPE: No module named 'no'"),
        ({"recipe": f"{OUTSIDE}:MISSING"}, "has no attribute 'MISSING'"),
        ({"recipe": f"{OUTSIDE}:NOT_A_RECIPE"}, "is a SourceKind, not a corpusgen.corpus.recipe.Recipe"),
    ],
)
def test_what_is_not_there_or_not_meant_is_named(tmp_path, changed, message):
    with pytest.raises(ConfigError, match=message):
        build(config(tmp_path, **changed), LocalExecutor())


def test_an_objective_of_another_package(tmp_path):
    chosen = settings(objective=f"{OUTSIDE}:Closer", max_epochs=2)
    assert objective_of(chosen).term_names[-1] == "closer"
    training = Training(chosen, made_features(tmp_path))
    ended = [(losses, validation) for _, losses, validation in training.run()]
    validations = [validation for _, validation in ended if validation]
    assert ended[-1][0]["closer"] < ended[0][0]["closer"]
    assert set(validations[-1].terms) == set(objective_of(chosen).term_names)


def test_negatives_of_the_translation_are_not_trained_as_if_they_were_of_the_original():
    check_fits(settings(), WORDS)
    with pytest.raises(ConfigError, match=r"crosslingual: true, but .* the recipe 'words', whose negatives are"):
        check_fits(settings(crosslingual=True), WORDS)
