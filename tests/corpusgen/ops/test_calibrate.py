"""What cosines mean in a file of vectors: counted right, the same again, and with suggestions that make sense."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

from corpusgen.errors import StageError
from corpusgen.models.vectors import WordVectors, open_vectors
from corpusgen.ops import calibrate as module
from corpusgen.ops.calibrate import calibrate, report
from tests.testing.shared_data import shared_data


def as_vectors(tmp_path, words, matrix) -> WordVectors:
    np.save(tmp_path / "v.npy", np.asarray(matrix, np.float32))
    (tmp_path / "v.txt").write_text("\n".join(words), encoding="utf-8")
    return open_vectors(str(tmp_path / "v.npy"))


def families(count, random, near=0.5, dimension=20):
    """Words of four letters in families of eight whose vectors have a common part."""
    words = [
        "".join(letters) for letters in itertools.islice(itertools.product("bdfgk", "aeiou", "lmnr", "aeo"), count)
    ]
    centres = np.repeat(random.normal(size=(-(-count // 8), dimension)), 8, axis=0)[:count]
    return words, centres + near * random.normal(size=(count, dimension))


@pytest.fixture
def vectors(tmp_path):
    return as_vectors(tmp_path, *families(300, np.random.default_rng(1)))


def test_figures_are_those_of_the_definition(vectors):
    found = calibrate(vectors, words_sample=300, seed=2, pairs=50_000)
    words = list(vectors.vocabulary)
    units = vectors.lookup(words)
    cosines = (units @ units.T).astype(np.float64)
    of_pairs = cosines[~np.eye(300, dtype=bool)]
    for at, value in found.random_percentiles.items():
        assert value == pytest.approx(np.percentile(of_pairs, float(at)), abs=0.02)
    assert found.random_mean == pytest.approx(of_pairs.mean(), abs=0.01)
    np.fill_diagonal(cosines, -1)
    nearest = -np.sort(-cosines, axis=1)
    for rank, spread in found.neighbours.items():
        wanted = np.percentile(nearest[:, int(rank) - 1], (25, 50, 75))
        assert dataclasses.astuple(spread) == pytest.approx(wanted, abs=1e-4)
    alike = np.array([[a[:2] == b[:2] for b in words] for a in words])
    other = np.where(alike, -1, cosines).max(axis=1)
    assert dataclasses.astuple(found.other_form) == pytest.approx(np.percentile(other, (25, 50, 75)), abs=1e-4)
    for threshold in (*found.suggestions, found.paper):
        assert threshold.neighbours == pytest.approx((cosines >= threshold.value).sum() / 300, abs=0.05)
        assert threshold.words_with_neighbours == pytest.approx((other >= threshold.value).mean(), abs=0.01)
        assert threshold.random_share == pytest.approx((of_pairs >= threshold.value).mean(), abs=0.01)


def test_suggestions_come_from_the_distribution(vectors):
    found = calibrate(vectors, words_sample=300, pairs=50_000)
    values = {threshold.setting: threshold.value for threshold in found.suggestions}
    assert values == {
        "align_min_cosine": round(found.random_percentiles["99"], 2),
        "enrich_min_cosine": round(found.other_form.median, 2),
        "negative_max_cosine": round(found.random_percentiles["90"], 2),
    }
    assert values["negative_max_cosine"] < values["align_min_cosine"]


def test_examples_are_the_words_next_to_the_threshold(vectors):
    for threshold in calibrate(vectors, seed=4).suggestions:
        assert len(threshold.examples) == 5
        for example in threshold.examples:
            cosines = vectors.lookup(vectors.vocabulary) @ vectors.lookup([example.word])[0]
            others = [
                (word, float(cosine))
                for word, cosine in zip(vectors.vocabulary, cosines, strict=True)
                if word[:2] != example.word[:2]
            ]
            above = sorted((pair for pair in others if pair[1] >= threshold.value), key=lambda pair: pair[1])
            below = sorted((pair for pair in others if pair[1] < threshold.value), key=lambda pair: -pair[1])
            assert [word for word, _ in example.above] == [word for word, _ in above[:3]]
            assert [word for word, _ in example.below] == [word for word, _ in below[:3]]
            assert dict(example.below) == pytest.approx(dict(below[:3]), abs=1e-4)


def test_the_seed_decides_and_the_blocks_do_not(vectors, monkeypatch):
    first = calibrate(vectors, words_sample=100, seed=1, pairs=5000)
    assert calibrate(vectors, words_sample=100, seed=2, pairs=5000) != first
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 999)
    assert calibrate(vectors, words_sample=100, seed=1, pairs=5000) == first


def test_only_words_in_letters_and_lower_case_count(tmp_path):
    random = np.random.default_rng(0)
    words, matrix = families(60, random)
    odd = ["1990", ",", "e-mail", "BALA", "zero"]
    extra = [*random.normal(size=(4, 20)), np.zeros(20)]
    found = calibrate(as_vectors(tmp_path, [*odd, *words], np.vstack([extra, matrix])), pairs=100)
    assert (found.words, found.sampled) == (60, 60)


def test_too_few_words_are_refused(tmp_path):
    words, matrix = families(20, np.random.default_rng(0))
    with pytest.raises(StageError, match="only 20 alphabetic words"):
        calibrate(as_vectors(tmp_path, words, matrix))


def test_common_endings_are_found_in_any_language(tmp_path):
    random = np.random.default_rng(0)
    words, matrix = families(60, random)
    assert calibrate(as_vectors(tmp_path, words, matrix), pairs=100).same_stem is None
    inflected = matrix + 0.1 * random.normal(size=matrix.shape)
    both = as_vectors(tmp_path, [*words, *(f"{word}ит" for word in words)], np.vstack([matrix, inflected]))
    same_stem = calibrate(both, pairs=100).same_stem
    units = both.lookup(both.vocabulary)
    wanted = np.percentile((units[:60] * units[60:]).sum(axis=1), (25, 50, 75))
    assert dataclasses.astuple(same_stem) == pytest.approx(wanted, abs=1e-4)


def test_where_all_neighbours_begin_alike_there_is_still_a_suggestion(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LOOKED_AT", 10)
    random = np.random.default_rng(0)
    words = [f"talossa{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]
    found = calibrate(as_vectors(tmp_path, words, random.normal(size=(64, 8))), pairs=100)
    assert found.other_form == found.neighbours["10"]


def test_the_result_can_be_written_as_json_and_read_by_people(vectors):
    found = calibrate(vectors, pairs=1000)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["suggestions"][0]["value"] == found.suggestions[0].value
    text = report(found)
    for threshold in found.suggestions:
        assert f"around {threshold.value:.2f} ({threshold.setting})" in text
        assert threshold.examples[0].word in text
    assert "0.60" in text


@pytest.mark.real
def test_suggestions_for_real_vectors_separate_what_they_should():
    vectors = open_vectors(str(shared_data("models/fasttext/enwiki-80d.bin")))
    found = calibrate(vectors, words_sample=500, pairs=100_000)
    assert found.random_percentiles["95"] == pytest.approx(0.48, abs=0.02)
    assert found.random_percentiles["99"] == pytest.approx(0.58, abs=0.02)
    align, enrich, negative = (threshold.value for threshold in found.suggestions)

    def cosine(a, b):
        return float(vectors.lookup([a])[0] @ vectors.lookup([b])[0])

    assert cosine("promised", "left") < negative < align
    assert align < cosine("promised", "assured") < enrich
    for pair in (("founded", "established"), ("notion", "concept"), ("often", "frequently")):
        assert cosine(*pair) >= enrich
    for pair in (("filed", "convicted"), ("slowly", "eventually"), ("capital", "region")):
        assert 0.6 < cosine(*pair) < enrich  # they pass the paper's λ
