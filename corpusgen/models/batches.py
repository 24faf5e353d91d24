"""Batches of texts for a model: texts of similar length together, and no batch too large for memory."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from corpusgen.errors import StageError

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# The tokens per batch that suit a device. A CPU is fastest while activations stay in its cache (benchmarks/masked.py
# and the sweep in benchmarks/translation.py). A GPU wants far more, but fewer for a translator, with its several beams.
ENCODER_TOKENS: Final = {"cpu": 1024, "cuda": 16384}
TRANSLATOR_TOKENS: Final = {"cpu": 1024, "cuda": 4096}

_NO_MEMORY = ("out of memory", "can't allocate memory", "alloc_failed")  # from CUDA, torch on a CPU, cuBLAS


def tokens_in_a_batch(given: int | None, suiting: Mapping[str, int], device: str) -> int:
    """Return the number of tokens in a batch: as given, or what suits the device."""
    return given or suiting.get(device, suiting["cpu"])


def padded_batches(lengths: Sequence[int], most: int, most_texts: int | None = None) -> Iterator[range]:
    """Cut texts, sorted by length, into runs of at most `most` tokens, padding included, or of a single text."""
    start = 0
    for stop in range(1, len(lengths) + 1):
        full = stop - start == most_texts
        if full or stop == len(lengths) or (stop + 1 - start) * max(lengths[start], lengths[stop]) > most:
            yield range(start, stop)
            start = stop


def run_or_halve(run: Callable[[list[Item]], Iterable[Answer]], batch: list[Item], model: str) -> list[Answer]:
    """Return what `run` answers for each item of a batch; halve a batch that does not fit into memory."""
    try:
        answers = list(run(batch))
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        if len(batch) == 1:
            raise StageError(
                f"{model}: not even one text fits into memory ({error}); free some memory or use a smaller model"
            ) from error
        log.warning("%s: %d texts at a time do not fit into memory; lower batch_tokens", model, len(batch))
    else:
        if len(answers) != len(batch):
            raise StageError(f"{model} returned {len(answers)} results for {len(batch)} texts")
        return answers
    # Not in the except block: until the error is gone, it keeps the memory of the failed attempt alive.
    if "torch" in sys.modules:  # not every model uses torch, and importing it takes seconds
        sys.modules["torch"].cuda.empty_cache()
    middle = len(batch) // 2
    return run_or_halve(run, batch[:middle], model) + run_or_halve(run, batch[middle:], model)


def _is_out_of_memory(error: Exception) -> bool:
    message = str(error).lower()
    return isinstance(error, MemoryError) or any(sign in message for sign in _NO_MEMORY)
