"""The pieces of sentences, their weights and windows, whatever the tokenizer makes of a text."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from distiller.static.x2static.pooling import NO_PIECE, TOO_LONG, Pooling, Spans


class Encoding:
    """A tokenizer that makes pieces of fixed length, drops some characters, and adds a special token at each end."""

    def __init__(self, text, size, dropped):
        places = [(a, min(a + size, len(text))) for a in range(0, len(text), size)]
        kept = [(a, b) for a, b in places if text[a] != dropped]
        self.offsets = [(0, 0), *kept, (0, 0)]
        self.ids = list(range(100, 100 + len(self.offsets)))
        self.special_tokens_mask = [1, *[0] * len(kept), 1]


texts = st.lists(st.text("ab x", min_size=1, max_size=60), min_size=1, max_size=4)


def spans_in(some, chance):
    found = []
    for number, text in enumerate(some):
        cuts = sorted(chance.sample(range(len(text) + 1), min(len(text) + 1, 4)))
        found += [(number, a, b) for a, b in itertools.pairwise(cuts)]
    return Spans(*np.array(found, np.int64).reshape(-1, 3).T)


def pieces_of(encoding, start, end):
    return [i for i, (a, b) in enumerate(encoding.offsets) if a < end and start < b]


@given(
    texts, st.integers(1, 3), st.sampled_from(["x", "a", "-"]), st.integers(5, 40), st.randoms(use_true_random=False)
)
def test_the_pieces_of_a_sentence_share_its_weight_and_are_all_in_the_window(some, size, dropped, longest, chance):
    encodings = [Encoding(text, size, dropped) for text in some]
    sentences = spans_in(some, chance)
    found = Pooling(longest).read(some, encodings, sentences)
    for reading, text, start, end in zip(found, *(part.tolist() for part in sentences), strict=True):
        own = pieces_of(encodings[text], start, end)
        if isinstance(reading, str):
            assert reading == (NO_PIECE if not own else TOO_LONG)
            assert not own or len(own) > longest - 2
            continue
        ids, weights = reading
        assert len(ids) == len(weights) <= longest
        assert (ids[0], ids[-1]) == (encodings[text].ids[0], encodings[text].ids[-1])
        assert list(ids[1:-1]) == list(range(ids[1], ids[-2] + 1))  # a stretch of the text
        assert [ids[i] for i in np.flatnonzero(weights)] == [encodings[text].ids[i] for i in own]
        np.testing.assert_allclose(weights[weights > 0], 1 / len(own), rtol=1e-6)


@given(texts, st.integers(1, 3), st.booleans(), st.randoms(use_true_random=False))
def test_words_of_a_sentence_have_equal_weights(some, size, special_tokens, chance):
    encodings = [Encoding(text, size, "x") for text in some]
    sentences = Spans(np.arange(len(some)), np.zeros(len(some), np.int64), np.array(list(map(len, some))))
    words = spans_in(some, chance)
    found = Pooling(100, by_word=True, special_tokens=special_tokens).read(some, encodings, sentences, words)
    for number, (reading, encoding) in enumerate(zip(found, encodings, strict=True)):
        wanted = np.zeros(len(encoding.ids))
        for text, start, end in zip(*(part.tolist() for part in words), strict=True):
            if text == number and (own := pieces_of(encoding, start, end)):
                wanted[own] += 1 / len(own)
        if not wanted.any():
            assert reading == NO_PIECE
            continue
        if special_tokens:
            wanted[[0, -1]] = 1
        np.testing.assert_allclose(reading.weights, wanted / wanted.sum(), rtol=1e-5)


def test_sentences_of_a_long_text_share_windows():
    text = "a" * 1000
    bounds = np.arange(0, 1001, 20)
    sentences = Spans(np.zeros(50, np.int64), bounds[:-1], bounds[1:])
    found = Pooling(102).read([text], [Encoding(text, 1, "x")], sentences)
    assert len({reading.ids for reading in found}) < 25
