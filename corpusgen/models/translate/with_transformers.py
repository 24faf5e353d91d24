"""Translation with transformers: Marian, NLLB, M2M100 and others that take texts and languages as they do."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from corpusgen.config.translator import TranslatorSettings
from corpusgen.errors import StageError
from corpusgen.models.encoders import choose_device, choose_dtype
from corpusgen.models.translate.batching import BatchTranslator
from corpusgen.models.translate.languages import language_tokens

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


class TransformersTranslator(BatchTranslator[list[int]]):
    """A translator with a model from a folder, or from the hub by its id."""

    def __init__(self, settings: TranslatorSettings, device: str, threads: int) -> None:
        import transformers

        transformers.utils.logging.disable_progress_bar()
        torch.set_num_threads(threads)
        self._device = choose_device(device)
        super().__init__(settings, self._device.type)
        dtype = choose_dtype("auto" if settings.compute_type == "default" else settings.compute_type, self._device)
        model, revision = settings.model or "", settings.revision
        check_model(model, revision)
        with load_errors_explained(model):
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model, revision=revision)
            self._model: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(model, revision=revision)
        self._model.to(self._device, dtype).eval()
        # M2M100's tokenizer knows more languages than its vocabulary lists.
        languages = getattr(self._tokenizer, "lang_code_to_token", {}).values()
        before, begin = language_tokens({*self._tokenizer.get_vocab(), *languages}, settings)
        if begin:
            self._tokenizer.src_lang = settings.source
        self._before = "" if begin else "".join(before)
        self._set_search(begin)

    def _set_search(self, begin: list[str]) -> None:
        """Keep the model's own special symbols, but search like the other backends."""
        search = self._model.generation_config
        search.update(
            num_beams=self._settings.beam,
            max_length=None,
            max_new_tokens=self._settings.max_tokens,
            do_sample=False,
            early_stopping=self._settings.beam > 1,
            length_penalty=1.0,
            forced_eos_token_id=None,
            suppress_tokens=[self._tokenizer.unk_token_id],
        )
        if begin:
            search.forced_bos_token_id = self._tokenizer.convert_tokens_to_ids(begin[0])

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return list(self._tokenizer([self._before + text for text in texts])["input_ids"])

    def _run(self, batch: list[list[int]], number: int) -> list[list[str]]:
        padded = self._tokenizer.pad({"input_ids": batch}, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            output = self._model.generate(**padded, num_return_sequences=number)
        texts = self._tokenizer.batch_decode(output, skip_special_tokens=True)
        return [list(several) for several in zip(*[iter(texts)] * number, strict=True)]


def check_model(model: str, revision: str | None) -> None:
    """Raise StageError unless this is a folder with a text-to-text model, or the hub id of one."""
    import transformers

    if not Path(model).exists() and not _HUB_ID.fullmatch(model):
        raise StageError(f"{model}: no such folder, and not a valid hub id")
    if Path(model).exists() and not (Path(model) / "config.json").is_file():
        raise StageError(f"{model}: not a transformers model (config.json is missing)")
    with load_errors_explained(model):
        config: Any = transformers.AutoConfig.from_pretrained(model, revision=revision)
    if not config.is_encoder_decoder:
        raise StageError(f"{model}: a model of type {config.model_type} cannot translate; use Marian, NLLB or M2M100")


@contextmanager
def load_errors_explained(model: str) -> Iterator[None]:
    """Turn whatever fails in the block into a StageError that says what the model should be like."""
    try:
        with warnings.catch_warnings():  # from Marian's tokenizer, about a package that it does not use here
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        raise StageError(
            f"transformers cannot load {model}: {error}; give a folder with configuration, weights and "
            "tokenizer, or a hub id"
        ) from error
