"""The sample of a build: several sentences of a word if asked for, names only if wanted, and the same for any units."""

from collections import Counter

import pytest

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from corpusgen.store import CommittedTable
from corpusgen.targets.stages import SelectTargets, SketchCandidates
from tests.testing import document_builds as support

SIZE = 24


@pytest.fixture
def source(tmp_path):
    documents = support.documents()
    named = [[text.replace("ferry", "Ferry") for text in paragraphs] for paragraphs in documents]
    return support.write(tmp_path, "jsonl", named)


def sampled(folder, source, unit_bytes=10_000, **sample):
    settings = {
        "store": str(folder),
        "source": {"kind": "jsonl", "paths": [source], "unit_bytes": unit_bytes},
        "language": {"identify": False},
        "sample": {"size": SIZE, "vocabulary": 60, **sample},
    }
    store = build(BuildConfig.model_validate(settings), LocalExecutor())
    return CommittedTable(store, "sample", "targets").to_table(["id", "target"]).to_pylist()


def test_a_word_has_one_sentence_or_as_many_as_asked_for(tmp_path, source):
    assert max(Counter(row["target"] for row in sampled(tmp_path / "one", source)).values()) == 1
    several = Counter(row["target"] for row in sampled(tmp_path / "four", source, sentences_per_word=4))
    assert several.total() == SIZE
    assert set(several.values()) == {4}


def test_the_division_into_units_does_not_matter(tmp_path, source):
    sample = {"sentences_per_word": 3, "max_capital_share": 0.5}
    small, large = (sampled(tmp_path / str(size), source, size, **sample) for size in (2000, 1_000_000))
    assert small == large


def test_names_are_left_out_if_asked_for(tmp_path, source):
    targets = {row["target"] for row in sampled(tmp_path / "all", source, size=1000)}
    assert {"Ferry", "Every"} <= targets
    without = {row["target"] for row in sampled(tmp_path / "few", source, size=1000, max_capital_share=0.5)}
    assert without == {word for word in targets if word.islower()}


@pytest.mark.parametrize("stage", [SketchCandidates, SelectTargets])
def test_settings_added_later_change_the_identity_only_if_they_are_used(stage):
    plain = stage(10, 0, store=None).identity()
    assert plain.keys() == {"stage", "version", "size", "seed"}
    assert stage(10, 0, 4, store=None).identity() == {**plain, "sentences_per_word": 4}
    assert stage(10, 0, max_capital_share=0.9, store=None).identity() == {**plain, "max_capital_share": 0.9}
