"""One interface to several translation engines: deterministic, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from corpusgen.config.translator import TranslatorSettings
from corpusgen.models.files import local_path

__all__ = ["Device", "Translator", "TranslatorSettings", "open_translator"]

Device = Literal["cpu", "cuda", "auto"]


class Translator(Protocol):
    """A translator for one direction."""

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Return the translation of each text, in the same order; an empty text stays empty."""


def open_translator(settings: TranslatorSettings, device: Device = "auto", threads: int = 1) -> Translator:
    """Load a translator, downloading only from S3 or by hub id; raise StageError if something is missing."""
    if settings.model:
        settings = settings.model_copy(update={"model": local_path(settings.model)})
    match settings.backend:
        case "ctranslate2":
            from corpusgen.models.translate.with_ctranslate2 import CTranslate2Translator

            return CTranslate2Translator(settings, device, threads)
        case "fairseq":
            from corpusgen.models.translate.with_fairseq import FairseqTranslator

            return FairseqTranslator(settings, device, threads)
        case "transformers":
            from corpusgen.models.translate.with_transformers import TransformersTranslator

            return TransformersTranslator(settings, device, threads)
        case "bergamot":
            from corpusgen.models.translate.with_bergamot import BergamotTranslator

            return BergamotTranslator(settings, device, threads)
