"""How much memory of a GPU a worker needs, from the configuration of its model and the size of its batches.

Weights are counted exactly. Of a batch, what is alive at the same time was counted in the code of the models and found
to agree with measurements on a CPU: an encoder holds three states and two inner states of a token, the masked LM's
head two tables of scores, a translator its cache of keys and values and six tables of scores. Attention is taken to
keep no table of all pairs, as PyTorch's own does not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpusgen.batches import ENCODER_TOKENS, tokens_in_a_batch
from corpusgen.config import BuildConfig, MaskedSettings
from corpusgen.doctor.lines import Line, amount
from corpusgen.doctor.machine import Gpu
from corpusgen.encoders import explained_loading, model_path
from corpusgen.engine.stage import Resources
from corpusgen.model_files import local_path
from corpusgen.translate.settings import TranslatorSettings

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_SCORE = 4  # scores are float32 everywhere
_CUDA = 0.5e9  # what CUDA takes for itself
_SPECIAL_TOKENS = 2
# Of a translator whose files do not tell its size, that of a Transformer-big is assumed, as in WMT's models.
_LAYERS, _WIDTH, _VOCABULARY = 6, 1024, 42_000


@dataclass(frozen=True)
class Need:
    """Bytes of weights, and those of a batch of so many tokens."""

    weights: float
    batch: float
    tokens: int


def masked_need(settings: MaskedSettings, shortest: int, states: bool) -> Need:
    """What a masked LM needs for texts of at least `shortest` words; `states`: also asked for its inner states."""
    from transformers import AutoModelForMaskedLM

    size = _BYTES.get(settings.dtype, _BYTES["float16"])
    config, parameters = _built(AutoModelForMaskedLM, settings.model, settings.revision)
    tokens = tokens_in_a_batch(settings.batch_tokens, ENCODER_TOKENS, "cuda")
    width = config.hidden_size
    inner = getattr(config, "intermediate_size", None) or 4 * width
    of_a_token = 3 * width + 2 * inner + (max(0, config.num_hidden_layers - 2) * width if states else 0)
    texts = max(1, tokens // (shortest + _SPECIAL_TOKENS))
    return Need(parameters * size, max(tokens * of_a_token * size, 2 * texts * config.vocab_size * _SCORE), tokens)


def translator_need(settings: TranslatorSettings, shortest: int) -> Need:
    """What one direction needs for texts of at least `shortest` words."""
    size = _BYTES.get(settings.compute_type, _BYTES["float16"])
    if settings.backend == "transformers":
        from transformers import AutoModelForSeq2SeqLM

        config, parameters = _built(AutoModelForSeq2SeqLM, settings.model or "", settings.revision)
        weights = float(parameters * size)
        layers, width, vocabulary = config.decoder_layers, config.d_model, config.vocab_size
    else:
        weights = float(_largest_file(settings.model or ""))
        layers, width, vocabulary = _LAYERS, _WIDTH, _VOCABULARY
    # Keys and values, of the words so far and of the source, in each layer.
    tokens = settings.tokens_in_a_batch("cuda")
    cache = 4 * layers * tokens * settings.beam * width * size
    texts = max(1, tokens // (shortest + _SPECIAL_TOKENS))
    return Need(weights, 1.1 * cache + 6 * texts * settings.beam * vocabulary * _SCORE, tokens)


def _built(auto_class: Any, name: str, revision: str | None) -> tuple[Any, int]:
    """The configuration of a model, and how many parameters it has; its weights are not read."""
    import torch
    from transformers import AutoConfig

    with explained_loading(name, "model"):
        config = AutoConfig.from_pretrained(model_path(name, "model"), revision=revision)
        with torch.device("meta"):
            model = auto_class.from_config(config)
    return config, sum(parameter.numel() for parameter in model.parameters())


def _largest_file(model: str) -> int:
    """The weights of a translator: nothing else there is as large."""
    path = Path(local_path(model))
    files = [path] if path.is_file() else [file for file in path.glob("*") if file.is_file()]
    return max((os.path.getsize(file) for file in files), default=0)


def need_of(config: BuildConfig, stage: str) -> tuple[str, Need] | None:
    """The setting of a stage's batches, and what a worker needs; None for a stage without models for a GPU."""
    shortest = config.filters.min_words or 1
    if stage == "mask" and config.masked:
        states = config.rules.context_min_cosine is not None
        return "masked.batch_tokens", masked_need(config.masked, shortest, states)
    if stage == "translate" and config.translation:
        sides = [config.translation.forward, config.translation.back]
        both = [translator_need(side, shortest) for side in sides if side.backend != "bergamot"]
        if both:
            largest = max(both, key=lambda need: need.batch)
            total = Need(sum(need.weights for need in both), largest.batch, largest.tokens)
            return "translation.forward.batch_tokens and translation.back.batch_tokens", total
    return None


def gpu_memory(stage: str, setting: str, need: Need, request: Resources, gpus: Sequence[Gpu]) -> Line:
    """The need of a worker against the smallest GPU that it may get, or its share of one."""
    what = f"GPU memory of {stage}"
    needed = f"about {amount(need.weights + _CUDA)} and {amount(need.batch)} for a batch of {need.tokens:,} tokens"
    if not gpus:
        return Line("grey", what, f"{needed}; there is no GPU to compare with")
    share = min(1.0, request.gpus)
    smallest = min(gpus, key=lambda gpu: gpu.free)
    room = smallest.free * share
    finding = f"{needed}; {amount(room)} free for a worker on {smallest.name}"
    if need.weights + _CUDA > room:
        remedy = f"take a larger GPU, a smaller model, or a whole GPU a worker: run.workers.{stage}.gpus=1"
        return Line("red", what, finding, remedy)
    if need.weights + need.batch + _CUDA > room:
        fitting = int(need.tokens * (room - need.weights - _CUDA) / need.batch)
        return Line("yellow", what, finding, f"batches would be halved again and again: set {setting} to {fitting:,}")
    return Line("green", what, finding)
