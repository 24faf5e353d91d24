"""Masked-token prediction: which pieces of a text are masked, wherever its target is and however long."""

from __future__ import annotations

import random

import pytest
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from corpusgen.models import masked_lm as masked
from corpusgen.models.masked_lm import MaskedPredictor
from tests.testing.tiny_masked_models import COMPOUND, SPANS, TEXTS, TOKENS, masked_by_hand, sentence

joints = st.sampled_from([" ", " ", " ", " ", "  ", "-", ", ", " (", ") ", "", "'", "\u00a0"])
words = st.sampled_from([*TOKENS, "東京", "Ελλάδα", "cafés", COMPOUND, "ﬁnal", "e\u0301t\u00e9", "½", "😀", "\u200bx"])


@pytest.mark.parametrize("family", ["bert", "bert-cased", "roberta", "modernbert", "xlm-roberta", "deberta"])
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.tuples(words, joints), min_size=1, max_size=9), data=st.data())
def test_exactly_the_pieces_of_the_span_are_masked(family, predictors, pieces, data):
    predictor = predictors[family]
    chosen = data.draw(st.integers(0, len(pieces) - 1))
    start = sum(len(word) + len(joint) for word, joint in pieces[:chosen])
    end = start + len(pieces[chosen][0])
    text = "".join(word + joint for word, joint in pieces)
    encoded = predictor._tokenizer(text, return_offsets_mapping=True)
    letters = {index for index, character in enumerate(text) if not character.isspace()}
    covered = [set(range(a, b)) & letters for a, b in encoded["offset_mapping"]]
    target = set(range(start, end)) & set.union(*covered)
    results, reasons = predictor._mask_all([text], [(start, end)])
    result, reason = results.get(0), reasons[0]
    if result is None:
        straddles = any(some & target and some - target for some in covered)
        inside = family.startswith("bert") and start > 0 and text[start - 1] != " "
        assert (
            (reason == masked.SHARED_PIECE and straddles)
            or (reason == masked.INSIDE_WORD and inside)
            or (reason == masked.NO_PIECE and not target)
        )
        return
    mask = predictor._tokenizer.mask_token_id
    is_masked = [new == mask for new in result.ids]
    assert [new for new, hidden in zip(result.ids, is_masked, strict=True) if not hidden] == [
        old for old, hidden in zip(encoded["input_ids"], is_masked, strict=True) if not hidden
    ]
    assert is_masked.index(True) == result.position
    assert set.union(*(some for some, hidden in zip(covered, is_masked, strict=True) if hidden)) == target
    assert not any(some & target for some, hidden in zip(covered, is_masked, strict=True) if not hidden)


def test_a_target_is_masked_with_its_lone_space_mark(predictors):
    """XLM-R may have the mark as a piece of its own, RoBERTa the space before a character it has no piece for."""
    text = "The 東京 castle."
    for family in ("xlm-roberta", "roberta"):
        predictor = predictors[family]
        item = predictor._mask_all([text], [(4, 6)])[0][0]
        pieces = predictor._tokenizer.convert_ids_to_tokens(predictor._tokenizer(text)["input_ids"])
        assert pieces[item.position] in ("▁", "Ġ")
        assert item.opens


def test_one_mask_for_a_whole_word(folders):
    text, span = f"The {COMPOUND} castle.", (4, 4 + len(COMPOUND))
    for family in ("bert", "roberta", "xlm-roberta"):
        by_piece, by_word = (
            MaskedPredictor(str(folders[family]), masks=masks)._mask_all([text], [span])[0][0].ids
            for masks in ("piece", "word")
        )
        mask = transformers.AutoTokenizer.from_pretrained(folders[family]).mask_token_id
        assert by_word.count(mask) == 1 < by_piece.count(mask)
        assert [piece for piece in by_word if piece != mask] == [piece for piece in by_piece if piece != mask]


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_a_long_text_is_cut_around_its_target(family, predictors):
    predictor = predictors[family]
    chance = random.Random(1)
    before, after = sentence(chance, 200), sentence(chance, 200)
    longest = 126 if family == "roberta" else 128  # RoBERTa's first position is 2
    mask = predictor._tokenizer.mask_token_id
    middle = len(before) + 1
    for text, start in (
        (f"{before} {COMPOUND} {after}", middle),
        (f"{COMPOUND} {after}", 0),
        (f"{before} {COMPOUND}", middle),
    ):
        span = (start, start + len(COMPOUND))
        item = predictor._mask_all([text], [span])[0][0]
        whole, position, pieces = masked_by_hand(predictor._tokenizer, text, span)
        count = len(pieces)
        left, right = item.ids[1 : item.position], item.ids[item.position + count : -1]
        assert len(item.ids) == longest
        assert (item.ids[0], item.ids[-1]) == (whole[0], whole[-1])
        assert item.ids[item.position : item.position + count] == [mask] * count
        assert left == whole[position - len(left) : position]
        assert right == whole[position + count : position + count + len(right)]
        assert text != f"{before} {COMPOUND} {after}" or abs(len(left) - len(right)) <= 1
        assert len(predictor.predict([text], [span])[0].words) == 5


def test_a_target_longer_than_the_input_is_refused(predictors):
    text = "The " + "xyz" * 100 + " castle."
    for family in ("roberta", "xlm-roberta"):
        candidates = predictors[family].predict([text], [(4, 304)])[0]
        assert candidates.reason == masked.TOO_LONG
        assert candidates.words == []


def test_every_item_is_answered_in_its_turn(predictors):
    texts = ["The castles stood.", *TEXTS[:2], "The garden.", "The garden.", "\u200b the garden.", "no"]
    spans = [(4, 10), *SPANS[:2], (3, 3), (4, 40), (0, 1), (-2, 1)]
    predictions = predictors["bert"].predict(texts, spans)
    assert predictions.reasons[0] in (masked.SHARED_PIECE, None)
    assert predictions.reasons[1:] == [None, None, masked.OUTSIDE, masked.OUTSIDE, masked.NO_PIECE, masked.OUTSIDE]
    alone = predictors["bert"].predict(TEXTS[1:2], SPANS[1:2])[0]
    assert predictions[2].words == alone.words
    assert [bool(candidates.words) for candidates in predictions][1:] == [True, True, False, False, False, False]


def test_a_target_inside_a_word_has_no_candidates(predictors):
    predictor = predictors["bert"]
    pieces = predictor._tokenizer(COMPOUND, return_offsets_mapping=True)["offset_mapping"]
    (start, middle), (_, end) = pieces[1], pieces[-2]
    assert middle < end == len(COMPOUND)
    assert predictor.predict([COMPOUND], [(middle, end)])[0].reason == masked.INSIDE_WORD
    assert predictor.predict([COMPOUND], [(start, middle - 1)])[0].reason == masked.SHARED_PIECE
    assert predictor.predict([COMPOUND], [(start + 1, end)])[0].reason == masked.SHARED_PIECE


def test_spaces_at_the_ends_of_a_span_do_not_count(predictors):
    for predictor in predictors.values():
        exact, wide = predictor.predict([TEXTS[2]] * 2, [SPANS[2], (SPANS[2][0] - 1, SPANS[2][1] + 1)])
        assert exact.words == wide.words


def test_settings_of_the_training_in_a_tokenizer_file_do_not_cut_texts(copied, predictors):
    folder = copied("bert")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=40)
    tokenizer.save(str(folder / "tokenizer.json"))
    assert MaskedPredictor(str(folder))._mask_all(TEXTS, SPANS) == predictors["bert"]._mask_all(TEXTS, SPANS)
