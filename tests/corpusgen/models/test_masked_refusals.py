"""Masked-token prediction: models, tokenizers, devices and scores that will not do are refused with a reason."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

from corpusgen.errors import StageError
from corpusgen.models.masked_lm import MaskedPredictor
from tests.testing.tiny_masked_models import SPANS, TEXTS, byte_level


def test_scores_that_overflow_are_refused(copied):
    folder = copied("bert")
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        model.cls.predictions.transform.LayerNorm.weight.mul_(60_000)
    model.save_pretrained(folder)
    assert MaskedPredictor(str(folder), dtype="float32").predict(TEXTS, SPANS)[0].words
    with pytest.raises(StageError, match=r"NaN or infinite scores in torch.float16; use dtype float32"):
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
    with pytest.raises(StageError, match="cannot load"):
        MaskedPredictor(str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(StageError, match=r"cannot load .*nobody/has-this: .*; give a folder"):
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
    with pytest.raises(StageError, match="no whole words; check that the folder"):
        MaskedPredictor(str(folder))
    byte_level().save_pretrained(folder)
    with pytest.raises(StageError, match="use the model's own tokenizer"):
        MaskedPredictor(str(folder))


def test_devices_and_types(folders, monkeypatch):
    monkeypatch.setattr("corpusgen.models.encoders.cpu_has_bfloat16", lambda: False)
    folder = str(folders["bert"])
    with pytest.raises(StageError, match="bfloat16 is many times slower"):
        MaskedPredictor(folder, device="cpu", dtype="bfloat16")
    with pytest.raises(StageError, match="unknown dtype 'int8'; choose from auto, float32"):
        MaskedPredictor(folder, dtype="int8")
    with pytest.raises(StageError, match="torch does not know the device"):
        MaskedPredictor(folder, device="graphics")
    if not torch.cuda.is_available():
        with pytest.raises(StageError, match="no GPU on this machine"):
            MaskedPredictor(folder, device="cuda")
