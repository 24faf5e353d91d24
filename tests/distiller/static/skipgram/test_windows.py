"""Windows are those of plain loops, and negatives follow from the place of a word alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.static.settings import SkipgramSettings
from distiller.static.skipgram.windows import Batch, Sampling
from tests.distiller.static.skipgram.plain import window

VOCABULARY = 6
sentences = st.lists(st.lists(st.integers(-1, VOCABULARY - 1), min_size=1, max_size=25), min_size=1, max_size=5)


def batch_of(texts, places=0, epoch=0):
    tokens = np.array([token for text in texts for token in text], np.int32)
    centres = np.flatnonzero(tokens >= 0)
    bounds = np.cumsum([0, *map(len, texts)])
    return Batch(epoch, tokens, bounds, centres, centres + places, np.zeros((len(centres), 2), np.float32))


def sampling(**settings):
    return Sampling.of(SkipgramSettings(**settings).completed("paper"), np.arange(VOCABULARY, 0, -1))


@given(sentences, st.integers(1, 7), st.sampled_from(["exclude", "include", "published"]))
def test_contexts_are_those_of_plain_loops(texts, size, centre):
    found = sampling(window=size, centre=centre).windows(batch_of(texts))
    wanted = []
    for text in texts:
        for i, token in enumerate(text):
            words = [text[j] for j in window(text, i, size, centre) if text[j] >= 0]
            wanted += [words] if token >= 0 and words else []
    assert [row[there].tolist() for row, there in zip(found.contexts, found.present, strict=True)] == wanted
    assert found.negatives.shape == (len(wanted), 5)


def test_in_the_published_window_most_words_predict_themselves():
    places = [i in window(range(30), i, 5, "published") for i in range(30)]
    assert places == [False] * 6 + [True] * 24


@given(sentences, st.integers(0, 10**9), st.sampled_from(["centre", "pair"]))
def test_negatives_do_not_depend_on_the_other_sentences_of_a_batch(texts, places, per):
    draw = sampling(negatives_per=per).windows
    together = draw(batch_of(texts, places)).negatives
    alone, begun = [], places
    for text in texts:
        alone.append(draw(batch_of([text], begun)).negatives)
        begun += len(text)
    assert np.array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize("exponent", [0.75, 0.0])
def test_negatives_are_drawn_in_proportion_to_a_power_of_the_counts(exponent):
    counts = np.array([1000, 100, 10, 1])
    draw = Sampling.of(SkipgramSettings(negative_exponent=exponent, negatives=50).completed("paper"), counts)
    tokens = np.tile(np.array([0, 1], np.int32), 2000)
    batch = Batch(
        0, tokens, np.array([0, len(tokens)]), np.arange(len(tokens)), np.arange(len(tokens)), np.zeros((4000, 1))
    )
    drawn = np.bincount(draw.windows(batch).negatives.ravel(), minlength=4) / (4000 * 50)
    assert drawn == pytest.approx(counts**exponent / (counts**exponent).sum(), abs=0.005)


def test_another_epoch_has_other_negatives():
    draw = sampling().windows
    text = [[0, 1, 2, 3, 4, 5] * 4]
    assert not np.array_equal(draw(batch_of(text)).negatives, draw(batch_of(text, epoch=1)).negatives)
