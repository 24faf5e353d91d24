"""Every text gets its own translation, whatever the batches, and whatever does not fit into memory."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.errors import StageError
from corpusgen.models.translate import TranslatorSettings
from corpusgen.models.translate.batching import batch_tokens, translate_in_batches

texts_strategy = st.lists(st.text("ab ", max_size=12), max_size=30)


class Recorder:
    """Translates by turning texts round. Batches above a number of tokens, padding included, do not fit."""

    def __init__(self, room=None, error=None):
        self.room = room
        self.error = error or RuntimeError("CUDA failed with error out of memory")
        self.batches = []
        self.failed = []

    def encode(self, texts):
        return [tuple(text) for text in texts]

    def run(self, batch):
        if self.room is not None and len(batch) * max(map(len, batch)) > self.room:
            self.failed.append(len(batch))
            raise self.error
        self.batches.append(batch)
        return [["".join(reversed(encoded))] for encoded in batch]

    def translate(self, texts, batch_tokens=100, max_tokens=1000):
        return [best for (best,) in translate_in_batches(texts, self.encode, self.run, batch_tokens, max_tokens)]


def reversed_texts(texts):
    return [text[::-1].strip() for text in texts]


@given(texts_strategy, st.integers(1, 60))
def test_each_text_gets_its_own_translation(texts, batch_tokens):
    assert Recorder().translate(texts, batch_tokens) == reversed_texts(texts)


@given(texts_strategy, st.integers(1, 60))
def test_no_batch_is_above_the_budget_unless_it_is_a_single_text(texts, batch_tokens):
    recorder = Recorder()
    recorder.translate(texts, batch_tokens)
    for batch in recorder.batches:
        assert len(batch) == 1 or len(batch) * max(map(len, batch)) <= batch_tokens


@given(texts_strategy, st.integers(1, 60))
def test_identical_texts_are_translated_once_and_empty_ones_never(texts, batch_tokens):
    recorder = Recorder()
    recorder.translate(texts, batch_tokens)
    seen = ["".join(encoded) for batch in recorder.batches for encoded in batch]
    assert sorted(seen) == sorted({text for text in texts if text.strip()})


@given(texts_strategy)
def test_batches_do_not_depend_on_the_order_of_the_texts(texts):
    first, second = Recorder(), Recorder()
    first.translate(texts, 20)
    second.translate(texts[::-1], 20)
    assert first.batches == second.batches


@given(st.lists(st.text("ab", min_size=1, max_size=12), max_size=30), st.integers(12, 100))
def test_what_does_not_fit_into_memory_is_halved_with_the_same_result(texts, room):
    recorder = Recorder(room)
    assert recorder.translate(texts, batch_tokens=1000) == reversed_texts(texts)
    assert all(len(batch) * max(map(len, batch)) <= room for batch in recorder.batches)


def test_several_translations_of_a_text_are_kept_in_their_order_and_each_once():
    ways = {"ab": [" one ", "two", "one"], "b": ["three"]}
    found = translate_in_batches(["b", " ", "ab"], list, lambda batch: [ways[text] for text in batch], 100, 100)
    assert found == [["three"], [""], ["one", "two"]]


def test_halving_halves():
    recorder = Recorder(room=9)
    recorder.translate([f"{number:03}" for number in range(10)])
    assert recorder.failed == [10, 5, 5]
    assert list(map(len, recorder.batches)) == [2, 3, 2, 3]


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA failed with error out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:75] DefaultCPUAllocator: can't allocate memory: you tried ..."),
        RuntimeError("cuBLAS failed with status CUBLAS_STATUS_ALLOC_FAILED"),
        MemoryError(),
    ],
)
def test_every_kind_of_missing_memory_is_recognised(error):
    assert Recorder(room=4, error=error).translate(["abcd", "bcde"]) == ["dcba", "edcb"]
    with pytest.raises(StageError, match="not even one text fits into memory"):
        Recorder(room=4, error=error).translate(["ab", "abcde"])


def test_other_errors_are_not_taken_for_missing_memory():
    recorder = Recorder(room=1, error=RuntimeError("CUDA error: device-side assert triggered"))
    with pytest.raises(RuntimeError, match="device-side assert"):
        recorder.translate(["ab", "cd"])
    assert recorder.failed == [2]


@pytest.mark.parametrize("change", [lambda lines: lines[:-1], lambda lines: [*lines, "more"]])
def test_a_translator_that_loses_or_adds_a_line_stops_the_run(change):
    recorder = Recorder()
    count = len(change(["", "", ""]))
    with pytest.raises(StageError, match=f"the translator returned {count} results for 3 texts"):
        translate_in_batches(["a", "b", "c"], recorder.encode, lambda batch: change(recorder.run(batch)), 100, 100)


def test_a_text_that_is_too_long_is_named_before_anything_is_translated():
    recorder = Recorder()
    with pytest.raises(ValueError, match="7 sub-words exceed max_tokens, 6: 'abababa'"):
        recorder.translate(["ab", "abababa"], max_tokens=6)
    assert not recorder.batches


def test_a_text_above_the_budget_is_a_batch_of_its_own():
    recorder = Recorder()
    recorder.translate(["abcdef", "abc", "abd", "a"], batch_tokens=6)
    assert [["".join(text) for text in batch] for batch in recorder.batches] == [["abcdef"], ["abc", "abd"], ["a"]]


@pytest.mark.parametrize(("wanted", "device", "tokens"), [(7, "cuda", 7), (None, "cuda", 4096), (None, "mps", 1024)])
def test_batches_are_as_set_or_suit_the_device(wanted, device, tokens):
    settings = TranslatorSettings(backend="ctranslate2", model="any", batch_tokens=wanted)
    assert batch_tokens(settings, device) == tokens
