"""The arithmetic of memory against what a forward really allocates, counted by torch's profiler on a CPU."""

import pytest
import torch
import transformers
from torch.profiler import ProfilerActivity, profile

from corpusgen.config.build import MaskedSettings
from corpusgen.config.translator import TranslatorSettings
from corpusgen.corpus.build import stages_of
from corpusgen.engine import Resources
from corpusgen.models.gpu_memory import GpuNeed, masked_need, translators_need
from corpusgen.models.masked_lm import MaskedPredictor
from corpusgen.ops.doctor.gpu import gpu_memory
from corpusgen.ops.doctor.machine import Gpu
from corpusgen.store import Store
from tests.testing import triple_builds as support

WITHIN = 1.4
TOKENS = 2048
SENTENCES = support.sentences(200)
SHORTEST = 20  # words of a sentence; with the full stop and special tokens 23 or more
GB = 1_000_000_000


def peak(run):
    """The most bytes that tensors made by `run` took at the same time."""
    run()  # what is made once is made now
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiled:
        run()
    now = most = 0
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


@pytest.mark.parametrize(
    ("width", "inner", "vocabulary"), [(128, 512, 500), (128, 128, 500), (32, 128, 20_000)], ids=["", "thin", "wide"]
)
def test_a_batch_of_the_masked_lm(tmp_path, width, inner, vocabulary):
    support.write_masked_lm(tmp_path)
    shape = {"hidden_size": width, "intermediate_size": inner, "vocab_size": vocabulary}
    config = transformers.BertConfig(num_hidden_layers=6, num_attention_heads=4, max_position_embeddings=64, **shape)
    model = transformers.BertForMaskedLM(config)
    model.save_pretrained(tmp_path)
    settings = MaskedSettings(model=str(tmp_path), batch_tokens=TOKENS, dtype="float32")
    predictor = MaskedPredictor(**settings.model_dump(), device="cpu")
    spans = [(4, text.index(" ", 4)) for text in SENTENCES]

    need = masked_need(settings, SHORTEST, states=False)
    assert need.weights == sum(weight.numel() * 4 for weight in model.parameters())
    measured = peak(lambda: predictor.predict(SENTENCES[:80], spans[:80]))
    assert measured / WITHIN < need.batch < measured * WITHIN
    measured = peak(lambda: predictor.states(SENTENCES[:80], spans[:80]))
    need = masked_need(settings, SHORTEST, states=True)
    if vocabulary < 1000:
        assert measured / WITHIN < need.batch < measured * WITHIN
    else:
        assert measured < need.batch


@pytest.mark.parametrize(("width", "layers", "vocabulary"), [(64, 4, 200), (32, 2, 5000)])
def test_a_batch_of_a_translator(tmp_path, width, layers, vocabulary):
    words, texts, beam = 16, 16, 3
    config = transformers.MarianConfig(
        vocab_size=vocabulary,
        d_model=width,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        **{f"{side}_layers": layers for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": 4 * width for side in ("encoder", "decoder")},
    )
    model = transformers.MarianMTModel(config).eval()
    model.save_pretrained(tmp_path)
    ids = torch.randint(2, vocabulary, (texts, words))
    search = {"num_beams": beam, "min_new_tokens": words - 1, "max_new_tokens": words, "do_sample": False}
    with torch.inference_mode():
        measured = peak(lambda: model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **search))
    settings = TranslatorSettings(
        backend="transformers",
        model=str(tmp_path),
        beam=beam,
        batch_tokens=words * texts,
        compute_type="float32",
    )
    need = translators_need([settings], words - 2)
    assert need.weights == sum(weight.numel() * 4 for weight in model.parameters())
    assert measured / WITHIN < need.batch < measured * WITHIN


def test_a_converted_translator_weighs_what_its_file_does(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"0" * 1000)
    (tmp_path / "config.json").write_text("{}")
    assert translators_need([TranslatorSettings(model=str(tmp_path))], 15).weights == 1000


NEED = GpuNeed("masked.batch_tokens", weights=1 * GB, batch=4 * GB, tokens=16_000)


@pytest.mark.parametrize(
    ("gpus", "free", "status", "remedy"),
    [
        (1, 24, "green", ""),
        (2, 24, "green", ""),
        (1, 3.5, "yellow", "set masked.batch_tokens to 8,000"),
        (0.25, 14, "yellow", "set masked.batch_tokens to 8,000"),
        (1, 1.2, "red", "run.workers.mask.gpus=1"),
        (0.1, 14, "red", "run.workers.mask.gpus=1"),
    ],
)
def test_a_gpu_or_a_share_of_one_is_large_enough_or_not(gpus, free, status, remedy):
    others = [Gpu("large", 80 * GB, 80 * GB), Gpu("one", 40 * GB, int(free * GB))]
    line = gpu_memory("mask", NEED, Resources(gpus=gpus), others)
    assert line.status == status
    assert remedy in line.remedy


def test_without_a_gpu_to_compare_with_the_need_is_said_all_the_same():
    line = gpu_memory("mask", NEED, Resources(gpus=1), [])
    assert line.status == "grey"
    assert "about 1.5 GB and 4.0 GB for a batch of 16,000 tokens" in line.finding


def test_stages_without_models_for_a_gpu_need_none(config):
    settings = config(**support.ROUND_TRIP)
    needs = {stage.name: stage.gpu_need(SHORTEST) for stage in stages_of(settings, Store.at(settings.store))}
    need = needs.pop("mask")
    assert set(needs.values()) == {None}
    assert need.setting == "masked.batch_tokens"
    assert need.tokens == 16_384
