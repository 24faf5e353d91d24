"""Items of calls and streams: words are found by their name, and what is wrong with an item is named."""

import contextlib
import gc
import itertools
import pickle
import tracemalloc

import numpy as np
import pytest

from distiller import errors
from distiller.errors import (
    AmbiguousWordError,
    EmptyTextError,
    ItemError,
    SpanError,
    WordNotFoundError,
    WordTooLongError,
)
from distiller.inference import vectors as vectors_module
from distiller.inference.spans import find_word
from distiller.words.model import Distilled
from tests.testing.frozen_models import LONGEST, some_items
from tests.testing.word_models import RIVER, TEXT, near

# ----------------------------------------------------------------------- streams


def test_a_stream_takes_no_more_than_it_needs_and_equals_a_call(model, monkeypatch):
    monkeypatch.setattr(vectors_module, "_TEXTS_AT_ONCE", 4)
    texts, spans = some_items(10)
    taken = []

    def endless():
        for item in itertools.cycle(zip(texts, spans, strict=True)):
            taken.append(item)
            yield item

    stream = model.encode_stream(endless())
    assert taken == []
    found = list(itertools.islice(stream, 10))
    assert len(taken) == 12
    near(found, model.encode(texts, spans))


def test_a_stream_has_the_options_of_a_call(model):
    texts, spans = some_items(6)
    pairs = list(zip(texts, spans, strict=True))
    near(list(model.encode_stream(pairs, batch_size=2, normalize=True)), model.encode(texts, spans, normalize=True))
    both = list(model.encode_stream(pairs, output="both"))
    assert all(isinstance(vectors, Distilled) for vectors in both)
    near([vectors.context for vectors in both], model.encode(texts, spans, output="context"))


# ---------------------------------------------------------------- words by name


@pytest.mark.parametrize(
    ("text", "word", "span"),
    [
        ("The bank raised its rates.", "bank", (4, 8)),
        ("The bank raised its rates.", "BANK", (4, 8)),
        ("THE BANK RAISED ITS RATES.", "bank", (4, 8)),
        ("“Bank”, she said.", "bank", (1, 5)),
        ("bankers bank; embankment", "bank", (8, 12)),
        ("a river-bank", "bank", (8, 12)),
        ("the bank's rates", "bank", (4, 8)),
        ("a savings bank, here", "savings bank", (2, 14)),
        ("in C++ or C?", "C++", (3, 6)),
        ("in C++ or C?", "c?", (10, 12)),
        ("it cost $5 (or so).", "$5", (8, 10)),
        ("it cost $5 (or so).", "(or so)", (11, 18)),
        ("a.b and axb", "a.b", (0, 3)),
        ("the café here", "CAFÉ", (4, 8)),
        ("cafe and cafe\N{COMBINING ACUTE ACCENT}", "cafe", (0, 4)),
    ],
)
def test_a_word_is_found_where_it_stands_by_itself(text, word, span):
    assert find_word(text, word) == span


@pytest.mark.parametrize(
    ("text", "word", "error", "message"),
    [
        ("The banker left.", "bank", WordNotFoundError, "item 0: 'bank' is not in 'The banker left.'"),
        ("The bank.", "b.nk", WordNotFoundError, "'b.nk' is not in"),
        ("The bank.", " ", WordNotFoundError, "the word is empty"),
        ("x" * 200, "bank", WordNotFoundError, "is not in '" + "x" * 77 + "…'"),
        ("Bank by bank", "bank", AmbiguousWordError, "occurs 2 times in 'Bank by bank'; encode one of (0, 4), (8, 12)"),
        ("no no no", "no no", AmbiguousWordError, "encode one of (0, 5), (3, 8)"),
        (" ", "bank", EmptyTextError, "the text is empty"),
        (None, "bank", ItemError, "a text must be a string, not NoneType"),
        ("The bank.", 5, ItemError, "a word must be a string, not int"),
    ],
)
def test_a_word_that_is_absent_or_there_twice_is_an_error(model, text, word, error, message):
    with pytest.raises(error) as refused:
        find_word(text, word)
    assert message in str(refused.value)
    with pytest.raises(error) as refused:
        model.encode_words(["river", "castle", word], [TEXT, "a castle.", text])
    assert refused.value.index == 2


def test_words_by_name_have_the_vectors_of_their_spans(model):
    near(model.encode_words("River", TEXT), model.encode(TEXT, RIVER))
    near(
        model.encode_words(["river", "castle"], [TEXT, "a castle."], output="context", normalize=True),
        model.encode([TEXT, "a castle."], [RIVER, (2, 8)], output="context", normalize=True),
    )
    with pytest.raises(ValueError, match="one word and one text, or lists of both"):
        model.encode_words("river", [TEXT])
    with pytest.raises(ValueError, match="1 texts, but 2 words"):
        model.encode_words(["river", "small"], [TEXT])


# ------------------------------------------------------------------------ errors


BAD = [
    (TEXT, (4, 4), SpanError, "span is empty or outside the text: (4, 4) of 'the small river stood.', which has 22"),
    (TEXT, (-3, 3), SpanError, "span is empty or outside"),
    (TEXT, (20, 23), SpanError, "span is empty or outside"),
    (TEXT, (3, 4), SpanError, "word has no word piece"),
    (TEXT, (1, 2, 3), SpanError, "a span must be a pair of integers, (start, end), not (1, 2, 3)"),
    (TEXT, (0.0, 3.0), SpanError, "not (0.0, 3.0)"),
    (TEXT, (True, 3), SpanError, "not (True, 3)"),
    (TEXT, None, SpanError, "not None"),
    (TEXT, "on", SpanError, "not 'on'"),
    ("", (0, 0), EmptyTextError, "the text is empty"),
    (" \t", (0, 1), EmptyTextError, "the text is empty"),
    (None, (0, 1), ItemError, "a text must be a string, not NoneType"),
    (b"the river", (4, 9), ItemError, "a text must be a string, not bytes"),
    ("the \ud83d river", (6, 11), ItemError, "half a surrogate pair, which is not a character, at 4"),
    ("garden " * LONGEST, (0, 7 * LONGEST), WordTooLongError, "word is longer than the model's input"),
]


@pytest.mark.parametrize(("text", "span", "error", "message"), BAD)
@pytest.mark.parametrize("index", [0, 2, 3, 7])
def test_an_error_names_the_item(model, monkeypatch, text, span, error, message, index):
    monkeypatch.setattr(vectors_module, "_TEXTS_AT_ONCE", 3)
    texts, spans = some_items(8)
    texts[index], spans[index] = text, span
    with pytest.raises(error) as refused:
        model.encode(texts, spans)
    assert type(refused.value) is error
    assert refused.value.index == index
    assert str(refused.value).startswith(f"item {index}: ")
    assert message in refused.value.reason

    with pytest.raises(error) as refused:
        list(model.encode_stream(zip(texts, spans, strict=True)))
    assert refused.value.index == index


BAD_ITEMS = [((text, span), error) for text, span, error, _ in BAD]
BAD_ITEMS += [((TEXT,), ItemError), (None, ItemError), (TEXT, ItemError), ((TEXT, RIVER, "more"), ItemError)]


@pytest.mark.parametrize(("item", "error"), BAD_ITEMS)
@pytest.mark.parametrize("index", [0, 1, 3, 7])
def test_a_stream_gives_all_that_is_before_a_bad_item(model, monkeypatch, item, error, index):
    monkeypatch.setattr(vectors_module, "_TEXTS_AT_ONCE", 3)
    texts, spans = some_items(index)
    stream = model.encode_stream([*zip(texts, spans, strict=True), item, (TEXT, RIVER)])
    near([next(stream) for _ in range(index)], model.encode(texts, spans) if index else [])
    with pytest.raises(error) as refused:
        next(stream)
    assert type(refused.value) is error
    assert refused.value.index == index


def test_problems_are_those_that_encoding_would_meet(model):
    items = [(TEXT, RIVER), *(item for item, _ in BAD_ITEMS), (TEXT, RIVER)]
    first, *found, last = model.problems(items)
    assert (first, last) == (None, None)
    assert [type(problem) for problem in found] == [error for _, error in BAD_ITEMS]
    assert [problem.index for problem in found] == list(range(1, len(found) + 1))
    assert all(message in problem.reason for problem, (*_, message) in zip(found, BAD, strict=False))
    assert model.problems([]) == []


def test_words_of_lists_are_counted_through(model):
    with pytest.raises(SpanError) as refused:
        model.encode([TEXT, TEXT, TEXT], [[(0, 3), RIVER], RIVER, [RIVER, (4, 99)]])
    assert refused.value.index == 4
    with pytest.raises(SpanError) as refused:
        model.encode(TEXT, [RIVER, RIVER, (1, 2, 3)])
    assert refused.value.index == 2


def test_each_text_needs_spans_of_its_own(model):
    with pytest.raises(ValueError, match="2 texts, but 1 spans; give one per text"):
        model.encode([TEXT, TEXT], [RIVER])


@pytest.mark.parametrize("span", [RIVER, (90, 99)])
def test_a_call_leaves_no_memory_behind_whether_it_ends_well_or_not(model, span):
    def call(times):
        for _ in range(times):
            with contextlib.suppress(SpanError):
                model.encode(TEXT, span)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        held = [call(200) for _ in range(4)]
    finally:
        tracemalloc.stop()
    assert min(np.diff(held)) < 200 * 50  # bytes; what is left behind each time is an object at least


@pytest.mark.parametrize("name", ["ItemError", *(error.__name__ for error in ItemError.__subclasses__())])
def test_errors_pickle(name):
    error = getattr(errors, name)(3, "because")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.index, again.reason, str(again)) == (3, "because", "item 3: because")
    assert isinstance(again, ValueError)
