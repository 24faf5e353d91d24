"""Translation with fairseq: a folder with a checkpoint, its dictionaries and its sub-word file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from corpusgen.config.translator import TranslatorSettings
from corpusgen.errors import StageError
from corpusgen.models.encoders import choose_device, choose_dtype
from corpusgen.models.translate.batching import BatchTranslator
from corpusgen.models.translate.fairseq_compat import checkpoint_errors_explained, import_fairseq, without_fast_path
from corpusgen.models.translate.subwords import open_subwords

_CHECKPOINTS = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt")


class FairseqTranslator(BatchTranslator[list[int]]):
    """A translator with a bilingual model that fairseq trained."""

    def __init__(self, settings: TranslatorSettings, device: str, threads: int) -> None:
        checkpoint = find_checkpoint(settings.model or "")
        import_fairseq()
        from fairseq.data.data_utils import collate_tokens
        from fairseq.sequence_generator import SequenceGenerator

        torch.set_num_threads(threads)
        self._device = choose_device(device)
        super().__init__(settings, self._device.type)
        dtype = choose_dtype("auto" if settings.compute_type == "default" else settings.compute_type, self._device)
        model, task = _load(checkpoint, settings)
        self._model = model.to(self._device, dtype)
        self._source, self._target = task.source_dictionary, task.target_dictionary
        self._subwords = open_subwords(checkpoint.parent, self._source.symbols, settings)
        self._collate = collate_tokens
        self._generator = SequenceGenerator(
            [self._model],
            self._target,
            beam_size=settings.beam,
            max_len_b=settings.max_tokens,
            unk_penalty=math.inf,
        )

    def _encode(self, texts: list[str]) -> list[list[int]]:
        index, end = self._source.index, self._source.eos()
        return [[*map(index, self._subwords.encode(text)), end] for text in texts]

    def _run(self, batch: list[list[int]], number: int) -> list[list[str]]:
        tokens = self._collate(list(map(torch.tensor, batch)), self._source.pad(), left_pad=True).to(self._device)
        lengths = torch.tensor(list(map(len, batch)), device=self._device)
        sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
        with torch.inference_mode():
            found = self._generator.generate([self._model], sample)
        return [[self._text(one["tokens"].tolist()) for one in several[:number]] for several in found]

    def _text(self, tokens: list[int]) -> str:
        return self._subwords.decode([self._target[token] for token in tokens if token != self._target.eos()])


def find_checkpoint(model: str) -> Path:
    """Return the path of the checkpoint: the file itself, or the one in the folder."""
    path = Path(model)
    if path.is_file():
        return path
    if not path.is_dir():
        raise StageError(f"{path}: no such folder; give one with a fairseq checkpoint, its dictionaries and sub-words")
    found = sorted(path.glob("*.pt"))
    usual = [path / name for name in _CHECKPOINTS if path / name in found]
    if not usual and len(found) != 1:
        names = ", ".join(file.name for file in found)
        raise StageError(
            f"{path} has several checkpoints; set `model` to one of them: {names}"
            if found
            else f"{path}: no fairseq checkpoint there; it must be named {' or '.join(_CHECKPOINTS)}"
        )
    return (usual or found)[0]


def _load(checkpoint: Path, settings: TranslatorSettings) -> tuple[Any, Any]:
    """Load the model and its task, which holds the dictionaries."""
    from fairseq import checkpoint_utils

    languages = {"source_lang": settings.source, "target_lang": settings.target}
    overrides = {name: code for name, code in languages.items() if code}
    overrides["data"] = str(checkpoint.absolute().parent)
    with checkpoint_errors_explained(checkpoint):
        models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], arg_overrides=overrides)
    model = without_fast_path(models[0].eval())
    model.make_generation_fast_()
    return model, task
