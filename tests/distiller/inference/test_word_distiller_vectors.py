"""Vectors of words and sentences are those made by hand, however many are asked for and in whatever shape."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import rich.progress
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusgen.models.identity import describe_hub_model
from distiller.errors import EmptyTextError, ItemError, WordTooLongError
from distiller.inference import vectors as vectors_module
from distiller.inference.word_distiller import WordDistiller
from distiller.settings import BackboneSettings, TrainSettings
from distiller.words.backbone import Backbone
from distiller.words.model import Distilled, WordModel
from distiller.words.saved import SavedModel, write_saved
from tests.testing.frozen_models import LONGEST, plain, plain_pieces, reference, save, seen_by, some_items, words_of
from tests.testing.word_models import DIMENSION, HEADS, LAYERS, RIVER, TEXT, VALIDATION, by_hand, near

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
            patch.setattr(vectors_module, "_TEXTS_AT_ONCE", 5)
            patch.setattr(vectors_module, "_WORDS_AT_ONCE", 2)
        vectors = model.encode([texts[i] for i in order], [spans[i] for i in order], batch_size=batch_size)
    for vector, i in zip(vectors, order, strict=True):
        np.testing.assert_allclose(vector, model.encode(texts[i], spans[i]), atol=1e-4)  # random weights magnify


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
    with pytest.raises(ValueError, match="must be 'numpy' or 'torch', not 'tensorflow'"):
        model.encode(texts, spans, convert_to="tensorflow")
    with pytest.raises(ValueError, match="unknown output 'sense'; choose from meaning, context, baseline, both"):
        model.encode(texts, spans, output="sense")


def test_progress_follows_what_has_been_encoded(model, monkeypatch):
    monkeypatch.setattr(vectors_module, "_TEXTS_AT_ONCE", 3)
    monkeypatch.setattr(vectors_module, "_SENTENCES_AT_ONCE", 3)
    events, distil = [], vectors_module.VectorMaker.distil
    monkeypatch.setattr(rich.progress.Progress, "advance", lambda _, task, by: events.append(by))

    def noted(*given, **named):
        events.append("encoded")
        return distil(*given, **named)

    monkeypatch.setattr(vectors_module.VectorMaker, "distil", noted)
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


@pytest.mark.parametrize(("word", "position"), [("river", 0), ("castle", 151), ("queen", 302)])
def test_a_long_text_is_read_in_a_window_around_the_word(model, frozen, word, position):
    text = " ".join(["river", *["garden"] * 150, "castle", *["garden"] * 150, "queen"])
    first, *body, last = reference(frozen)[0](text)["input_ids"]
    room = LONGEST - 2
    begin = min(max(position - room // 2, 0), len(body) - room)
    window = [first, *body[begin : begin + room], last]
    expected, _ = by_hand(plain_pieces(frozen, window, [1 + position - begin], LAYERS)[None])
    near(model.encode_words(word, text), expected[0])


def test_a_word_longer_than_the_window_is_an_error_and_not_cut(model):
    text = " ".join(["garden"] * (LONGEST - 1))
    with pytest.raises(WordTooLongError, match=r"item 0: word is longer than the model's input: \(0, 888\)"):
        model.encode(text, (0, len(text)))


# --------------------------------------------------------------------- sentences


def test_a_sentence_is_the_mean_of_the_vectors_of_its_pieces(model, baseline, frozen, monkeypatch):
    monkeypatch.setattr(vectors_module, "_SENTENCES_AT_ONCE", 3)
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
    monkeypatch.setattr(vectors_module, "_SENTENCES_AT_ONCE", 3)
    texts, _ = some_items(8)
    texts[4] = text
    with pytest.raises(error) as refused:
        WordDistiller.baseline(save(family, tmp_path_factory.mktemp(family))).encode_sentences(texts)
    assert refused.value.index == 4


def test_the_distillers_compile_into_one_graph(model, frozen):
    states, _ = Backbone(BackboneSettings(model=frozen)).states(*some_items(6))
    compiled = torch.compile(model.model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for found, expected in zip(compiled(torch.from_numpy(states)), by_hand(states), strict=True):
            near(found.numpy(), expected)
