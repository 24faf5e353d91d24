"""Batches for all translators: each text once, texts of similar length together, no batch too large for memory.

Which texts share a batch depends on the texts of a call, not on their order. It affects a translation only through the
rounding of floating-point numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from corpusgen.config.translator import TranslatorSettings
from corpusgen.models.batches import TRANSLATOR_TOKENS, padded_batches, run_or_halve, tokens_in_a_batch

Encoded = TypeVar("Encoded", bound=Sequence[object])


class BatchTranslator(ABC, Generic[Encoded]):
    """A translator that runs batches of encoded texts; `device_type` is where it runs, such as cpu."""

    def __init__(self, settings: TranslatorSettings, device_type: str) -> None:
        self._settings = settings
        self._batch_tokens = batch_tokens(settings, device_type)

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Return the best translation of each text, without unknown symbols."""
        return [best for best, *_ in self.hypotheses(texts, 1)]

    def hypotheses(self, texts: Sequence[str], number: int) -> list[list[str]]:
        """Return the best translations of each text that the search has found, at most `number`."""
        return self._in_batches(texts, partial(self._run, number=number))

    def _in_batches(
        self, texts: Sequence[str], run: Callable[[list[Encoded]], Sequence[Sequence[str]]]
    ) -> list[list[str]]:
        return translate_in_batches(texts, self._encode, run, self._batch_tokens, self._settings.max_tokens)

    @abstractmethod
    def _encode(self, texts: list[str]) -> Sequence[Encoded]:
        """Return the sub-words of each text."""

    @abstractmethod
    def _run(self, batch: list[Encoded], number: int) -> Sequence[Sequence[str]]:
        """Return up to `number` translations of each text of a batch, the best first."""


def batch_tokens(settings: TranslatorSettings, device: str) -> int:
    """Return the number of sub-words in a batch: as set, or what suits the device."""
    return tokens_in_a_batch(settings.batch_tokens, TRANSLATOR_TOKENS, device)


def translate_in_batches(
    texts: Sequence[str],
    encode: Callable[[list[str]], Sequence[Encoded]],
    run: Callable[[list[Encoded]], Sequence[Sequence[str]]],
    batch_tokens: int,
    max_tokens: int,
) -> list[list[str]]:
    """Return the translations of each text, the best first and each once; an empty text has one, itself.

    `encode` turns texts into sub-words; `run` translates a batch of these, each in one or several ways.
    """
    distinct = sorted({text for text in texts if text.strip()})
    encoded = list(zip(distinct, encode(distinct), strict=True)) if distinct else []
    for text, tokens in encoded:
        if len(tokens) > max_tokens:
            raise ValueError(f"{len(tokens)} sub-words exceed max_tokens, {max_tokens}: {text[:60]!r}…")
    # The longest first: if memory is short, that shows at once.
    encoded.sort(key=lambda pair: -len(pair[1]))
    translations: list[Sequence[str]] = []
    for batch in padded_batches([len(tokens) for _, tokens in encoded], batch_tokens):
        translations += run_or_halve(run, [encoded[index][1] for index in batch], "the translator")
    found = {
        text: list(dict.fromkeys(translation.strip() for translation in several))
        for (text, _), several in zip(encoded, translations, strict=True)
    }
    return [found.get(text, [""]) for text in texts]
