"""Batches for all translators: each text once, texts of similar length together, no batch too large for memory.

Which texts share a batch depends on the texts of a call, not on their order. It affects a translation only through the
rounding of floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from corpusgen.config.translator import TranslatorSettings
from corpusgen.models.batches import TRANSLATOR_TOKENS, padded_batches, run_or_halve, tokens_in_a_batch

Encoded = TypeVar("Encoded", bound=Sequence[object])


def batch_tokens(settings: TranslatorSettings, device: str) -> int:
    """Return the number of sub-words in a batch: as set, or what suits the device."""
    return tokens_in_a_batch(settings.batch_tokens, TRANSLATOR_TOKENS, device)


def translate_in_batches(
    texts: Sequence[str],
    encode: Callable[[list[str]], Sequence[Encoded]],
    run: Callable[[list[Encoded]], Sequence[str]],
    batch_tokens: int,
    max_tokens: int,
) -> list[str]:
    """Return the translation of each text. `encode` turns texts into sub-words; `run` translates a batch of these."""
    distinct = sorted({text for text in texts if text.strip()})
    encoded = list(zip(distinct, encode(distinct), strict=True)) if distinct else []
    for text, tokens in encoded:
        if len(tokens) > max_tokens:
            raise ValueError(f"{len(tokens)} sub-words are more than max_tokens, {max_tokens}: {text[:60]!r}…")
    # The longest first: if memory is short, that shows at once.
    encoded.sort(key=lambda pair: -len(pair[1]))
    translations: list[str] = []
    for places in padded_batches([len(tokens) for _, tokens in encoded], batch_tokens):
        translations += run_or_halve(run, [encoded[place][1] for place in places], "the translator")
    found = {text: translation.strip() for (text, _), translation in zip(encoded, translations, strict=True)}
    return [found.get(text, "") for text in texts]
