"""Masked-token prediction in batches: of any order, with little memory, without waiting for the device."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.errors import StageError
from corpusgen.models.batches import padded_batches
from corpusgen.models.masked_lm import MaskedPredictor, Predictions
from tests.testing.tiny_masked_models import SPANS, TEXTS, sentence


def many(count: int) -> tuple[list[str], list[tuple[int, int]]]:
    chance = random.Random(3)
    texts = [sentence(chance, chance.randint(3, 12)) for _ in range(count)]
    spans = []
    for text in texts:
        word = chance.choice(text.rstrip(".").split())
        spans.append((text.index(word), text.index(word) + len(word)))
    return texts, spans


def same_bits(a: Predictions, b: Predictions, order: list[int]) -> bool:
    return all(
        a[old].words == b[new].words and a[old].probabilities.tobytes() == b[new].probabilities.tobytes()
        for new, old in enumerate(order)
    )


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
def test_the_order_of_texts_does_not_matter(family, folders):
    predictor = MaskedPredictor(str(folders[family]), batch_tokens=64)
    texts, spans = many(60)
    once = predictor.predict(texts, spans)
    order = random.Random(5).sample(range(60), 60)
    other = predictor.predict([texts[index] for index in order], [spans[index] for index in order])
    assert same_bits(once, predictor.predict(texts, spans), list(range(60)))
    assert same_bits(once, other, order)
    for index in range(0, 60, 7):  # in other company: the same but for rounding
        alone = predictor.predict(texts[index : index + 1], spans[index : index + 1])[0]
        np.testing.assert_allclose(alone.probabilities, once[index].probabilities, rtol=1e-4)


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 200))
def test_batches_hold_every_item_once_and_keep_to_the_budget(lengths, most):
    lengths.sort()
    batches = list(padded_batches(lengths, most))
    assert [item for batch in batches for item in batch] == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * lengths[batch[-1]] <= most for batch in batches)
    assert all((len(a) + 1) * lengths[b[0]] > most for a, b in itertools.pairwise(batches))


class Full:
    """A device with room for so many texts at a time."""

    def __init__(self, room: int, error: Exception) -> None:
        self.room, self.error = room, error

    def __call__(self, _: Any, arguments: Any, named: dict[str, Any]) -> None:
        if len(named["input_ids"]) > self.room:
            raise self.error


@pytest.mark.parametrize(
    "error",
    [torch.cuda.OutOfMemoryError("CUDA out of memory."), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_a_batch_that_does_not_fit_into_memory_is_halved(error, folders):
    predictor = MaskedPredictor(str(folders["bert"]), batch_tokens=1000)
    texts, spans = many(30)
    expected = predictor.predict(texts, spans)
    hook = predictor._model.register_forward_pre_hook(Full(3, error), with_kwargs=True)
    got = predictor.predict(texts, spans)
    np.testing.assert_allclose(got.probabilities, expected.probabilities, rtol=1e-4)
    hook.remove()
    predictor._model.register_forward_pre_hook(Full(0, error), with_kwargs=True)
    with pytest.raises(StageError, match="not even one text"):
        predictor.predict(texts, spans)


def test_other_errors_are_not_taken_for_lack_of_memory(folders):
    predictor = MaskedPredictor(str(folders["bert"]))
    predictor._model.register_forward_pre_hook(Full(0, RuntimeError("shapes differ")), with_kwargs=True)
    with pytest.raises(RuntimeError, match="shapes differ"):
        predictor.predict(TEXTS, SPANS)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "distilbert"])
def test_until_the_results_come_over_nothing_waits_for_the_device(family, folders):
    """A meta tensor has no values: whatever looked at one on the way, as a wait for a GPU would, raises."""
    predictor = MaskedPredictor(str(folders[family]), top_k=5, device="meta")
    texts, spans = many(8)
    masked_texts, _ = predictor._mask_all(texts, spans)
    batch = list(masked_texts.values())
    positions, opens = (torch.zeros(len(batch), dtype=torch.long, device="meta") for _ in range(2))
    inputs = {"input_ids": predictor._inputs(batch)["input_ids"]}  # at a mask transformers itself looks, once a batch
    best = predictor._best(inputs, positions, opens)
    assert all(column.is_meta for column in best)
    assert best.values.shape == best.pieces.shape == (len(batch), predictor._looked_at)


def test_threads(folders):
    before = torch.get_num_threads()
    try:
        MaskedPredictor(str(folders["bert"]), threads=3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
