"""Paragraphs of real Wikipedia text: exact offsets, a vocabulary that adds up, and the same whatever is killed."""

import itertools
from collections import Counter

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.recipes.paragraphs import RECIPE
from corpusgen.engine import LocalExecutor
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.ops.funnels import funnel_of
from corpusgen.store.check import verify
from corpusgen.store.products import PARAGRAPHS, open_product, read_vocabulary
from tests.testing.killed_builds import build_killed_and_resumed, committed_files
from tests.testing.shared_data import shared_data

pytestmark = pytest.mark.real

SOURCES = {
    "wikiextractor": ("en", "wikipedia/extracted", "wiki_0[01].gz"),
    "mediawiki": ("de", "wikipedia/dumps", "dewiki-mini.xml.bz2"),
}


def settings(root, kind, workers=None):
    language, folder, name = SOURCES[kind]
    limits = {"min_workers": workers, "max_workers": workers}
    return BuildConfig.model_validate(
        {
            "store": str(root),
            "recipe": "paragraphs",
            "source": {"kind": kind, "paths": [str(shared_data(folder) / name)], "unit_bytes": 500_000},
            "language": {"code": language},
            "run": {"workers": dict.fromkeys(("read", "segment"), limits) if workers else {}},
        }
    )


@pytest.fixture(scope="module", params=SOURCES)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def expected(kind, tmp_path_factory):
    return build(settings(tmp_path_factory.mktemp("loop") / "store", kind), LocalExecutor())


def test_every_token_is_in_one_sentence_and_the_vocabulary_adds_up(expected):
    assert all(check.ok for check in verify(expected, RECIPE.reads, RECIPE.passes))
    rows = open_product(expected).to_table().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows) > 20
    counts = Counter()
    for row in rows:
        text, covered = row["text"], 0
        assert len(text) >= 140
        assert len(row["sentence_starts"]) >= 3
        tokens = iter(zip(row["token_starts"], row["token_ends"], strict=True))
        bounds = zip(row["sentence_starts"], row["sentence_ends"], row["sentence_tokens"], strict=True)
        for start, end, number in bounds:
            for a, b in itertools.islice(tokens, number):
                assert start <= a < b <= end
                assert not text[covered:a].strip()
                counts[text[a:b].lower()] += 1
                covered = b
            assert covered == end
        assert not text[covered:].strip()
        assert next(tokens, None) is None
    words, numbers = read_vocabulary(expected)
    found = dict(zip(words, numbers.tolist(), strict=True))
    assert found == {word: count for word, count in counts.items() if count >= 10}
    funnel = funnel_of(expected, PARAGRAPHS)
    assert funnel.read == len(rows) + sum(funnel.rejected.values()) + funnel.quarantined


def test_a_killed_build_goes_on_to_the_same_store(kind, expected, tmp_path):
    store = build_killed_and_resumed(settings(tmp_path / "store", kind), "paragraphs", tmp_path / "build.yaml")
    assert committed_files(store) == committed_files(expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wikiextractor"], indirect=True)
def test_four_workers_leave_the_same_store(kind, expected, tmp_path):
    config = settings(tmp_path / "store", kind, workers=4)
    with ray_cluster("local"):
        store = build(config, RayExecutor(config.run))
    assert committed_files(store) == committed_files(expected)
