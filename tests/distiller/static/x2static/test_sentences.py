"""Batches hold every line once per epoch, with the right sentences and words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.errors import StoreError
from distiller.static.x2static.kernel import permuted, stream_key
from distiller.static.x2static.sentences import Sentences, batch_of, batches, steps_per_epoch
from tests.distiller.static.x2static.support import settings, text


@given(size=st.integers(1, 2000), seed=st.integers(-(2**63), 2**63))
def test_a_permutation_has_every_number_once(size, seed):
    key = stream_key(seed, b"any")
    whole = permuted(0, size, size, key)
    assert sorted(whole.tolist()) == list(range(size))
    middle = size // 3
    assert permuted(middle, size, size, key).tolist() == whole[middle:].tolist()


def test_a_permutation_of_very_many_takes_no_memory():
    size = 10**12 + 7
    some = permuted(size - 1000, size, size, stream_key(0, b"any"))
    assert len(set(some.tolist())) == 1000
    assert (some >= 0).all()
    assert (some < size).all()
    assert some.mean() == pytest.approx(size / 2, rel=0.1)


def test_orders_look_random():
    orders = np.array([permuted(0, 50, 50, stream_key(seed, b"any")) for seed in range(4000)])
    assert orders.mean(axis=0) == pytest.approx(24.5, abs=1.2)
    assert (orders == np.arange(50)).mean() == pytest.approx(1 / 50, rel=0.05)
    assert (np.diff(orders) == 1).mean() == pytest.approx(1 / 50, rel=0.05), "neighbours do not stay neighbours"


@pytest.mark.parametrize("batch_lines", [1, 7, 40, 100])
def test_an_epoch_has_every_word_once_with_its_sentence(batch_lines):
    sentences, _ = text()
    given_ = settings(batch_lines=batch_lines)
    found = list(batches(sentences, given_))
    per_epoch = steps_per_epoch(sentences, given_)
    assert [batch.step for batch in found] == list(range(2 * per_epoch))
    sentence_of = np.repeat(np.arange(len(sentences.contexts)), np.diff(sentences.offsets))
    for epoch in range(2):
        own = [batch for batch in found if batch.epoch == epoch]
        assert len(own) == per_epoch
        places = np.concatenate([batch.places for batch in own])
        assert sorted(places.tolist()) == list(range(len(sentences.tokens)))
        for batch in own:
            assert (batch.tokens == sentences.tokens[batch.places]).all()
            wanted = sentences.contexts[sentence_of[batch.places]].astype(np.float32)
            assert (batch.contexts[batch.sentence] == wanted).all()
            assert batch.contexts.dtype == np.float32
    first, second = (np.concatenate([b.places for b in found if b.epoch == epoch]) for epoch in range(2))
    assert batch_lines == 100 or first.tolist() != second.tolist()


def test_a_line_stays_together():
    sentences, _ = text(sentences_per_line=3)
    batch = batch_of(sentences, settings(batch_lines=1), 5)
    assert len(batch.contexts) == 3
    assert (np.diff(batch.places) == 1).all()


def test_batches_begin_at_any_step():
    sentences, _ = text()
    wanted = list(batches(sentences, settings()))[3:]
    found = list(batches(sentences, settings(), first_step=3))
    assert [batch.places.tolist() for batch in found] == [batch.places.tolist() for batch in wanted]


def test_sentences_may_be_a_memory_map(tmp_path):
    sentences, _ = text()
    np.save(tmp_path / "contexts.npy", sentences.contexts)
    np.save(tmp_path / "tokens.npy", sentences.tokens)
    mapped = Sentences(
        np.load(tmp_path / "contexts.npy", mmap_mode="r"),
        np.load(tmp_path / "tokens.npy", mmap_mode="r"),
        sentences.offsets,
        sentences.line_offsets,
    )
    ours, wanted = (batch_of(one, settings(), 2) for one in (mapped, sentences))
    assert (ours.contexts == wanted.contexts).all()
    assert (ours.tokens == wanted.tokens).all()


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_context_that_is_not_finite_is_named(value):
    sentences, _ = text()
    sentences.contexts[17, 3] = value
    with pytest.raises(StoreError, match="the vector of sentence 17 holds infinite values or NaN; make"):
        list(batches(sentences, settings()))


def test_arrays_that_do_not_fit_are_refused():
    sentences, _ = text()
    with pytest.raises(ValueError, match="offsets must lead from 0 to"):
        Sentences(sentences.contexts, sentences.tokens[1:], sentences.offsets, sentences.line_offsets)
    with pytest.raises(ValueError, match="80 contexts, but 79 sentences"):
        Sentences(sentences.contexts, sentences.tokens, np.delete(sentences.offsets, 5), sentences.line_offsets)
