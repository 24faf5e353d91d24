"""Builds of pairs from every kind of source: the same however they run and wherever they are interrupted."""

import signal
import subprocess
import sys
from collections import Counter
from unittest.mock import patch

import pyarrow as pa
import pytest

from corpusgen.config.build import BuildConfig, DiscourseSettings
from corpusgen.corpus.build import build, passes_of
from corpusgen.corpus.pairs.stages import PAIRING, JoinSentences
from corpusgen.corpus.recipes import RECIPES, recipe_of_store, words
from corpusgen.engine import LocalExecutor
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import ConfigError, StoreError
from corpusgen.store import CommittedTable, Store
from corpusgen.store.check import verify
from corpusgen.store.products import DISCOURSE, WORDS, open_product, products_of
from corpusgen.tables import PAIRS
from tests.testing import PROJECT
from tests.testing import document_builds as support

RECIPE = RECIPES["discourse"]
ROWS_OF_A_UNIT = 50  # sentences, so that the passes over them have several units too
ALL_PAIRS = {"size": 100_000, "max_overlap": 0.8, "boilerplate_documents": None}


@pytest.fixture(autouse=True)
def several_units():
    with patch.object(words, "GROUP_ROWS", ROWS_OF_A_UNIT):
        yield


def run(folder, until=None, reuse=None, **others):
    config = BuildConfig.model_validate(support.settings(folder, **others))
    return build(config, LocalExecutor(), until, reuse=reuse)


def rows_of(store):
    return open_product(store, "pairs").to_table().to_pylist()


def committed(store):
    """Every committed file of every pass with its hash."""
    return {
        part.path: part.sha256
        for pass_store in store.passes()
        for commit in pass_store.commits()
        for part in commit.files()
    }


def assert_whole(store):
    recipe = recipe_of_store(store)
    checks = list(verify(store, recipe.reads, recipe.passes))
    assert len(checks) == len(store.passes())
    assert all(check.ok for check in checks)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pairs")


@pytest.fixture(scope="module")
def expected(folder):
    with patch.object(words, "GROUP_ROWS", ROWS_OF_A_UNIT):
        return run(folder)


def test_every_pass_over_many_rows_has_several_units(expected):
    units = {pass_store.name: len(pass_store.plan().units) for pass_store in expected.passes()}
    assert list(units) == list(RECIPE.passes)
    assert all(units[name] > 2 for name in ("harvest", "repeats", "fetch", "pairs"))
    assert units["vocabulary"] == units["pairing"] == 1


# --- what is in a store of pairs ---


def numbers_of_sentences():
    """The document of each sentence: no two documents share one."""
    found = {
        f"{sentence.removesuffix('.')}.": number
        for number, paragraphs in enumerate(support.documents())
        for paragraph in paragraphs
        for sentence in paragraph.split(". ")
    }
    assert len(found) == sum(len(paragraphs) * 2 for paragraphs in support.documents())
    return found


def test_every_pair_is_what_it_says(expected):
    document_of = numbers_of_sentences()
    sentences = CommittedTable(expected, "harvest", "sentences").to_table().to_pylist()
    places = {row["text"]: row for row in sentences}
    pairs = rows_of(expected)
    assert open_product(expected).schema.names == PAIRS.names
    assert len(pairs) == 150
    assert len({pair["id"] for pair in pairs}) == 150
    for pair in pairs:
        for member in DISCOURSE.members:
            text, start, end = (pair[name] for name in member.columns)
            assert (text[start:end] if start is not None else None) == pair[member.word]
            assert (pair[member.word] == pair["target"]) == (member.name != "neighbour")
        assert pair["text"] != pair["positive"]
        number = document_of[pair["text"]]
        assert document_of[pair["positive"]] == number
        assert (pair["article"], pair["title"]) == (str(number), f"T{number}")
        other = document_of[pair["negative"]]
        assert other != number
        assert (pair["negative_article"], pair["negative_title"]) == (str(other), f"T{other}")
        assert pair["source"] == pair["negative_source"]
        for text, prefix in ((pair["text"], ""), (pair["positive"], "positive_")):
            place = places[text]["paragraph"], places[text]["sentence"]
            assert place == (pair[f"{prefix}paragraph"], pair[f"{prefix}sentence"])
        assert pair["unit"]
    counts = Counter(pair["target"] for pair in pairs).values()
    assert max(counts) - min(counts) <= 1


def test_the_store_verifies_and_knows_its_product(expected):
    assert_whole(expected)
    assert products_of(expected) == [DISCOURSE]
    assert expected.corpus()["recipe"] == "discourse"


def pairs_by_document(rows):
    document_of = numbers_of_sentences()
    return {(row["target"], document_of[row["text"]]) for row in rows}


@pytest.mark.parametrize("kind", support.KINDS)
def test_every_kind_of_source_gives_the_same_words_in_the_same_documents(folder, tmp_path, kind):
    block = support.BLOCK if kind == "text" else None
    store = run(tmp_path, kind=kind, discourse={**ALL_PAIRS, "document_bytes": block})
    assert_whole(store)
    jsonl = folder / "all pairs"
    reference = run(folder, root=jsonl.name, discourse=ALL_PAIRS)
    found = pairs_by_document(rows_of(store))
    assert found == pairs_by_document(rows_of(reference))
    assert len(found) == len(rows_of(store)) > 300


def test_in_plain_text_every_line_is_a_document_unless_blocks_of_bytes_are(tmp_path):
    lines = run(tmp_path, kind="text", root="lines", discourse=ALL_PAIRS)
    found = rows_of(lines)
    assert len(found) > 20
    assert all((row["sentence"], row["positive_sentence"]) in {(0, 1), (1, 0)} for row in found)
    line_of = {sentence: line for line, text in enumerate(all_lines()) for sentence in in_sentences(text)}
    assert all(line_of[row["text"]] == line_of[row["positive"]] != line_of[row["negative"]] for row in found)
    blocks = run(tmp_path, kind="text", root="blocks", discourse={**ALL_PAIRS, "document_bytes": 2 * support.BLOCK})
    document_of = numbers_of_sentences()
    together = {(document_of[row["text"]] // 2, document_of[row["positive"]] // 2) for row in rows_of(blocks)}
    assert together
    assert all(one == other for one, other in together)
    assert any(document_of[row["text"]] != document_of[row["positive"]] for row in rows_of(blocks))


def all_lines():
    return [paragraph for paragraphs in support.documents() for paragraph in paragraphs]


def in_sentences(text):
    return [f"{sentence.removesuffix('.')}." for sentence in text.split(". ")]


def test_a_corpus_without_repeated_words_is_a_whole_store_without_pairs(tmp_path):
    support.write(tmp_path, "jsonl", [[text.partition(". ")[0] + "."] for text in all_lines()])
    store = run(tmp_path)
    assert rows_of(store) == []
    assert_whole(store)


def test_a_corpus_without_sentences_is_a_whole_store_without_pairs(tmp_path):
    support.write(tmp_path, "jsonl", [["Too short."], ["This too."]])
    store = run(tmp_path)
    assert rows_of(store) == []
    assert_whole(store)


def test_frequent_words_make_up_for_rare_ones(tmp_path):
    """Most words of the vocabulary are rare: with four times the mean of each word, pairs would be lost."""
    rare = [f"rare{a}{b}{c}" for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh"]
    filler = "there was nobody among us who would have said so before this"
    documents = [
        [f"Our river {rare[2 * n]} and {filler}. Their long river {rare[2 * n + 1]} but {filler}."] for n in range(120)
    ]
    support.write(tmp_path, "jsonl", documents)
    sample = {"vocabulary": 1000, "drop_top_share": 0}
    store = run(tmp_path, sample=sample, discourse={**ALL_PAIRS, "size": 100, "max_overlap": 1})
    assert Counter(row["target"] for row in rows_of(store)) == {"river": 100}


def test_a_copy_of_a_sentence_of_the_pair_is_no_negative(tmp_path):
    one, other = support.documents(2)
    support.write(tmp_path, "jsonl", [one, one, other, [*other, one[0]]])
    found = rows_of(run(tmp_path, discourse=ALL_PAIRS))
    assert all(row["negative"] not in (row["text"], row["positive"]) for row in found)
    without = [row for row in found if row["negative"] is None]
    assert 0 < len(without) < len(found)
    columns = [name for name in PAIRS.names if name.startswith("negative")]
    assert all(row[name] is None for row in without for name in columns)
    assert all(row[name] is not None for row in found if row not in without for name in columns)


@pytest.mark.parametrize("side", ["first", "second", "negative"])
def test_a_sentence_that_is_missing_is_an_error_and_no_null(expected, side):
    choice = CommittedTable(expected, *PAIRING).to_table().slice(0, 3)
    ids = pa.array([choice[side][0].as_py(), "nowhere", choice[side][2].as_py()])
    changed = choice.set_column(choice.schema.get_field_index(side), side, ids)
    join = JoinSentences(store=expected)
    assert join.process(choice).num_rows == 3
    with pytest.raises(StoreError, match="a sentence of a pair is missing"):
        join.process(changed)


# --- together with words ---


def test_words_and_discourse_in_one_build_are_those_of_two(folder, expected):
    one = run(folder, root="both", recipe="words+discourse")
    two = run(folder, root="words only", recipe="words")
    assert committed(one) == committed(two) | committed(expected)
    assert committed(two).keys() - committed(expected).keys()
    assert_whole(one)
    assert products_of(one) == [WORDS, DISCOURSE]
    assert one.corpus()["recipe"] == "words+discourse"


def test_a_store_of_words_knows_nothing_of_discourse(folder):
    config = BuildConfig.model_validate({**support.settings(folder, recipe="words"), "discourse": {}})
    assert "discourse" not in config.content()
    assert "discourse" in config.model_copy(update={"recipe": "words+discourse"}).content()
    assert "discourse" in config.model_copy(update={"recipe": "discourse"}).content()


def test_a_store_of_words_goes_on_although_there_are_settings_of_discourse(tmp_path):
    begun = run(tmp_path, recipe="words", until="vocabulary", discourse={})
    assert "discourse" not in begun.corpus()["settings"]
    assert_whole(run(tmp_path, recipe="words", discourse={}))


def test_units_of_pairs_grow_rather_than_be_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr("corpusgen.corpus.recipes.discourse._MOST_PAIRS_UNITS", 2)
    store = run(tmp_path, discourse={**support.settings(tmp_path)["discourse"], "unit_pairs": 1})
    assert len(store.pass_store("pairs").committed()) == 2
    assert_whole(store)


# --- refusals ---


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("size", 149), ("per_document", 2), ("max_capital_share", 0.4), ("max_overlap", 0.7)],
        *[("boilerplate_documents", 9), ("unit_pairs", 41)],
    ],
)
def test_a_store_with_other_settings_is_refused_by_their_name(folder, expected, name, value):
    changed = {**support.settings(folder)["discourse"], name: value}
    with pytest.raises(StoreError, match=f"settings.discourse.{name}: .* in the store, {value} now"):
        run(folder, discourse=changed)


@pytest.mark.parametrize("recipe", ["discourse", "words+discourse"])
@pytest.mark.parametrize("kind", [kind for kind in support.KINDS if kind != "text"])
def test_blocks_of_bytes_are_refused_where_there_are_documents(tmp_path, kind, recipe):
    with pytest.raises(ConfigError, match=f"discourse.document_bytes: only for source.kind text; {kind} has documents"):
        run(tmp_path, kind=kind, recipe=recipe, discourse={"document_bytes": 1000})
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("wrong", [{"size": 0}, {"per_document": 0}, {"per_document": 101}, {"max_overlap": 0}])
def test_settings_without_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DiscourseSettings(**wrong)


def test_no_model_is_needed(folder):
    assert passes_of(BuildConfig.model_validate(support.settings(folder))) == list(RECIPE.passes)


# --- the same bytes ---


def test_units_of_another_store_are_taken_over_and_the_store_is_the_same(folder, expected):
    smaller = {**support.settings(folder)["discourse"], "size": 50}
    scratch = run(folder, root="smaller", discourse=smaller)
    reused = run(folder, root="smaller reused", discourse=smaller, reuse=expected.url)
    assert committed(reused) == committed(scratch) != committed(expected)
    assert_whole(reused)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_any_number_of_workers_leaves_the_same_store(folder, expected, workers):
    config = BuildConfig.model_validate(support.settings(folder, root=f"ray with {workers}", workers=workers))
    with ray_cluster("local"):
        store = build(config, RayExecutor(config.run))
    assert committed(store) == committed(expected)


DIES = """
import os, signal, sys
from corpusgen.config.build import load_config
from corpusgen.corpus.build import build
from corpusgen.corpus.recipes import words
from corpusgen.engine import LocalExecutor
from corpusgen.io.files import LocalFiles

settings, name, rows = sys.argv[1:]
words.GROUP_ROWS = int(rows)
create = LocalFiles.create
commits = 0

def create_or_die(self, path, data):
    global commits
    if path.startswith(f"{name}/commits/"):
        commits += 1
        if commits == 2 or name == "pairing":  # the part is written, its commit is not
            os.kill(os.getpid(), signal.SIGKILL)
    return create(self, path, data)

LocalFiles.create = create_or_die
build(load_config(settings), LocalExecutor())
"""


def test_a_build_killed_in_every_pass_goes_on_to_the_same_store(folder, expected):
    config = BuildConfig.model_validate(support.settings(folder, root="killed"))
    path = folder / "killed.yaml"
    path.write_text(config.to_yaml())
    for name in ("repeats", "pairing", "fetch", "pairs"):
        command = [sys.executable, "-c", DIES, str(path), name, str(ROWS_OF_A_UNIT)]
        ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        done = Store.at(config.store).pass_store(name)
        assert len(list(done.commits())) == (0 if name == "pairing" else 1)
    store = build(config, LocalExecutor())
    assert committed(store) == committed(expected)
    assert_whole(store)
