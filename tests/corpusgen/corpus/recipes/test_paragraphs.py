"""Builds of paragraphs from every kind of source: the same however they run and wherever they are interrupted."""

import signal
import subprocess
import sys
from collections import Counter

import pytest

from corpusgen.config.build import BuildConfig, ParagraphSettings
from corpusgen.corpus.build import build, passes_of
from corpusgen.corpus.recipes import RECIPES, recipe_of_store
from corpusgen.engine import LocalExecutor
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import ConfigError, CorpusgenError, StoreError
from corpusgen.store import CommittedTable, Store
from corpusgen.store.check import verify
from corpusgen.store.products import DISCOURSE, PARAGRAPHS, open_product, products_of, read_vocabulary
from corpusgen.store.status import PassStatus
from corpusgen.tables import KEPT_PARAGRAPHS
from tests.testing import PROJECT, document_builds, paragraph_builds
from tests.testing.killed_builds import committed_files

SETTINGS = {"min_sentences": 2, "min_characters": 100, "min_count": 5}


def config_of(folder, recipe="paragraphs", **others):
    given = {"paragraphs": SETTINGS, **others}
    return BuildConfig.model_validate(document_builds.settings(folder, recipe=recipe, **given))


def run(folder, **others):
    return build(config_of(folder, **others), LocalExecutor())


def rows_of(store):
    return open_product(store, "paragraphs").to_table().to_pylist()


def assert_whole(store):
    recipe = recipe_of_store(store)
    checks = list(verify(store, recipe.reads, recipe.passes))
    assert len(checks) == len(store.passes())
    assert all(check.ok for check in checks)


def tokens_of(row):
    return [row["text"][a:b].lower() for a, b in zip(row["token_starts"], row["token_ends"], strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("paragraphs")


@pytest.fixture(scope="module")
def expected(folder):
    return run(folder)


# --- what is in a store of paragraphs ---


def test_every_paragraph_is_there_once_with_its_offsets_and_its_place(expected):
    assert_whole(expected)
    assert products_of(expected) == [PARAGRAPHS]
    assert len(expected.pass_store("paragraphs").plan().units) > 2
    rows = rows_of(expected)
    assert open_product(expected).schema.names == KEPT_PARAGRAPHS.names
    documents = document_builds.documents()
    found = [(row["article"], row["paragraph"], row["text"]) for row in rows]
    assert found == [(str(n), p, text) for n, texts in enumerate(documents) for p, text in enumerate(texts)]
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        text = row["text"]
        spans = zip(row["sentence_starts"], row["sentence_ends"], strict=True)
        assert [text[a:b] for a, b in spans] == [f"{one.removesuffix('.')}." for one in text.split(". ")]
        assert sum(row["sentence_tokens"]) == len(row["token_starts"])
        assert "".join(tokens_of(row)) == text.lower().replace(" ", "")
        assert row["title"] == f"T{row['article']}"


def test_the_vocabulary_counts_every_token_of_the_paragraphs(expected):
    counted = Counter(token for row in rows_of(expected) for token in tokens_of(row))
    words, counts = read_vocabulary(expected.url)
    ordered = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    assert list(zip(words, counts.tolist(), strict=True)) == [pair for pair in ordered if pair[1] >= 5]
    assert {".", "the"} < set(words)
    ranks = CommittedTable(expected, "tokens", "vocabulary").to_table()["rank"].to_pylist()
    assert ranks == list(range(1, len(words) + 1))


def test_the_vocabulary_is_as_large_as_the_settings_allow(folder, expected):
    smaller = run(folder, root="few", paragraphs={**SETTINGS, "vocabulary": 7, "min_count": 1})
    words, counts = read_vocabulary(smaller)
    everything = read_vocabulary(expected)
    assert words == everything[0][:7]
    assert counts.tolist() == everything[1][:7].tolist()


def test_the_books_close_and_every_reason_is_counted(tmp_path):
    store = paragraph_builds.make(tmp_path)
    assert_whole(store)
    totals = PassStatus(store.pass_store("paragraphs")).refresh()
    read = totals.stages["read"].rows_out
    rejected = Counter(totals.stages["identify"].rejected) + Counter(totals.stages["segment"].rejected)
    assert rejected.keys() == paragraph_builds.NOT_KEPT.keys()
    assert set(rejected.values()) == {12}
    assert read == 12 * 6
    assert read == totals.rows["paragraphs"] + rejected.total()
    assert {"u.s.", "3.5", "1,000", "e.g.", "“", "?"} < set(read_vocabulary(store)[0])


@pytest.mark.parametrize("kind", document_builds.KINDS)
def test_every_kind_of_source_gives_the_same_paragraphs_and_the_same_vocabulary(expected, tmp_path, kind):
    store = run(tmp_path, kind=kind)
    assert_whole(store)
    assert Counter(row["text"] for row in rows_of(store)) == Counter(row["text"] for row in rows_of(expected))
    for ours, theirs in zip(read_vocabulary(store), read_vocabulary(expected), strict=True):
        assert list(ours) == list(theirs)


def test_units_and_folders_change_neither_paragraphs_nor_vocabulary(expected, tmp_path):
    source = {"kind": "jsonl", "paths": [document_builds.write(tmp_path, "jsonl", document_builds.documents())]}
    store = run(tmp_path, source={**source, "unit_bytes": 1 << 20})
    assert len(store.pass_store("paragraphs").plan().units) == 1

    def without_source(row):
        return {name: value for name, value in row.items() if name != "source"}

    assert list(map(without_source, rows_of(store))) == list(map(without_source, rows_of(expected)))
    tables = [CommittedTable(one, "tokens", "vocabulary").to_table() for one in (store, expected)]
    assert tables[0].equals(tables[1])


def test_a_source_without_long_paragraphs_is_a_whole_store_without_a_word(tmp_path):
    document_builds.write(tmp_path, "jsonl", [["Too short."], ["This too."]])
    store = run(tmp_path)
    assert rows_of(store) == []
    assert read_vocabulary(store)[0] == []
    assert_whole(store)


# --- together with others ---


@pytest.mark.parametrize("recipe", ["discourse+paragraphs", "paragraphs+words"])
def test_recipes_in_one_build_make_what_they_make_alone(folder, expected, recipe):
    one = run(folder, root=recipe, recipe=recipe)
    (other,) = set(recipe.split("+")) - {"paragraphs"}
    assert committed_files(one) == committed_files(expected) | committed_files(run(folder, root=other, recipe=other))
    assert_whole(one)
    assert one.corpus()["recipe"] == recipe
    assert PARAGRAPHS in products_of(one)
    assert open_product(one, "paragraphs").num_rows == open_product(expected).num_rows


def test_a_store_of_other_recipes_knows_nothing_of_paragraphs(folder):
    config = config_of(folder, recipe="discourse", paragraphs={})
    assert "paragraphs" not in config.content()
    for recipe in ("paragraphs", "discourse+paragraphs"):
        assert "paragraphs" in config.model_copy(update={"recipe": recipe}).content()


# --- refusals ---


@pytest.mark.parametrize(
    ("name", "value"), [("min_sentences", 3), ("min_characters", 90), ("min_count", 4), ("vocabulary", 9)]
)
def test_a_store_with_other_settings_is_refused_by_their_name(folder, expected, name, value):
    with pytest.raises(StoreError, match=f"settings.paragraphs.{name}: .* in the store, {value} now"):
        run(folder, paragraphs={**SETTINGS, name: value})


@pytest.mark.parametrize("name", ["min_sentences", "min_characters", "min_count", "vocabulary"])
def test_settings_without_sense_are_refused(name):
    with pytest.raises(ValueError, match=name):
        ParagraphSettings(**{name: 0})


def test_the_vocabulary_of_a_store_that_has_none_is_refused_with_a_reason(folder, tmp_path):
    pairs = run(tmp_path, recipe="discourse")
    with pytest.raises(ConfigError, match="holds pairs, not paragraphs"):
        read_vocabulary(pairs)
    begun = build(config_of(folder, root="begun"), LocalExecutor(), until="paragraphs")
    with pytest.raises(StoreError, match="the vocabulary is not made yet"):
        read_vocabulary(begun)


def test_no_model_is_needed_and_a_product_of_pairs_stays_first(folder):
    assert passes_of(config_of(folder)) == list(RECIPES["paragraphs"].passes) == ["paragraphs", "tokens"]
    assert RECIPES["discourse"].product == DISCOURSE


# --- the same bytes ---


def test_units_of_another_store_are_taken_over_and_the_store_is_the_same(folder, expected):
    settings = {**SETTINGS, "min_count": 2}
    scratch = run(folder, root="more", paragraphs=settings)
    config = config_of(folder, root="more reused", paragraphs=settings)
    said = []
    reused = build(config, LocalExecutor(), reuse=expected.url, say=said.append)
    assert committed_files(reused) == committed_files(scratch) != committed_files(expected)
    assert said[0].startswith("paragraphs: ")
    assert_whole(reused)


def test_why_nothing_can_be_taken_over_is_said(folder, expected):
    config = config_of(folder, root="nothing reused", paragraphs={**SETTINGS, "min_sentences": 3})
    with pytest.raises(CorpusgenError, match=r"nothing can be reused\n.*paragraphs.min_sentences: 2 there, 3 now"):
        build(config, LocalExecutor(), reuse=expected.url)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_leaves_the_same_store(folder, expected, workers):
    limits = {"min_workers": workers, "max_workers": workers}
    run_settings = {"workers": dict.fromkeys(("read", "segment", "merge"), limits)}
    config = config_of(folder, root=f"ray with {workers}", run=run_settings)
    with ray_cluster("local"):
        store = build(config, RayExecutor(config.run))
    assert committed_files(store) == committed_files(expected)


DIES = """
import os, signal, sys
from corpusgen.config.build import load_config
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.io.files import LocalFiles

settings, name = sys.argv[1:]
create = LocalFiles.create
commits = 0

def create_or_die(self, path, data):
    global commits
    if path.startswith(f"{name}/commits/"):
        commits += 1
        if commits == 2 or name == "tokens":  # the part is written, its commit is not
            os.kill(os.getpid(), signal.SIGKILL)
    return create(self, path, data)

LocalFiles.create = create_or_die
build(load_config(settings), LocalExecutor())
"""


def test_a_build_killed_in_every_pass_goes_on_to_the_same_store(folder, expected):
    config = config_of(folder, root="killed")
    path = folder / "killed.yaml"
    path.write_text(config.to_yaml())
    for name in ("paragraphs", "tokens"):
        command = [sys.executable, "-c", DIES, str(path), name]
        ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert len(list(Store.at(config.store).pass_store(name).commits())) == (0 if name == "tokens" else 1)
    store = build(config, LocalExecutor())
    assert committed_files(store) == committed_files(expected)
    assert_whole(store)
