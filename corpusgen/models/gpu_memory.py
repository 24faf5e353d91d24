"""Estimate the GPU memory that a worker needs from the configuration of its model and the size of its batches.

Weights are counted exactly. What a batch keeps alive at the same time was counted in the code of the models and agrees
with measurements on a CPU: an encoder holds three states and two inner states per token, the masked LM's head two
tables of scores, a translator its cache of keys and values and six tables of scores. Attention is assumed to keep no
table of all pairs, as PyTorch's own does not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusgen.config.build import MaskedSettings
from corpusgen.config.translator import TranslatorSettings
from corpusgen.models.batches import ENCODER_TOKENS, TRANSLATOR_TOKENS, tokens_in_a_batch
from corpusgen.models.files import local_path

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_SCORE = 4  # scores are float32 everywhere
_SPECIAL_TOKENS = 2
# Where the files of a translator do not tell its size, a Transformer-big is assumed, as in WMT's models.
_LAYERS, _WIDTH, _VOCABULARY = 6, 1024, 42_000


@dataclass(frozen=True)
class GpuNeed:
    """The bytes of the weights and of a batch of `tokens` tokens, a number that `setting` sets."""

    setting: str
    weights: float
    batch: float
    tokens: int


def masked_need(settings: MaskedSettings, shortest: int, states: bool) -> GpuNeed:
    """Return what a masked LM needs for texts of at least `shortest` words, with its inner states if `states`."""
    from transformers import AutoModelForMaskedLM

    size = _BYTES.get(settings.dtype, _BYTES["float16"])
    config, parameters = _built(AutoModelForMaskedLM, settings.model, settings.revision)
    tokens = tokens_in_a_batch(settings.batch_tokens, ENCODER_TOKENS, "cuda")
    width = config.hidden_size
    inner = getattr(config, "intermediate_size", None) or 4 * width
    of_a_token = 3 * width + 2 * inner + (max(0, config.num_hidden_layers - 2) * width if states else 0)
    texts = max(1, tokens // (shortest + _SPECIAL_TOKENS))
    return GpuNeed(
        "masked.batch_tokens",
        parameters * size,
        max(tokens * of_a_token * size, 2 * texts * config.vocab_size * _SCORE),
        tokens,
    )


def _one_translator(settings: TranslatorSettings, shortest: int) -> GpuNeed:
    """Return what the translator of one direction needs."""
    size = _BYTES.get(settings.compute_type, _BYTES["float16"])
    if settings.backend == "transformers":
        from transformers import AutoModelForSeq2SeqLM

        config, parameters = _built(AutoModelForSeq2SeqLM, settings.model or "", settings.revision)
        weights = float(parameters * size)
        layers, width, vocabulary = config.decoder_layers, config.d_model, config.vocab_size
    else:
        weights = float(_largest_file(settings.model or ""))
        layers, width, vocabulary = _LAYERS, _WIDTH, _VOCABULARY
    # Keys and values of the words so far and of the source, in each layer.
    tokens = tokens_in_a_batch(settings.batch_tokens, TRANSLATOR_TOKENS, "cuda")
    cache = 4 * layers * tokens * settings.beam * width * size
    texts = max(1, tokens // (shortest + _SPECIAL_TOKENS))
    return GpuNeed("batch_tokens", weights, 1.1 * cache + 6 * texts * settings.beam * vocabulary * _SCORE, tokens)


def translators_need(sides: Sequence[TranslatorSettings], shortest: int) -> GpuNeed | None:
    """Return what one worker's translators need for texts of at least `shortest` words; None if none runs on GPUs."""
    needs = [_one_translator(side, shortest) for side in sides if side.backend != "bergamot"]
    if not needs:
        return None
    largest = max(needs, key=lambda need: need.batch)
    setting = "translation.forward.batch_tokens and translation.back.batch_tokens"
    return GpuNeed(setting, sum(need.weights for need in needs), largest.batch, largest.tokens)


def _built(auto_class: Any, name: str, revision: str | None) -> tuple[Any, int]:
    """Return the configuration of a model and its number of parameters, without reading the weights."""
    import torch
    from transformers import AutoConfig

    from corpusgen.models.encoders import explained_loading, model_path

    with explained_loading(name, "model"):
        config = AutoConfig.from_pretrained(model_path(name, "model"), revision=revision)
        with torch.device("meta"):
            model = auto_class.from_config(config)
    return config, sum(parameter.numel() for parameter in model.parameters())


def _largest_file(model: str) -> int:
    """Return the size of a translator's weights: no other file of it is as large."""
    path = Path(local_path(model))
    files = [path] if path.is_file() else [file for file in path.glob("*") if file.is_file()]
    return max((os.path.getsize(file) for file in files), default=0)
