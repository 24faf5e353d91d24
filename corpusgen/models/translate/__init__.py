"""One interface to several translation engines: deterministic, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from corpusgen.config.translator import TranslatorSettings
from corpusgen.models.files import local_path

__all__ = ["AvoidingTranslator", "Device", "Translator", "TranslatorSettings", "open_translator"]

Device = Literal["cpu", "cuda", "auto"]


class Translator(Protocol):
    """A translator for one direction."""

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Return the translation of each text, in the same order; an empty text stays empty."""

    def hypotheses(self, texts: Sequence[str], number: int) -> list[list[str]]:
        """Return up to `number` translations of each text, the best first; `number` is at most the beam."""


class AvoidingTranslator(Translator, Protocol):
    """A translator that can do without a word; only CTranslate2's can."""

    def translate_without(self, texts: Sequence[str], words: Sequence[str]) -> list[str]:
        """Return a translation of each text in which its word does not occur."""

    def alternatives(
        self, texts: Sequence[str], words: Sequence[str], best: Sequence[str], number: int, max_loss: float
    ) -> list[list[str]]:
        """Return up to `number` translations of each text without its word that are nearly as probable as the best.

        The natural logarithms of their probabilities are at most `max_loss` below that of the best translation.
        """


def open_translator(settings: TranslatorSettings, device: Device = "auto", threads: int = 1) -> Translator:
    """Load a translator; nothing is downloaded, except a model that is named by an S3 address or a hub id.

    Args:
        settings: The backend, its model, and everything that determines its output.
        device: Where it runs; "auto" picks a GPU if there is one.
        threads: The number of CPU threads.

    Returns:
        The translator; one of the backend ctranslate2 is an `AvoidingTranslator`.

    Raises:
        StageError: If the model or a package is missing, cannot be loaded, or cannot run on the device.
    """
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
