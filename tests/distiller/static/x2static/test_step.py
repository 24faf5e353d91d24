"""A step is the method's: its loss, its gradient, and lazy Adam."""

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from distiller.static.x2static.sampling import Sampling
from distiller.static.x2static.sentences import Batch, batch_of, batches
from distiller.static.x2static.trainer import ShardTrainer, StepLoss
from tests.distiller.static.x2static.support import VOCABULARY, ByTheBook, settings, text, trained, whole


@pytest.mark.parametrize("bias_correction", ["global", "row"])
@pytest.mark.parametrize("dimension", [5, 16, 50])
def test_training_does_what_a_loop_over_targets_does(dimension, bias_correction):
    sentences, counts = text(dimension=dimension)
    given = settings(bias_correction=bias_correction)
    ours = ShardTrainer(given, counts, dimension)
    plain = ByTheBook(given, counts, ours.vectors)
    for batch in batches(sentences, given):
        assert ours.step(batch).loss == pytest.approx(plain.step(batch), rel=1e-5)
    assert ours.steps == 10
    assert np.abs(plain.vectors - plain.vectors.mean()).max() > 0.05, "it has learned something"
    np.testing.assert_allclose(ours.vectors, plain.vectors, atol=2e-5)
    assert (ours.touches == plain.touches).all()


def gradient_of(sentences, counts, given, vectors=None):
    """The gradient of the first batch: without a first decay it is Adam's first moment."""
    ours = ShardTrainer(given, counts, sentences.contexts.shape[1])
    if vectors is not None:
        ours.state[:, 0] = vectors
    before = ours.vectors.copy()
    ours.step(batch_of(sentences, given, 0))
    return before, ours.state[:, 1]


@pytest.mark.parametrize("scale", [1.0, 25.0])
def test_the_gradient_is_the_slope_of_the_loss(scale):
    sentences, counts = text(dimension=6, scale=scale)
    given = settings(beta1=0.0)
    vectors = np.random.default_rng(1).standard_normal((VOCABULARY, 6)).astype(np.float32)
    before, gradient = gradient_of(sentences, counts, given, vectors)
    plain, batch = ByTheBook(given, counts, before), batch_of(sentences, given, 0)
    dots = np.abs(before @ batch.contexts.T)
    assert (dots > 20).any() == (scale > 1), "beyond the clamp there is no slope"
    step = 1e-6
    for word in range(0, VOCABULARY, 3):
        for d in range(6):
            moved = before.astype(np.float64)
            moved[word, d] += step
            above, _ = plain.objective(batch, moved)
            moved[word, d] -= 2 * step
            below, _ = plain.objective(batch, moved)
            assert gradient[word, d] == pytest.approx((above - below) / (2 * step), rel=1e-3, abs=1e-6)


def test_lazy_adam_is_torchs():
    sentences, counts = text(dimension=32)
    given = settings()
    ours = ShardTrainer(given, counts, 32)
    table = torch.nn.Embedding(VOCABULARY, 32, sparse=True)
    with torch.no_grad():
        table.weight.copy_(torch.from_numpy(ours.vectors))
    adam = torch.optim.SparseAdam(table.parameters(), lr=given.learning_rate)
    sampling = Sampling.of(given, counts)
    for batch in batches(sentences, given):
        candidates, words = sampling.draw(batch)
        contexts = torch.from_numpy(batch.contexts[batch.sentence[candidates]])
        dots = torch.einsum("nkd,nd->nk", table(torch.from_numpy(words)), contexts).clamp(-20, 20)
        loss = softplus(-dots[:, 0]).mean() + softplus(dots[:, 1:]).mean(0).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        assert ours.step(batch).loss == pytest.approx(loss.item(), rel=1e-5)
    moments = adam.state[table.weight]
    np.testing.assert_allclose(ours.state[:, 1], moments["exp_avg"].numpy(), atol=1e-7)
    np.testing.assert_allclose(ours.state[:, 2], moments["exp_avg_sq"].numpy(), atol=1e-9)
    np.testing.assert_allclose(ours.vectors, table.weight.detach().numpy(), atol=2e-5)


@pytest.mark.parametrize(("bias_correction", "moved"), [("global", 0.1 / 0.001**0.5), ("row", 1.0)])
def test_a_word_first_seen_late_takes_a_large_step_unless_it_has_a_counter_of_its_own(bias_correction, moved):
    sentences, counts = text()
    given = settings(bias_correction=bias_correction, epochs=20_000)
    ours = ShardTrainer(given, counts, 50)
    before, ours.steps = ours.vectors.copy(), 50_000
    ours.step(batch_of(sentences, given, 50_000))
    change = np.abs(ours.vectors - before)[ours.touches > 0] / given.learning_rate
    assert np.median(change) == pytest.approx(moved, rel=1e-3)


def test_a_word_that_is_not_touched_does_not_move():
    sentences, counts = text()
    ours = ShardTrainer(settings(negatives=1), counts, 50)
    for batch in batches(sentences, settings(negatives=1, epochs=1)):
        before, touched = ours.state.copy(), ours.touches.copy()
        ours.step(batch)
        same = ours.touches == touched
        assert same.any()
        assert not same.all()
        assert (ours.state[same] == before[same]).all()
        assert (ours.state[~same] != before[~same]).any(axis=(1, 2)).all()


def test_initial_vectors_fill_their_interval():
    _, counts = text()
    ours = ShardTrainer(settings(), counts, 400)
    assert np.abs(ours.vectors).max() <= 1 / 400
    assert ours.vectors.mean() == pytest.approx(0, abs=2e-5)
    assert ours.vectors.std() == pytest.approx(1 / 400 / 3**0.5, rel=0.01)
    assert len(np.unique(ours.vectors)) > 0.99 * ours.vectors.size
    assert not ours.state[:, 1:].any()
    other = ShardTrainer(settings(seed=1), counts, 400)
    assert (other.vectors != ours.vectors).mean() > 0.99


def test_a_batch_without_targets_moves_nothing():
    _, counts = text()
    ours = ShardTrainer(settings(), counts, 50, threads=2)
    before = ours.state.copy()
    nothing = Batch(
        0, 0, np.zeros((3, 50), np.float32), *(np.zeros(0, kind) for kind in (np.int32, np.int64, np.int32))
    )
    assert ours.step(nothing) == StepLoss(0, 0, 0)
    assert ours.step(Batch(1, *list(vars(nothing).values())[1:])).loss == 0
    assert (ours.state == before).all()


def test_batches_out_of_turn_are_refused():
    sentences, counts = text()
    with pytest.raises(ValueError, match="batch 3 cannot follow 0 steps"):
        ShardTrainer(settings(), counts, 50).step(batch_of(sentences, settings(), 3))


def test_words_outside_of_the_vocabulary_are_refused():
    sentences, counts = text()
    with pytest.raises(ValueError, match="outside of the vocabulary of 3"):
        ShardTrainer(settings(), counts[:3], 50).step(batch_of(sentences, settings(), 0))


def test_words_learn_the_sentences_they_stand_in():
    """Words of two topics, whose sentences lie in opposite directions, end up on their sides."""
    sentences, _ = text(lines=400, dimension=8, sentences_per_line=1)
    topic = np.repeat([1, -1], 200)
    sentences.contexts[:] = 0.1 * sentences.contexts + topic[:, None]
    side = np.where(np.repeat(topic, np.diff(sentences.offsets)) > 0, 0, VOCABULARY // 2)
    sentences.tokens[:] = sentences.tokens % (VOCABULARY // 2) + side
    counts = np.bincount(sentences.tokens, minlength=VOCABULARY) + 1
    shards, losses = trained(sentences, counts, settings(threshold=1.0, negatives=1, epochs=20))
    assert np.mean([step.loss for step in losses[-50:]]) < 2 * np.log(2) - 0.2, "2 ln 2 is the loss of no idea"
    state, _ = whole(shards)
    sides = state[:, 0].mean(axis=1)
    assert (sides[: VOCABULARY // 2] > 0).all()
    assert (sides[VOCABULARY // 2 :] < 0).all()
