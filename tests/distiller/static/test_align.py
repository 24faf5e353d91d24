"""Alignment: rotations are found again, and what is held out has no part in them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes

from corpusgen.errors import ConfigError
from distiller.static import align as module
from distiller.static.align import Pairs, align, known_pairs, precision_at_1, procrustes, read_dictionary, split_pairs
from distiller.static.csls import best_matches, crowding, mutual_matches
from distiller.static.vectors import StaticVectors

WORDS, DIMENSION = 200, 8
NOTHING = np.zeros((0, 2), np.int64)


def languages(noise=0.01, alike=0, seed=0):
    """Two tables of the same meanings, the second in another order and turned; of `alike` meanings the word is one."""
    generator = np.random.default_rng(seed)
    meanings = generator.normal(size=(WORDS, DIMENSION))
    turn = np.linalg.qr(generator.normal(size=(DIMENSION, DIMENSION)))[0]
    order = generator.permutation(WORDS)
    other = (meanings @ turn + noise * generator.normal(size=meanings.shape))[order]
    source = StaticVectors.of([f"s{n}" if n >= alike else f"same{n}" for n in range(WORDS)], meanings)
    target = StaticVectors.of([f"t{n}" if n >= alike else f"same{n}" for n in order], other)
    pairs = np.stack([np.arange(WORDS), np.argsort(order)], axis=1)
    return source, target, pairs


@given(st.integers(0, 2**32 - 1))
def test_the_rotation_is_that_of_scipy(seed):
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=(2, 20, 4)).astype(np.float32)
    np.testing.assert_allclose(procrustes(x, y), orthogonal_procrustes(x, y)[0], atol=1e-4)


def test_a_dictionary_brings_one_language_into_the_space_of_the_other():
    source, target, pairs = languages(noise=0)
    aligned = align(source, target, Pairs(pairs[:50], pairs[50:]))
    np.testing.assert_allclose(aligned.vectors.vectors[pairs[:, 0]], target.vectors[pairs[:, 1]], atol=1e-4)
    assert (aligned.seeds, aligned.pairs) == (50, 50)
    np.testing.assert_allclose(  # similarities inside of the source stay
        aligned.vectors.vectors @ aligned.vectors.vectors.T, source.vectors @ source.vectors.T, atol=1e-3
    )


def test_held_out_words_tell_how_well_words_are_translated():
    source, target, pairs = languages()
    both = split_pairs(pairs, source, 0.3)
    assert 30 < len(both.held_out) < 90
    assert len(both.fit) + len(both.held_out) == WORDS
    precision = precision_at_1(align(source, target, both).vectors, target, both.held_out)
    assert (precision.words, precision.nearest.value, precision.csls.value) == (len(both.held_out), 1, 1)
    assert precision.csls.low == precision.csls.high == 1
    unaligned = precision_at_1(source, target, both.held_out)
    assert unaligned.nearest.value < 0.2


def test_one_of_several_translations_is_enough():
    source, target, pairs = languages(noise=0)
    wrong = np.stack([pairs[:, 0], np.roll(pairs[:, 1], 1)], axis=1)
    vectors = align(source, target, Pairs(pairs, NOTHING)).vectors
    both = np.unique(np.concatenate([pairs[:20], wrong[:20]]), axis=0)
    assert precision_at_1(vectors, target, both).nearest.value == 1
    assert precision_at_1(vectors, target, wrong[:20]).nearest.value == 0


@pytest.mark.parametrize("share", [0.2, 0.8, 1])
@pytest.mark.parametrize("refinements", [0, 2])
def test_held_out_words_have_no_part_in_the_fit(share, refinements):
    """Not even those that both languages write alike, nor those that refinement could find."""
    source, target, pairs = languages(alike=60)
    both = split_pairs(pairs, source, share)
    spoilt = source.vectors.copy()
    spoilt[both.held_out[:, 0]] = np.random.default_rng(9).normal(size=(len(both.held_out), DIMENSION))
    if share == 1:  # so that some words are left to begin with
        both = Pairs(both.fit, both.held_out[both.held_out[:, 0] >= 40])
        spoilt[:40] = source.vectors[:40]
    maps = [
        align(table, target, both, refinements).vectors.source.map.matrix
        for table in (source, StaticVectors.of(source.words, spoilt))
    ]
    np.testing.assert_array_equal(*maps)


def test_words_written_alike_are_a_start_and_refinement_finds_more():
    # More words than dimensions: fewer would leave directions that only rounding decides on.
    source, target, pairs = languages(alike=DIMENSION + 2, noise=0.3)
    rough, refined = (align(source, target, None, rounds) for rounds in (0, 3))
    assert (rough.seeds, rough.pairs, refined.seeds) == (10, 10, 10)
    assert refined.pairs > 150
    before, after = (precision_at_1(one.vectors, target, pairs).nearest.value for one in (rough, refined))
    assert before < 0.85 < 0.9 < after
    by_default = align(source, target)
    assert by_default.pairs == align(source, target, None, module.REFINEMENTS).pairs


def test_pairs_of_the_dictionary_stay_in_every_round():
    source, target, pairs = languages()
    aligned = align(source, target, Pairs(pairs[:30], NOTHING), 1)
    assert aligned.pairs >= 30


def test_what_cannot_be_aligned_is_refused():
    source, target, pairs = languages()
    narrow = StaticVectors.of(target.words, target.vectors[:, :5])
    with pytest.raises(ConfigError, match="SOURCE has 8 dimensions and TARGET 5; bring both to one number"):
        align(source, narrow, Pairs(pairs, NOTHING))
    with pytest.raises(
        ConfigError, match="SOURCE and TARGET write no word alike; give pairs of words with --dictionary"
    ):
        align(source, target)


# ----------------------------------------------------------------- dictionaries


def test_dictionaries_have_a_tab_or_spaces_between_words(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("﻿chien\tdog\n\nchat cat\nNew York\tNew York\n", encoding="utf-8")
    assert read_dictionary(str(path)) == [("chien", "dog"), ("chat", "cat"), ("New York", "New York")]
    assert read_dictionary(str(path), target_first=True)[0] == ("dog", "chien")


@pytest.mark.parametrize("line", ["alone", "a\tb\tc", "\tb", "a b c"])
def test_a_line_that_is_no_pair_is_named(tmp_path, line):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"chien\tdog\n{line}\n")
    with pytest.raises(ConfigError, match=r"pairs\.tsv, line 2: expected two words and a tab between them"):
        read_dictionary(str(path))


def test_a_missing_dictionary_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the dictionary .*nowhere\.tsv: .*No such file"):
        read_dictionary(str(tmp_path / "nowhere.tsv"))


def test_pairs_are_known_as_written_or_in_lower_case():
    source = StaticVectors.of(["chien", "Paris"], np.eye(2))
    target = StaticVectors.of(["dog", "paris"], np.eye(2))
    dictionary = [("Chien", "dog"), ("chien", "Dog"), ("Paris", "Paris"), ("chat", "cat"), ("chien", "cat")]
    assert known_pairs(dictionary, source, target).tolist() == [[0, 0], [1, 1]]


def test_a_word_is_held_out_with_all_its_translations():
    source = StaticVectors.of([f"s{n}" for n in range(100)], np.zeros((100, 2)))
    pairs = np.stack([np.repeat(np.arange(100), 3), np.arange(300)], axis=1)
    both = split_pairs(pairs, source, 0.5)
    assert not set(both.fit[:, 0]) & set(both.held_out[:, 0])
    assert (len(split_pairs(pairs, source, 0).held_out), len(split_pairs(pairs, source, 1).fit)) == (0, 0)


# --------------------------------------------------------------------- retrieval


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_retrieval_is_that_of_the_definition(seed, monkeypatch):
    monkeypatch.setattr("distiller.static.csls._SIMILARITIES_AT_ONCE", 100)  # in several goes
    generator = np.random.default_rng(seed)
    rows, others = unit(generator.normal(size=(40, 5))), unit(generator.normal(size=(30, 5)))
    cosines = rows @ others.T
    of_rows = np.sort(cosines, axis=1)[:, -10:].mean(axis=1)
    of_others = np.sort(cosines, axis=0)[-10:].mean(axis=0)
    np.testing.assert_allclose(crowding(rows, others), of_rows, atol=1e-6)
    np.testing.assert_allclose(crowding(others, rows), of_others, atol=1e-6)
    csls = 2 * cosines - of_rows[:, None] - of_others
    assert best_matches(rows, others).tolist() == cosines.argmax(axis=1).tolist()
    assert best_matches(rows, others, crowding(others, rows)).tolist() == csls.argmax(axis=1).tolist()
    mutual = [(row, csls[row].argmax()) for row in range(40) if csls[:, csls[row].argmax()].argmax() == row]
    assert mutual_matches(rows, others).tolist() == [list(pair) for pair in mutual]


def test_few_words_are_crowded_by_all_there_are():
    rows = unit(np.array([[1.0, 0], [1, 1]]))
    np.testing.assert_allclose(crowding(rows, rows), [(1 + np.sqrt(0.5)) / 2] * 2, atol=1e-6)
    assert best_matches(rows[:0], rows).tolist() == []
