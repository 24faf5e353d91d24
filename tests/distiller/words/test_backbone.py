"""States of words in bulk equal those that one text at a time gives, on tiny models of every family."""

import random
import shutil

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from corpusgen.errors import ConfigError, StageError
from corpusgen.models.encoders import cpu_has_bfloat16
from corpusgen.models.spans import ReadText
from distiller.settings import BackboneSettings
from distiller.words import backbone as module
from distiller.words.backbone import NO_PIECE, OUTSIDE, TOO_LONG, Backbone, shape_of
from tests.testing.frozen_models import (
    FAMILIES,
    LONGEST,
    plain,
    plain_pieces,
    reference,
    save,
    seen_by,
    some_items,
    words_of,
)
from tests.testing.shared_data import shared_data
from tests.testing.tiny_masked_models import COMPOUND


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    return {family: save(family, tmp_path_factory.mktemp(family)) for family in FAMILIES}


@pytest.fixture(scope="session")
def backbones(folders):
    return {family: Backbone(BackboneSettings(model=folder)) for family, folder in folders.items()}


@pytest.fixture(scope="session")
def bert(backbones):
    return backbones["bert"]


@pytest.mark.parametrize("family", FAMILIES)
def test_bulk_equals_one_at_a_time(family, folders, backbones):
    texts, spans = some_items(7)
    texts, spans = [*texts, f"the {COMPOUND} stood."], [*spans, (4, 4 + len(COMPOUND))]
    states, reasons = backbones[family].states(texts, spans)
    assert reasons == [None] * len(texts)
    assert states.shape == (8, 2, 16)
    assert states.dtype == np.float32
    for text, span, found in zip(texts, spans, states, strict=True):
        np.testing.assert_allclose(found, plain(folders[family], text, span, (3, 4)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_layers_can_be_chosen_down_to_the_embeddings(family, folders):
    chosen = Backbone(BackboneSettings(model=folders[family], first_layer=0, last_layer=2))
    assert chosen.layers == range(3)
    states, _ = chosen.states(["a small river."], [(8, 13)])
    np.testing.assert_allclose(states[0], plain(folders[family], "a small river.", (8, 13), range(3)), atol=1e-5)


@pytest.mark.parametrize(
    ("depth", "first", "last", "layers"),
    [
        (24, None, None, range(13, 25)),
        (12, None, None, range(7, 13)),
        (6, None, None, range(4, 7)),
        (1, None, None, range(1, 2)),
        (12, 2, None, range(2, 13)),
        (12, None, 7, range(7, 8)),
        (12, 12, 11, None),
        (12, 1, 13, None),
        (12, None, 6, None),
    ],
)
def test_layers_are_the_top_half_or_those_asked_for(tmp_path, depth, first, last, layers):
    transformers.BertConfig(num_hidden_layers=depth, hidden_size=24, num_attention_heads=2).save_pretrained(tmp_path)
    asked = BackboneSettings(model=str(tmp_path), first_layer=first, last_layer=last)
    if layers is None:
        with pytest.raises(ConfigError, match=f"has {depth}: choose"):
            shape_of(asked)
    else:
        assert shape_of(asked) == (layers, 24)


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_above_the_one_after_the_last_are_not_loaded(family, folders):
    lower = Backbone(BackboneSettings(model=folders[family], first_layer=0, last_layer=2))
    whole = Backbone(BackboneSettings(model=folders[family], first_layer=0))
    assert (lower.encoder.config.num_hidden_layers, whole.encoder.config.num_hidden_layers) == (3, 4)
    texts, spans = some_items(5)
    np.testing.assert_array_equal(lower.states(texts, spans)[0], whole.states(texts, spans)[0][:, :3])


def test_it_is_frozen_and_drops_nothing_out(bert):
    assert not any(weight.requires_grad for weight in bert._model.parameters())
    assert not bert._model.training


def test_words_of_one_text_share_one_run(folders, bert):
    text = "the small river stood."
    spans = words_of(text)
    shared = Backbone(BackboneSettings(model=folders["bert"]))
    shapes = seen_by(shared)
    states, _ = shared.states([text] * len(spans), spans)
    assert [rows for rows, _ in shapes] == [1]
    for span, found in zip(spans, states, strict=True):
        np.testing.assert_array_equal(found, bert.states([text], [span])[0][0])


def test_a_text_is_tokenised_once_whatever_is_asked_of_it(bert, monkeypatch):
    texts = ["the small river stood.", "a castle."]
    items = [(text, span) for text in texts for span in words_of(text)] * 3
    random.Random(0).shuffle(items)
    tokenised, encoded = [], Backbone.encoded
    monkeypatch.setattr(Backbone, "encoded", lambda self, some: tokenised.extend(some) or encoded(self, some))
    states, _ = bert.states([text for text, _ in items], [span for _, span in items])
    assert sorted(tokenised) == sorted(texts)
    monkeypatch.undo()
    for (text, span), found in zip(items, states, strict=True):
        np.testing.assert_allclose(found, bert.states([text], [span])[0][0], rtol=1e-4, atol=1e-5)


ODD = st.text(st.sampled_from("ab é中\u0301\u0323\u200b\u200d ﬁ½😀.,'\t"), max_size=6)
ODD_TEXTS = st.lists(
    st.sampled_from(["river", " castle", "[SEP]", "<s>", "[MASK] ", "e\u0301\u0323"]) | ODD, max_size=12
)


@settings(max_examples=60)
@given(st.sampled_from(sorted(FAMILIES)), ODD_TEXTS.map("".join), st.data())
def test_the_pieces_of_a_word_are_those_that_share_a_character_with_it(backbones, family, text, data):
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    encoding = backbones[family]._backend.encode(text)
    surface = range(start, end)
    while surface and text[surface[0]].isspace():
        surface = surface[1:]
    while surface and text[surface[-1]].isspace():
        surface = surface[:-1]
    pieces = [number for number, span in enumerate(encoding.offsets) if set(range(*span)) & set(surface)]
    found = ReadText(text, encoding).find((start, end), module._REASONS)
    assert found[:2] == (pieces[0], pieces[-1]) if pieces else found in (OUTSIDE, NO_PIECE)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(1, 300))
def test_neither_order_nor_batches_matter(bert, seed, batch_tokens):
    texts, spans = some_items(12, seed)
    states, _ = bert.states(texts, spans)
    order = list(range(12))
    random.Random(seed).shuffle(order)
    shuffled, _ = bert.states([texts[i] for i in order], [spans[i] for i in order])
    np.testing.assert_array_equal(shuffled, states[order])
    usual, bert._batch_tokens = bert._batch_tokens, batch_tokens
    try:
        batched, _ = bert.states(texts, spans)
    finally:
        bert._batch_tokens = usual
    np.testing.assert_allclose(batched, states, rtol=1e-4, atol=1e-5)


def test_batches_keep_to_their_budget(folders):
    texts, spans = some_items(40)
    some = Backbone(BackboneSettings(model=folders["bert"], batch_tokens=100))
    shapes = seen_by(some)
    some.states(texts, spans)
    assert all(rows * length <= 100 or rows == 1 for rows, length in shapes)
    assert len(shapes) < 40


def test_a_bad_item_has_a_reason_and_zeros_and_spoils_no_other(bert):
    text = "the river stood."
    good, _ = bert.states([text], [(4, 9)])
    bad = {(4, 4): OUTSIDE, (-3, 3): OUTSIDE, (9, 4): OUTSIDE, (4, 99): OUTSIDE, (3, 4): NO_PIECE}
    states, reasons = bert.states([text] * (len(bad) + 1), [*bad, (4, 9)])
    assert reasons == [*bad.values(), None]
    assert not states[:-1].any()
    np.testing.assert_array_equal(states[-1], good[0])
    assert bert.states([""], [(0, 0)])[1] == [OUTSIDE]
    assert bert.states([], [])[0].shape == (0, 2, 16)
    with pytest.raises(ValueError, match="2 texts, but 1 spans"):
        bert.states([text, text], [(4, 9)])


@pytest.mark.parametrize("family", ["bert", "modernbert", "xlm-roberta"])
def test_spaces_around_the_word_change_nothing(family, backbones):
    text = "the small river stood."
    states, _ = backbones[family].states([text] * 3, [(10, 15), (9, 15), (9, 16)])
    np.testing.assert_array_equal(states[1], states[0])
    np.testing.assert_array_equal(states[2], states[0])


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "modernbert"])
def test_a_long_text_is_cut_around_the_word(family, folders, backbones):
    """As many pieces as the model takes, the word in the middle unless the text ends before."""
    text = " ".join(["river", *["garden"] * 150, "castle", *["garden"] * 150, "queen"])
    first, *body, last = reference(folders[family])[0](text)["input_ids"]
    assert len(body) == 303
    room = LONGEST - 2
    for word, position, begin in (("river", 0, 0), ("castle", 151, 151 - room // 2), ("queen", 302, 303 - room)):
        start = text.index(word)
        states, reasons = backbones[family].states([text], [(start, start + len(word))])
        assert reasons == [None]
        window = [first, *body[begin : begin + room], last]
        expected = plain_pieces(folders[family], window, [1 + position - begin], (3, 4))
        np.testing.assert_allclose(states[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("pieces", "reason"), [(LONGEST - 2, None), (LONGEST - 1, TOO_LONG)])
def test_a_word_longer_than_the_input_is_a_reason(bert, pieces, reason):
    word = " ".join(["garden"] * pieces)
    text = f"the river {word} stood in the winter"
    states, reasons = bert.states([text], [(10, 10 + len(word))])
    assert reasons == [reason]
    assert states.any() == (reason is None)


def test_all_pieces_of_a_text(folders, bert):
    text = "the small river."
    empty, states = bert.piece_states(["", text])
    assert empty.shape == (0, 2, 16)
    assert states.shape == (4, 2, 16)
    for piece, span in zip(states, [*words_of(text), (15, 16)], strict=True):
        np.testing.assert_allclose(piece, plain(folders["bert"], text, span, (3, 4)), rtol=1e-4, atol=1e-5)


def test_all_pieces_of_a_text_longer_than_the_input(bert):
    room = LONGEST - 2
    words = random.Random(1).choices(["river", "garden", "castle"], k=room + 30)
    (states,) = bert.piece_states([" ".join(words)])
    stretches = [" ".join(words[:room]), " ".join(words[room:])]
    np.testing.assert_allclose(states, np.concatenate(list(bert.piece_states(stretches))), atol=1e-5)


def test_texts_come_back_in_order_over_many_groups(bert, monkeypatch):
    texts, spans = some_items(25)
    whole, everything = list(bert.piece_states(texts)), bert.states(texts, spans)[0]
    monkeypatch.setattr(module, "_WHOLE_TEXTS_AT_ONCE", 4)
    monkeypatch.setattr(module, "_TEXTS_AT_ONCE", 4)
    for a, b in zip(whole, bert.piece_states(texts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(bert.states(texts, spans)[0], everything)


def test_a_batch_that_does_not_fit_is_halved(folders, bert):
    texts, spans = some_items(12)
    small = Backbone(BackboneSettings(model=folders["bert"]))

    def allocate(_, args, kwargs):
        if len(kwargs["input_ids"]) > 2:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    hook = small._model.register_forward_pre_hook(allocate, with_kwargs=True)
    states, _ = small.states(texts, spans)
    np.testing.assert_allclose(states, bert.states(texts, spans)[0], rtol=1e-4, atol=1e-5)
    hook.remove()
    small._model.register_forward_pre_hook(lambda *_: torch.empty(1 << 60))
    with pytest.raises(StageError, match="not even one text"):
        small.states(texts, spans)


def test_until_the_states_come_over_nothing_waits_for_the_device(folders):
    """A meta tensor has no values: whatever looked at one on the way, as a wait for a GPU would, raises."""
    backbone = Backbone(BackboneSettings(model=folders["bert"]), device="meta")
    ids, positions = (torch.zeros(shape, dtype=torch.long, device="meta") for shape in ((2, 9), (4,)))
    states = backbone._states_at({"input_ids": ids}, positions, positions)
    assert states.is_meta
    assert states.shape == (4, len(backbone.layers), backbone.dimension)


def test_nan_is_an_error_that_says_what_to_do(folders):
    broken = Backbone(BackboneSettings(model=folders["bert"]))
    broken._model.encoder.layer[3].output.dense.weight[0, 0] = torch.nan
    with pytest.raises(StageError, match=r"NaN or infinite states in torch.float32; use dtype float32"):
        broken.states(["the river."], [(4, 9)])


@pytest.mark.skipif(not cpu_has_bfloat16(), reason="this CPU has no instructions for bfloat16")
def test_a_cpu_with_bfloat16_gives_nearly_the_same_states(folders):
    states = [
        Backbone(BackboneSettings(model=folders["bert"], dtype=dtype), device="cpu").states(["the river."], [(4, 9)])[0]
        for dtype in ("float32", "bfloat16")
    ]
    assert not np.array_equal(*states)
    np.testing.assert_allclose(*states, atol=0.1)


def test_errors_that_the_user_can_put_right(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("corpusgen.models.encoders.cpu_has_bfloat16", lambda: False)
    model = folders["bert"]
    with pytest.raises(StageError, match="no such folder"):
        Backbone(BackboneSettings(model=str(tmp_path / "absent")))
    with pytest.raises(StageError, match="cannot load"):
        Backbone(BackboneSettings(model=str(tmp_path)))
    with pytest.raises(StageError, match="bfloat16 is many times slower"):
        Backbone(BackboneSettings(model=model, dtype="bfloat16"), device="cpu")
    with pytest.raises(StageError, match="torch does not know the device"):
        Backbone(BackboneSettings(model=model), device="abacus")
    with pytest.raises(ConfigError, match=r"layers 3 to 9 of .*, which has 4"):
        Backbone(BackboneSettings(model=model, last_layer=9))
    with pytest.raises(ValidationError, match="first_layr"):
        BackboneSettings(model=model, first_layr=3)


def test_what_is_not_an_encoder_is_refused(tmp_path):
    transformers.T5Config(num_layers=2).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"t5.* is not an encoder"):
        shape_of(BackboneSettings(model=str(tmp_path)))


def test_weights_that_are_missing_are_not_made_up(folders, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(folders["bert"], tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "layer.2.output.dense.weight" not in name}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(StageError, match=r"1 weights are missing, .*layer.2.output.dense.weight"):
        Backbone(BackboneSettings(model=str(folder)))


def test_a_tokenizer_of_another_model_is_refused(folders, tmp_path):
    folder = shutil.copytree(folders["bert"], tmp_path / "model")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    FAMILIES["roberta"][1]().save_pretrained(folder)
    with pytest.raises(StageError, match="pieces that the model does not know"):
        Backbone(BackboneSettings(model=str(folder)))


@pytest.mark.real
def test_a_real_model_knows_a_bank_from_a_bank():
    folder = str(shared_data("models/minilm-mlm"))
    real = Backbone(BackboneSettings(model=folder), threads=1)
    assert (real.layers, real.dimension) == (range(4, 7), 384)
    texts = [
        "She sat down on the bank of the river and watched the fish.",
        "They walked along the muddy bank until the river turned south.",
        "The bank raised its interest rates on all new loans.",
    ]
    spans = [(text.index("bank"), text.index("bank") + 4) for text in texts]
    states, reasons = real.states(texts, spans)
    assert reasons == [None] * 3
    for text, span, found in zip(texts, spans, states, strict=True):
        np.testing.assert_allclose(found, plain(folder, text, span, (4, 5, 6)), rtol=1e-3, atol=1e-4)
    means = states.mean(1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cosines = means @ means.T
    assert cosines[0, 1] > cosines[0, 2]
