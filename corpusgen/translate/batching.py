"""What all translators share: each text once, texts of like length together, no batch too large for the memory.

Which texts share a batch depends on the texts of a call and not on their order. It does not matter to a translation
except through the rounding of floating-point numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from corpusgen.errors import StageError, is_out_of_memory

log = logging.getLogger(__name__)

Encoded = TypeVar("Encoded", bound=Sequence[object])


def translate_in_batches(
    texts: Sequence[str],
    encode: Callable[[list[str]], Sequence[Encoded]],
    run: Callable[[list[Encoded]], Sequence[str]],
    batch_tokens: int,
    max_tokens: int,
) -> list[str]:
    """The translation of each text. `encode` turns texts into sub-words, `run` translates a batch of these."""
    distinct = sorted({text for text in texts if text.strip()})
    encoded = list(zip(distinct, encode(distinct), strict=True)) if distinct else []
    for text, tokens in encoded:
        if len(tokens) > max_tokens:
            raise ValueError(f"{len(tokens)} sub-words are more than max_tokens, {max_tokens}: {text[:60]!r}…")
    # The longest first: if memory is short, that shows at once.
    encoded.sort(key=lambda pair: -len(pair[1]))
    translations: list[str] = []
    for batch in batches([tokens for _, tokens in encoded], batch_tokens):
        translations += _run_or_halve(run, batch)
    found = {text: translation.strip() for (text, _), translation in zip(encoded, translations, strict=True)}
    return [found.get(text, "") for text in texts]


def batches(encoded: Sequence[Encoded], batch_tokens: int) -> Iterator[list[Encoded]]:
    """Cut texts sorted by length, longest first, so that none but a single text exceeds the budget when padded."""
    first = 0
    while first < len(encoded):
        size = max(1, batch_tokens // max(1, len(encoded[first])))
        yield list(encoded[first : first + size])
        first += size


def _run_or_halve(run: Callable[[list[Encoded]], Sequence[str]], batch: list[Encoded]) -> list[str]:
    try:
        translations = list(run(batch))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        if len(batch) == 1:
            raise MemoryError(f"not even one text of {len(batch[0])} sub-words fits into memory: {error}") from error
        log.warning("a batch of %d texts does not fit into memory: lower batch_tokens (%s)", len(batch), error)
    else:
        if len(translations) != len(batch):
            raise StageError(f"the translator returned {len(translations)} translations for {len(batch)} texts")
        return translations
    # Here, and not where the error is caught: until it is gone, it holds on to the memory of the failed attempt.
    middle = len(batch) // 2
    return _run_or_halve(run, batch[:middle]) + _run_or_halve(run, batch[middle:])
