"""Targets and negatives have the right frequencies, and follow from hashes alone."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from distiller.static.x2static.kernel import _hash, alias_table, permuted, stream_key, with_negatives
from distiller.static.x2static.sampling import Sampling, keep_probability
from distiller.static.x2static.sentences import Batch, batch_of
from tests.distiller.static.x2static.support import settings, text

COUNTS = np.array([50_000, 20_000, 9_000, 4_000, 900, 400, 90, 10])


def batch(tokens, first=0, epoch=0):
    places = first + np.arange(len(tokens))
    return Batch(0, epoch, np.zeros((1, 4), np.float32), tokens, places, np.zeros(len(tokens), np.int32))


def test_frequent_words_are_thinned_out_as_published():
    kept = keep_probability(COUNTS, 1e-3)
    for probability, count in zip(kept, COUNTS, strict=True):
        ratio = 1e-3 / (count / COUNTS.sum())
        assert probability == pytest.approx(min(1, ratio**0.5 + ratio))
    assert kept[0] < 0.05
    assert (kept[6:] == 1).all()


def test_the_share_of_targets_is_their_probability():
    tokens = np.repeat(np.arange(len(COUNTS), dtype=np.int32), 40_000)
    sampling = Sampling.of(settings(threshold=1e-3), COUNTS)
    candidates, words = sampling.draw(batch(tokens))
    assert (words[:, 0] == tokens[candidates]).all()
    found = np.bincount(words[:, 0], minlength=len(COUNTS))
    expected = 40_000 * sampling.kept
    deviation = np.sqrt(np.maximum(expected * (1 - sampling.kept), 1e-9))
    assert (np.abs(found - expected) <= 4 * deviation).all()


@pytest.mark.parametrize("exponent", [0.5, 0.75, 0.0])
def test_negatives_are_drawn_in_proportion_to_a_power_of_their_count(exponent):
    sampling = Sampling.of(settings(negative_exponent=exponent), COUNTS)
    words = sampling.draw(batch(np.full(30_000, 7, np.int32))).words
    assert words.shape == (30_000, 11)
    weights = COUNTS**exponent
    for column in range(1, 11):
        found = np.bincount(words[:, column], minlength=len(COUNTS))
        assert chisquare(found, 30_000 * weights / weights.sum()).pvalue > 1e-3


def test_negatives_of_neighbouring_targets_are_independent():
    sampling = Sampling.of(settings(negative_exponent=0.0), COUNTS)
    drawn = sampling.draw(batch(np.full(40_000, 7, np.int32))).words[:, 1:]
    for pairs in (drawn[:, :2], drawn[:-1, 0] * 8 + drawn[1:, 0]):
        codes = pairs[:, 0] * 8 + pairs[:, 1] if pairs.ndim == 2 else pairs
        assert chisquare(np.bincount(codes, minlength=64)).pvalue > 1e-3


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=50))
def test_an_alias_table_holds_exactly_the_weights(weights):
    share, other = alias_table(np.array(weights))
    probability = share.copy()
    np.add.at(probability, other, 1 - share)
    np.testing.assert_allclose(probability / len(weights), np.array(weights) / sum(weights), atol=1e-12)
    assert ((share >= 0) & (share <= 1)).all()


@given(st.integers(1, 2**31))
def test_the_largest_number_draws_a_word_of_the_vocabulary(size):
    assert float(2**53 - 1) * 2.0**-53 * size < size


def test_what_is_drawn_depends_on_place_and_epoch_alone():
    tokens = np.random.default_rng(0).integers(0, len(COUNTS), 500).astype(np.int32)
    sampling = Sampling.of(settings(threshold=1e-2), COUNTS)
    candidates, words = sampling.draw(batch(tokens))
    later, words_of_later = sampling.draw(batch(tokens[200:], first=200))
    assert (candidates[candidates >= 200] == later + 200).all()
    assert (words[candidates >= 200] == words_of_later).all()
    for other in (sampling.draw(batch(tokens, epoch=1)), sampling.draw(batch(tokens, first=9))):
        assert other.candidates.tolist() != candidates.tolist()
    other_seed = Sampling.of(settings(threshold=1e-2, seed=1), COUNTS)
    assert other_seed.draw(batch(tokens)).candidates.tolist() != candidates.tolist()


def test_another_process_draws_the_same():
    program = (
        "from distiller.static.x2static.sampling import Sampling\n"
        "from distiller.static.x2static.sentences import batch_of\n"
        "from tests.distiller.static.x2static.support import settings, text\n"
        "sentences, counts = text()\n"
        "drawn = Sampling.of(settings(), counts).draw(batch_of(sentences, settings(), 7))\n"
        "print(drawn.candidates.tolist(), drawn.words.tolist())\n"
    )
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    sentences, counts = text()
    drawn = Sampling.of(settings(), counts).draw(batch_of(sentences, settings(), 7))
    assert len(drawn.words) > 10
    assert printed == f"{drawn.candidates.tolist()} {drawn.words.tolist()}\n"


def test_random_numbers_are_those_of_splitmix64():
    """The first of seed 1234567, as the generator's reference implementation gives them."""
    numbers = [int(_hash(np.uint64(1234567), counter)) for counter in range(1, 4)]
    assert numbers == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_streams_never_change():
    """A run must resume under another version of this package, or of numba, as it began."""
    key = stream_key(5, b"x2 negatives", 2)
    drawn = with_negatives(np.zeros(3, np.int32), np.array([0, 1, 10**12]), *alias_table(np.sqrt(COUNTS)), 6, key)
    assert drawn[:, 1:].tolist() == [[0, 0, 0, 0, 2, 0], [0, 5, 2, 3, 1, 1], [2, 2, 1, 0, 0, 0]]
    assert permuted(0, 12, 12, key).tolist() == [10, 9, 6, 11, 8, 3, 7, 0, 1, 4, 5, 2]


def test_counts_of_nothing_are_refused():
    for counts in (np.array([3, 0]), np.array([], np.int64)):
        with pytest.raises(ValueError, match="at least"):
            Sampling.of(settings(), counts)
