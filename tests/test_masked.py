"""Masked-token prediction, on tiny models of every family with small vocabularies."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from corpusgen import masked
from corpusgen.batches import padded_batches
from corpusgen.errors import StageError
from corpusgen.masked import MaskedPredictor, Predictions
from tests.shared_data import shared_data

WORDS = ["the", "a", "small", "old", "river", "town", "castle", "garden", "people", "many", "often", "walked", "stood"]
WORDS += ["built", "café", "naïve", "Zürich", "Paris", "London", "France", "king", "queen", "wrote", "letter", "famous"]
WORDS += ["music", "played", "quickly", "beautiful", "mountain", "winter", "summer"]
TOKENS = [*WORDS, "river's", "e-mail", "42", "1999", "The"]
LETTERS = sorted({*"".join(TOKENS), *"().,", "T"})
COMPOUND = "gardenwinter"  # of several pieces in every vocabulary
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def numbered(pieces: list[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}


def wordpiece(lower: bool) -> Any:
    def plain(text: str) -> str:
        return unicodedata.normalize("NFD", text.lower()).encode("ascii", "ignore").decode() if lower else text

    letters = [plain(letter) for letter in LETTERS]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "1999", *letters]
    pieces += [f"##{letter}" for letter in letters] + ["##ing", *map(plain, WORDS)]
    return transformers.BertTokenizer(vocab=numbered(pieces), do_lower_case=lower)


def byte_level_pieces() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Pieces and merges that build each word letter by letter, with a space before it and without."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    merges = []
    for text in [*(f" {word}" for word in WORDS), *WORDS]:
        ((piece, _),) = split(text)
        merges += [(piece[:end], piece[end]) for end in range(1, len(piece))]
    merges = list(dict.fromkeys(merges))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return numbered([*SPECIAL, "<mask>", *alphabet, *(a + b for a, b in merges)]), merges


def byte_level() -> Any:
    vocabulary, merges = byte_level_pieces()
    return transformers.RobertaTokenizer(vocab=vocabulary, merges=merges)


def byte_level_untrimmed() -> Any:
    """Offsets that take in the space before a word."""
    vocabulary, merges = byte_level_pieces()
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    ends = [(name, vocabulary[name]) for name in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, mask_token="<mask>", pad_token="<pad>", unk_token="<unk>"
    )


def sentencepiece() -> Any:
    scores = dict.fromkeys(SPECIAL, 0.0) | dict.fromkeys(LETTERS, -9.0) | {"▁": -8.0}
    scores |= {f"▁{word}": -5.0 for word in WORDS} | dict.fromkeys(WORDS[5:20], -6.0)
    return transformers.XLMRobertaTokenizer(vocab=list(scores.items()))


def sentence(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(TOKENS, k=count)) + "."


SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 128,
    "initializer_range": 0.5,  # else all words are nearly as probable
}
DISTILBERT = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 128}
FAMILIES: dict[str, tuple[str, Callable[[], Any], dict[str, Any]]] = {
    "bert": ("Bert", lambda: wordpiece(True), SIZES),
    "bert-cased": ("Bert", lambda: wordpiece(False), SIZES),
    "distilbert": ("DistilBert", lambda: wordpiece(False), {**DISTILBERT, "initializer_range": 0.5}),
    "electra": ("Electra", lambda: wordpiece(True), {**SIZES, "embedding_size": 16}),
    "roberta": ("Roberta", byte_level, SIZES),
    "modernbert": ("ModernBert", byte_level_untrimmed, {**SIZES, "global_attn_every_n_layers": 2}),
    "xlm-roberta": ("XLMRoberta", sentencepiece, SIZES),
    "albert": ("Albert", sentencepiece, {**SIZES, "embedding_size": 16}),
    "deberta": ("DebertaV2", sentencepiece, SIZES),
}


def save(family: str, folder: Path) -> Path:
    kind, tokenizer_for, sizes = FAMILIES[family]
    tokenizer = tokenizer_for()
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos", "cls", "sep")}
    # ModernBERT's vocabulary is larger than its tokenizer's; so are all of ours.
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer) + 3, **sizes, **ids)
    torch.manual_seed(7)
    getattr(transformers, f"{kind}ForMaskedLM")(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {family: save(family, tmp_path_factory.mktemp(family)) for family in FAMILIES}


@pytest.fixture(scope="session")
def predictors(folders: dict[str, Path]) -> dict[str, MaskedPredictor]:
    return {family: MaskedPredictor(str(folder), top_k=5) for family, folder in folders.items()}


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A model of one's own, to spoil."""
    return lambda family: Path(shutil.copytree(folders[family], tmp_path / family))


TEXTS = [
    "The small town (Paris) stood.",
    "Paris often played beautiful music.",
    "Many people walked the old garden in 1999.",
    "Zürich naïve café.",
    "The queen wrote a letter, the king walked quickly and the people of the old town built a castle.",
]
TARGETS = ["Paris", "Paris", "garden", "café", "castle"]
SPANS = [(text.index(word), text.index(word) + len(word)) for text, word in zip(TEXTS, TARGETS, strict=True)]


def masked_by_hand(tokenizer: Any, text: str, span: tuple[int, int]) -> tuple[list[int], int, list[str]]:
    """Piece by piece: ids with masks, the first mask's place, and the target's pieces."""
    encoded = tokenizer(text, return_offsets_mapping=True)
    pieces = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
    letters = [set(range(a, b)) - {i for i, c in enumerate(text) if c == " "} for a, b in encoded["offset_mapping"]]
    target = [index for index, some in enumerate(letters) if some & set(range(*span))]
    ids = [tokenizer.mask_token_id if index in target else id_ for index, id_ in enumerate(encoded["input_ids"])]
    return ids, target[0], [pieces[index] for index in target]


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
        ids, place, pieces = masked_by_hand(tokenizer, text, span)
        with torch.no_grad():
            probabilities = model(torch.tensor([ids])).logits[0, place].softmax(-1).numpy()
        words = all_words(tokenizer, pieces[0])
        assert len(words) > 5
        assert len(candidates.words) == len(set(candidates.words)) == 5
        expected = np.sort([probabilities[number] for number in words.values()])[::-1][:5]
        np.testing.assert_allclose(candidates.probabilities, expected, rtol=1e-4)
        np.testing.assert_allclose(
            candidates.probabilities, [probabilities[words[word]] for word in candidates.words], rtol=1e-4
        )


def test_the_head_sees_the_masked_places_only(folders):
    for family in ("bert", "modernbert"):
        predictor = MaskedPredictor(str(folders[family]))
        seen = []
        predictor._model.get_output_embeddings().register_forward_pre_hook(
            lambda _, inputs, seen=seen: seen.append(inputs[0].shape[:-1].numel())
        )
        predictor.predict(TEXTS, SPANS)
        assert sum(seen) == len(TEXTS)


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
    places = {index for index, character in enumerate(text) if not character.isspace()}
    covered = [set(range(a, b)) & places for a, b in encoded["offset_mapping"]]
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
    assert is_masked.index(True) == result.place
    assert set.union(*(some for some, hidden in zip(covered, is_masked, strict=True) if hidden)) == target
    assert not any(some & target for some, hidden in zip(covered, is_masked, strict=True) if not hidden)


def test_a_target_is_masked_with_its_lone_space_mark(predictors):
    """XLM-R may have the mark as a piece of its own, RoBERTa the space before a character it has no piece for."""
    text = "The 東京 castle."
    for family in ("xlm-roberta", "roberta"):
        predictor = predictors[family]
        item = predictor._mask_all([text], [(4, 6)])[0][0]
        pieces = predictor._tokenizer.convert_ids_to_tokens(predictor._tokenizer(text)["input_ids"])
        assert pieces[item.place] in ("▁", "Ġ")
        assert item.opens


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
        whole, place, pieces = masked_by_hand(predictor._tokenizer, text, span)
        count = len(pieces)
        left, right = item.ids[1 : item.place], item.ids[item.place + count : -1]
        assert len(item.ids) == longest
        assert (item.ids[0], item.ids[-1]) == (whole[0], whole[-1])
        assert item.ids[item.place : item.place + count] == [mask] * count
        assert left == whole[place - len(left) : place]
        assert right == whole[place + count : place + count + len(right)]
        assert text != f"{before} {COMPOUND} {after}" or abs(len(left) - len(right)) <= 1
        assert len(predictor.predict([text], [span])[0].words) == 5


def test_a_target_longer_than_the_input_is_refused(predictors):
    text = "The " + "xyz" * 100 + " castle."
    for family in ("roberta", "xlm-roberta"):
        candidates = predictors[family].predict([text], [(4, 304)])[0]
        assert candidates.reason == masked.TOO_LONG
        assert candidates.words == []


def test_every_item_is_answered_in_its_place(predictors):
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


def test_scores_that_overflow_are_refused(copied):
    folder = copied("bert")
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        model.cls.predictions.transform.LayerNorm.weight.mul_(60_000)
    model.save_pretrained(folder)
    assert MaskedPredictor(str(folder), dtype="float32").predict(TEXTS, SPANS)[0].words
    with pytest.raises(StageError, match=r"NaN or infinite scores in torch.float16: use dtype float32"):
        MaskedPredictor(str(folder), dtype="float16").predict(TEXTS, SPANS)


def test_nan_is_refused(copied):
    folder = copied("roberta")
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        model.lm_head.bias[-1] = torch.nan  # of a piece that is no word
    model.save_pretrained(folder)
    with pytest.raises(StageError, match="NaN"):
        MaskedPredictor(str(folder)).predict(TEXTS, SPANS)


def test_an_encoder_without_head_is_refused(folders, tmp_path):
    transformers.AutoModel.from_pretrained(folders["bert"]).save_pretrained(tmp_path)
    transformers.AutoTokenizer.from_pretrained(folders["bert"]).save_pretrained(tmp_path)
    with pytest.raises(StageError, match=r"has no head for masked-token prediction: .* weights are missing"):
        MaskedPredictor(str(tmp_path))


def test_a_model_that_does_not_exist_is_named(monkeypatch, tmp_path):
    with pytest.raises(StageError, match="/no/such/model: no such folder"):
        MaskedPredictor("/no/such/model")
    with pytest.raises(StageError, match="does not load"):
        MaskedPredictor(str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(StageError, match=r"nobody/has-this does not load: .*; give a folder"):
        MaskedPredictor("nobody/has-this")


def test_a_tokenizer_that_cannot_do_it_is_refused(copied):
    folder = copied("bert")
    settings = folder / "tokenizer_config.json"
    original = settings.read_text()
    settings.write_text(json.dumps({**json.loads(original), "tokenizer_class": "CanineTokenizer"}))
    with pytest.raises(StageError, match="gives no offsets"):
        MaskedPredictor(str(folder))
    settings.write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    with pytest.raises(StageError, match="has no mask token"):
        MaskedPredictor(str(folder))
    settings.unlink()
    (folder / "tokenizer.json").unlink()
    with pytest.raises(StageError, match="no whole words; is its tokenizer"):
        MaskedPredictor(str(folder))
    byte_level().save_pretrained(folder)
    with pytest.raises(StageError, match="do not belong together"):
        MaskedPredictor(str(folder))


def test_devices_and_types(folders):
    folder = str(folders["bert"])
    with pytest.raises(StageError, match="bfloat16 is many times slower"):
        MaskedPredictor(folder, device="cpu", dtype="bfloat16")
    with pytest.raises(StageError, match="'int8' is none of auto, float32"):
        MaskedPredictor(folder, dtype="int8")
    with pytest.raises(StageError, match="none that torch knows"):
        MaskedPredictor(folder, device="graphics")
    if not torch.cuda.is_available():
        with pytest.raises(StageError, match="no GPU here"):
            MaskedPredictor(folder, device="cuda")


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "distilbert"])
def test_until_the_results_come_over_nothing_waits_for_the_device(family, folders):
    """A meta tensor has no values: whatever looked at one on the way, as a wait for a GPU would, raises."""
    predictor = MaskedPredictor(str(folders[family]), top_k=5, device="meta")
    texts, spans = many(8)
    masked_texts, _ = predictor._mask_all(texts, spans)
    batch = list(masked_texts.values())
    places, opens = (torch.zeros(len(batch), dtype=torch.long, device="meta") for _ in range(2))
    inputs = {"input_ids": predictor._inputs(batch)["input_ids"]}  # at a mask transformers itself looks, once a batch
    best = predictor._best(inputs, places, opens)
    assert all(column.is_meta for column in best)
    assert best.values.shape == best.pieces.shape == (len(batch), predictor._looked_at)


def test_threads(folders):
    before = torch.get_num_threads()
    try:
        MaskedPredictor(str(folders["bert"]), threads=3)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


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
