"""The result is the same to the bit for any number of workers and threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from distiller.static.x2static.kernel import sorted_entries
from distiller.static.x2static.sentences import batches
from distiller.static.x2static.trainer import ShardTrainer, StepLoss, _parts, shard_rows
from tests.distiller.static.x2static import support


@given(workers=st.integers(1, 9), vocabulary=st.integers(0, 100))
def test_every_word_has_one_worker_and_shares_are_even(workers, vocabulary):
    shards = [shard_rows(rank, workers, vocabulary) for rank in range(workers)]
    assert sorted(word for shard in shards for word in shard) == list(range(vocabulary))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_a_worker_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="worker 2 of 2"):
        shard_rows(2, 2, 10)


@given(
    words=arrays.arrays(np.int32, st.tuples(st.integers(0, 40), st.integers(1, 4)), elements=st.integers(0, 9000)),
    workers=st.integers(1, 5),
)
def test_entries_of_a_shard_are_its_words_by_row_and_place(words, workers):
    for rank in range(workers):
        entries = sorted_entries(words, rank, workers, len(shard_rows(rank, workers, 9001)))
        wanted = sorted(
            (int(word) // workers, place) for place, word in enumerate(words.flat) if word % workers == rank
        )
        assert [(int(entry) >> 32, int(entry) & 0xFFFFFFFF) for entry in entries] == wanted


@given(rows=st.lists(st.integers(0, 12), max_size=60), count=st.integers(1, 6))
def test_threads_share_no_row(rows, count):
    entries = np.array(sorted(row << 32 | place for place, row in enumerate(rows)), np.uint64)
    parts = _parts(entries, count)
    assert np.concatenate(parts).tolist() == entries.tolist()
    held = [set((part >> np.uint64(32)).tolist()) for part in parts]
    assert sum(map(len, held)) == len(set(rows))
    assert len(parts) == count or not rows


@pytest.mark.parametrize("dimension", [50, 128])
@pytest.mark.parametrize("bias_correction", ["global", "row"])
def test_vectors_are_the_same_for_any_number_of_workers_and_threads(dimension, bias_correction):
    sentences, counts = support.text(dimension=dimension)
    chosen = support.settings(bias_correction=bias_correction)
    shards, losses = support.trained(sentences, counts, chosen)
    state, touches = support.whole(shards)
    assert touches.max() > 5
    for workers, threads in [(2, 1), (3, 1), (5, 1), (1, 2), (1, 3), (3, 2), (70, 2)]:
        others, other_losses = support.trained(sentences, counts, chosen, workers, threads)
        other_state, other_touches = support.whole(others)
        assert other_state.tobytes() == state.tobytes(), (workers, threads)
        assert (other_touches == touches).all()
        assert other_losses == losses


@settings(max_examples=15)
@given(dimension=st.integers(1, 200), workers=st.integers(2, 4), seed=st.integers(0, 2**40))
def test_vectors_are_the_same_in_any_dimension(dimension, workers, seed):
    sentences, counts = support.text(lines=12, dimension=dimension, seed=seed)
    chosen = support.settings(seed=seed, epochs=1)
    alone, together = (support.trained(sentences, counts, chosen, count)[0] for count in (1, workers))
    assert support.whole(alone)[0].tobytes() == support.whole(together)[0].tobytes()


def test_batches_may_be_prepared_ahead():
    sentences, counts = support.text()
    (alone,), losses = support.trained(sentences, counts, support.settings())
    ahead = ShardTrainer(support.settings(), counts, 50)
    prepared = [ahead.prepare(batch) for batch in batches(sentences, support.settings())]
    assert [ahead.train(one) for one in prepared] == losses
    assert ahead.state.tobytes() == alone.state.tobytes()


def test_a_shard_holds_its_rows_alone():
    _, counts = support.text()
    shard = ShardTrainer(support.settings(), counts, 50, rank=1, workers=4)
    assert shard.state.shape == (15, 3, 50)
    assert (shard.vectors == ShardTrainer(support.settings(), counts, 50).vectors[1::4]).all()


def test_losses_of_different_steps_are_not_added():
    assert StepLoss(2, 1 << 32, 1 << 33) + StepLoss(2, 1 << 32, 0) == StepLoss(2, 1 << 33, 1 << 33)
    assert StepLoss(2, 1 << 32, 1 << 33).terms == {"targets": 0.5, "negatives": 1.0}
    with pytest.raises(ValueError, match="different steps"):
        StepLoss(2, 0, 0) + StepLoss(3, 0, 0)
