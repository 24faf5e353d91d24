"""Pairs from real Wikipedia text: valid, balanced, and the same whatever is killed on the way."""

from collections import Counter

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.recipes.discourse import RECIPE
from corpusgen.engine import LocalExecutor
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.store import CommittedTable
from corpusgen.store.check import verify
from corpusgen.store.products import DISCOURSE, open_product
from tests.testing.killed_builds import build_killed_and_resumed, committed_files
from tests.testing.shared_data import shared_data

pytestmark = pytest.mark.real

SIZE = 1000
SOURCES = {
    "wikiextractor": ("en", "wikipedia/extracted", "wiki_0[01].gz"),
    "mediawiki": ("de", "wikipedia/dumps", "dewiki-mini.xml.bz2"),
}


def settings(root, kind, workers=None):
    language, folder, name = SOURCES[kind]
    limits = {"min_workers": workers, "max_workers": workers}
    names = ("read", "segment", "filter", "repeats", "fetch", "join") if workers else ()
    return BuildConfig.model_validate(
        {
            "store": str(root),
            "recipe": "discourse",
            "source": {"kind": kind, "paths": [str(shared_data(folder) / name)], "unit_bytes": 500_000},
            "language": {"code": language},
            "discourse": {"size": SIZE, "unit_pairs": 200},
            "run": {"workers": dict.fromkeys(names, limits)},
        }
    )


@pytest.fixture(scope="module", params=SOURCES)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def expected(kind, tmp_path_factory):
    return build(settings(tmp_path_factory.mktemp("loop") / "store", kind), LocalExecutor())


def test_every_pair_is_one_word_in_two_sentences_of_an_article_and_one_of_another(expected):
    assert all(check.ok for check in verify(expected, RECIPE.reads, RECIPE.passes))
    articles = {
        row["text"]: row["article"] for row in CommittedTable(expected, "harvest", "sentences").to_table().to_pylist()
    }
    pairs = open_product(expected).to_table().to_pylist()
    assert 10 <= len(pairs) <= SIZE
    assert len({pair["id"] for pair in pairs}) == len(pairs)
    for pair in pairs:
        for member in DISCOURSE.members:
            text, start, end = (pair[name] for name in member.columns)
            assert start is not None or member.optional
            if start is not None:
                assert text[start:end] == pair[member.word]
                assert (pair[member.word] == pair["target"]) == (member.name != "neighbour")
        assert len({pair["text"], pair["positive"], pair["negative"]}) == 3
        assert articles[pair["text"]] == articles[pair["positive"]] == pair["article"] != pair["negative_article"]


def test_pairs_are_balanced_over_the_words(expected, kind):
    repeats = CommittedTable(expected, "repeats", "repeats").to_table(["word", "second"]).to_pylist()
    offered = Counter(row["word"] for row in repeats if row["second"] is not None)
    taken = Counter(pair["target"] for pair in open_product(expected).to_table().to_pylist())
    assert taken.total() == min(SIZE, offered.total())
    assert all(taken[word] >= min(number, max(taken.values()) - 1) for word, number in offered.items())
    assert kind != "mediawiki" or any(word[0].isupper() for word in taken)  # German nouns


def test_a_killed_build_goes_on_to_the_same_store(kind, expected, tmp_path):
    store = build_killed_and_resumed(settings(tmp_path / "store", kind), "repeats", tmp_path / "build.yaml")
    assert committed_files(store) == committed_files(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "workers"), [("wikiextractor", 4), ("mediawiki", 2)], indirect=["kind"])
def test_any_number_of_workers_leaves_the_same_store(kind, expected, tmp_path, workers):
    with ray_cluster("local"):
        config = settings(tmp_path / "store", kind, workers)
        store = build(config, RayExecutor(config.run))
    assert committed_files(store) == committed_files(expected)
