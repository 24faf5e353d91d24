"""Harvest and sample on real Wikipedia text: the same store however it is run, whatever is killed on the way."""

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.engine.cluster import ray_cluster
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.store import CommittedTable, Store
from corpusgen.store.check import verify
from tests.testing.killed_builds import build_killed_and_resumed, committed_files
from tests.testing.shared_data import shared_data

pytestmark = pytest.mark.real


def settings(root, workers=1, language="en", **source):
    limits = {"min_workers": workers, "max_workers": workers}
    names = ("read", "extract", "identify", "segment", "filter", "merge", "sketch", "select", "fetch")
    return BuildConfig.model_validate(
        {
            "store": str(root),
            "source": {"unit_bytes": 500_000, **source},
            "language": {"code": language},
            "sample": {"size": 500, "vocabulary": 2000},
            "run": {"workers": dict.fromkeys(names, limits)},
        }
    )


@pytest.fixture(scope="module", params=["wikiextractor", "mediawiki"])
def source(request):
    path = {
        "wikiextractor": "wikipedia/extracted/wiki_0[01].gz",
        "mediawiki": "wikipedia/dumps/enwiki-table-markup.xml.bz2",
    }
    folder, _, name = path[request.param].rpartition("/")
    return {"kind": request.param, "paths": [str(shared_data(folder) / name)]}


@pytest.fixture(scope="module")
def expected(source, tmp_path_factory):
    return build(settings(tmp_path_factory.mktemp("loop") / "store", **source), LocalExecutor())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "workers"), [("wikiextractor", 1), ("wikiextractor", 4), ("mediawiki", 2)], indirect=["source"]
)
def test_any_number_of_workers_leaves_the_same_store(source, expected, tmp_path, workers):
    with ray_cluster("local"):
        config = settings(tmp_path / "store", workers, **source)
        store = build(config, RayExecutor(config.run))
    assert committed_files(store) == committed_files(expected)


def test_a_killed_build_goes_on_to_the_same_store(source, expected, tmp_path):
    store = build_killed_and_resumed(settings(tmp_path / "store", **source), "harvest", tmp_path / "build.yaml")
    assert committed_files(store) == committed_files(expected)


def test_the_books_close_and_every_target_is_where_it_should_be(expected):
    assert all(check.ok for check in verify(expected))
    sentences = CommittedTable(expected, "harvest", "sentences").to_table().to_pylist()
    assert len({sentence["id"] for sentence in sentences}) == len(sentences)
    for sentence in sentences:
        tokens = [sentence["text"][a:b] for a, b in zip(sentence["token_starts"], sentence["token_ends"], strict=True)]
        assert "".join(tokens) == "".join(sentence["text"].split())
    targets = CommittedTable(expected, "sample", "targets").to_table().to_pylist()
    assert len(targets) == min(500, len(sentences))
    assert len({target["id"] for target in targets}) == len(targets)
    for target in targets:
        assert target["text"][target["target_start"] : target["target_end"]] == target["target"]
        tokens = [target["text"][a:b] for a, b in zip(target["token_starts"], target["token_ends"], strict=True)]
        assert tokens.count(target["target"]) == 1


def test_all_dumps_and_extracted_files_go_through(tmp_path):
    sources = {
        "en": ("mediawiki", "wikipedia/dumps", "enwiki*"),
        "de": ("mediawiki", "wikipedia/dumps", "dewiki*"),
        "fr": ("mediawiki", "wikipedia/dumps", "frwiki*"),
        "bg": ("mediawiki", "wikipedia/dumps", "bgwiki*"),  # in UTF-16
    }
    for language, (kind, folder, name) in sources.items():
        config = settings(tmp_path / language, language=language, kind=kind, paths=[str(shared_data(folder) / name)])
        build(config, LocalExecutor(), until="harvest")
        (check,) = verify(Store.at(str(tmp_path / language)))
        assert check.ok
        assert check.totals.quarantined == 0
        assert check.totals.rows["sentences"] >= 10
