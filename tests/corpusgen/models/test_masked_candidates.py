"""Masked-token prediction: candidates are whole words, with the probabilities of the full computation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from corpusgen.models import masked_lm as masked
from corpusgen.models.masked_lm import MaskedPredictor
from tests.testing.shared_data import shared_data
from tests.testing.tiny_masked_models import COMPOUND, FAMILIES, SPANS, TEXTS, masked_by_hand


def all_words(tokenizer: Any, like: str) -> dict[str, int]:
    """Whole words of a vocabulary that can stand where the piece `like` stood, found the plain way."""
    words = {}
    vocabulary = tokenizer.get_vocab()
    for piece, number in vocabulary.items():
        if "##a" in vocabulary:
            ok, word = not piece.startswith("##"), piece
        else:
            marks = ("Ġ", "▁")
            ok = piece.startswith(marks) if like.startswith(marks) else {f"Ġ{piece}", f"▁{piece}"} & vocabulary.keys()
            word = tokenizer.convert_tokens_to_string([piece]).strip()
        if ok and len(word) > 1 and word.isalpha():
            words[word] = number
    return words


@pytest.mark.parametrize("family", FAMILIES)
def test_candidates_are_those_of_the_full_computation(family, folders, predictors):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[family])
    model = transformers.AutoModelForMaskedLM.from_pretrained(folders[family]).eval()
    predictions = predictors[family].predict(TEXTS, SPANS)
    for text, span, candidates in zip(TEXTS, SPANS, predictions, strict=True):
        assert candidates.reason is None
        ids, position, pieces = masked_by_hand(tokenizer, text, span)
        with torch.no_grad():
            probabilities = model(torch.tensor([ids])).logits[0, position].softmax(-1).numpy()
        words = all_words(tokenizer, pieces[0])
        assert len(words) > 5
        assert len(candidates.words) == len(set(candidates.words)) == 5
        expected = np.sort([probabilities[number] for number in words.values()])[::-1][:5]
        np.testing.assert_allclose(candidates.probabilities, expected, rtol=1e-4)
        np.testing.assert_allclose(
            candidates.probabilities, [probabilities[words[word]] for word in candidates.words], rtol=1e-4
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_the_probability_of_a_word_is_that_of_its_first_piece_in_the_full_computation(family, folders, predictors):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[family])
    model = transformers.AutoModelForMaskedLM.from_pretrained(folders[family]).eval()
    texts = [*TEXTS, f"The {COMPOUND} stood.", "The town."]
    spans = [*SPANS, (4, 4 + len(COMPOUND)), (4, 40)]
    found = predictors[family].probabilities(texts, spans)
    assert np.isnan(found[-1])
    for text, span, probability in zip(texts[:-1], spans, found, strict=False):
        ids, position, pieces = masked_by_hand(tokenizer, text, span)
        with torch.no_grad():
            expected = model(torch.tensor([ids])).logits[0, position].softmax(-1)
        number = tokenizer.convert_tokens_to_ids(pieces[0])
        np.testing.assert_allclose(probability, expected[number], rtol=1e-4)
    assert predictors[family].probabilities([], []).shape == (0,)


def test_the_head_sees_the_masks_only(folders):
    for family in ("bert", "modernbert"):
        predictor = MaskedPredictor(str(folders[family]))
        seen = []
        predictor._model.get_output_embeddings().register_forward_pre_hook(
            lambda _, inputs, seen=seen: seen.append(inputs[0].shape[:-1].numel())
        )
        predictor.predict(TEXTS, SPANS)
        assert sum(seen) == len(TEXTS)


def test_words_without_a_space_before_are_predicted_where_there_is_none(predictors):
    predictor = predictors["roberta"]
    vocabulary = predictor._tokenizer.get_vocab()
    item_at_start, item_inside = (
        predictor._mask_all([text], [span])[0][0] for text, span in zip(TEXTS[1:3], SPANS[1:3], strict=True)
    )
    assert not item_at_start.opens
    assert item_inside.opens
    for word in predictor.predict(TEXTS[1:2], SPANS[1:2])[0].words:
        assert word in vocabulary
        assert f"Ġ{word}" in vocabulary


def test_only_words_are_candidates(predictors):
    for family, predictor in predictors.items():
        assert len(predictor.vocabulary) > 5, family
        assert all(len(word) > 1 and word.isalpha() for word in predictor.vocabulary), family
    assert "Zürich" in predictors["roberta"].vocabulary
    assert {"zurich", "king"} <= set(predictors["bert"].vocabulary)
    assert {"Zürich", "king"} <= set(predictors["bert-cased"].vocabulary)


def test_added_tokens_are_no_words(copied):
    folder = copied("bert-cased")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["ENTITY"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    assert "ENTITY" not in MaskedPredictor(str(folder)).vocabulary


def test_words_of_impossible_score_are_no_candidates(copied):
    folder = copied("distilbert")
    number = transformers.AutoTokenizer.from_pretrained(folder).get_vocab()["castle"]
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        model.vocab_projector.bias[number] = -torch.inf
    model.save_pretrained(folder)
    predictor = MaskedPredictor(str(folder), top_k=10_000)
    assert set(predictor.predict(TEXTS[:1], SPANS[:1])[0].words) == {*predictor.vocabulary} - {"castle"}


def test_predictions_are_flat_arrays_and_arrow_lists(predictors):
    predictions = predictors["bert"].predict([*TEXTS, "x"], [*SPANS, (0, 0)])
    words, probabilities = predictions.columns()
    assert words.to_pylist() == [candidates.words for candidates in predictions]
    assert [len(some) for some in probabilities.to_pylist()] == [5] * len(TEXTS) + [0]
    assert predictions.probabilities.dtype == np.float32
    assert str(words.type) == "list<item: string>"
    assert str(probabilities.type) == "list<item: float>"
    assert predictions[-1].reason == masked.OUTSIDE
    assert predictions[-2].words == predictions[len(TEXTS) - 1].words
    with pytest.raises(IndexError):
        predictions[len(TEXTS) + 1]
    assert len(predictors["bert"].predict([], [])) == 0
    assert predictors["bert"].predict([], []).columns()[0].to_pylist() == []
    with pytest.raises(ValueError, match="2 texts, but 1 spans"):
        predictors["bert"].predict(["a b", "c d"], [(0, 1)])


def test_equally_probable_words_come_in_the_order_of_the_vocabulary(copied):
    folder = copied("distilbert")
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        for parameter in model.vocab_layer_norm.parameters():
            parameter.zero_()  # then all scores are those of the bias, which is zero
    model.save_pretrained(folder)
    candidates = MaskedPredictor(str(folder), top_k=7).predict(TEXTS[:1], SPANS[:1])[0]
    expected = sorted(
        (number, word) for word, number in all_words(transformers.AutoTokenizer.from_pretrained(folder), "").items()
    )
    assert candidates.words == [word for _, word in expected[:7]]
    assert len(set(candidates.probabilities.tolist())) == 1


def test_fewer_words_than_asked_for(folders):
    predictor = MaskedPredictor(str(folders["bert"]), top_k=10_000)
    assert sorted(predictor.predict(TEXTS[:1], SPANS[:1])[0].words) == predictor.vocabulary


@pytest.mark.real
def test_a_real_model_knows_what_fits():
    predictor = MaskedPredictor(str(shared_data("models/minilm-mlm")), masks="word")
    assert predictor._model.dtype == torch.float32  # though stored as float16, which a CPU is slow at
    texts = ["The capital of France is Paris.", "She drank a cup of coffee every morning before work."]
    spans = [(25, 30), (19, 25)]
    capital, drink = predictor.predict(texts, spans)
    assert "paris" in capital.words[:10]
    assert {"tea", "coffee"} & set(drink.words[:10])
    assert len(capital.words) == 100
    assert np.all(np.diff(capital.probabilities) <= 0)
    assert capital.probabilities.sum() < 1


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "modernbert", "xlm-roberta"])
def test_states_are_the_mean_of_the_words_pieces_two_thirds_up(family, folders, predictors):
    texts = [f"the old {COMPOUND} stood.", "many people walked.", "a small town", "many people walked."]
    words = [COMPOUND, "people", "town", "nowhere"]
    spans = [(text.find(word), text.find(word) + len(word)) for text, word in zip(texts, words, strict=True)]
    found = predictors[family].states(texts, spans)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[family])
    model = transformers.AutoModel.from_pretrained(folders[family]).eval()
    for text, (start, end), states in zip(texts[:3], spans, found, strict=False):
        inputs = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            layer = model(**inputs, output_hidden_states=True).hidden_states[1][0]  # of two
        mean = layer[[max(a, start) < min(b, end) for a, b in offsets]].mean(0)
        np.testing.assert_allclose(states, torch.nn.functional.normalize(mean, dim=0), atol=1e-5)
    assert not found[3].any()
