"""The way from items to vectors: texts in bounded batches through the frozen model, its states through the distillers.

Shapes: N words or texts, L layers, D dimensions.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from corpusgen.models.encoders import on_device
from distiller.errors import EmptyTextError
from distiller.inference.spans import Span, Vectors, item_error, means, problem_of
from distiller.inference.texts import check_text
from distiller.words.backbone import Backbone
from distiller.words.model import Distilled, Distillers, own_vectors

Kind = Literal["meaning", "context", "baseline"]
Output = Literal["meaning", "context", "baseline", "both"]

NOTHING_READ = "the text has no word piece"

_TEXTS_AT_ONCE = 2048  # texts that are sorted by length together, and that a stream holds in memory
_SENTENCES_AT_ONCE = 256  # texts whose states of every piece are in memory at the same time
_WORDS_AT_ONCE = 512  # words at a time for the distillers, whose inner states are many times larger than their input


class VectorMaker:
    """Makes vectors with a frozen model and its distillers; without distillers, the frozen model's own."""

    def __init__(self, backbone: Backbone, model: Distillers | None) -> None:
        self._backbone = backbone
        self._model = model

    def kinds(self, output: Output) -> tuple[str, ...]:
        """Return the kinds of vectors that an output consists of; raise ValueError if this model does not have it."""
        if output not in ("meaning", "context", "baseline", "both"):
            raise ValueError(f"unknown output {output!r}; choose from meaning, context, baseline, both")
        if self._model is None and output in ("context", "both"):
            raise ValueError(f"output {output!r}: a baseline has no context vectors")
        return ("meaning", "context") if output == "both" else (output,)

    def distil(
        self, states: npt.NDArray[np.float32], kinds: Sequence[str], in_sentence: bool = False
    ) -> tuple[Vectors, ...]:
        """Turn layer states (N, L, D) into vectors (N, D) of each of the kinds: of words, or to average over a text."""
        parts = []
        with torch.inference_mode():
            for start in range(0, max(1, len(states)), _WORDS_AT_ONCE):
                layers = on_device(states[start : start + _WORDS_AT_ONCE], self._backbone.device)
                vectors = [self._of_kind(layers, kind, in_sentence).float() for kind in kinds]
                parts.append(torch.stack(vectors).cpu().numpy())
        return tuple(np.concatenate(parts, axis=1))

    def _of_kind(self, layers: torch.Tensor, kind: str, in_sentence: bool) -> torch.Tensor:
        if self._model is None:
            return own_vectors(layers)
        if kind == "baseline":
            return self._model.own(layers)
        if kind == "meaning" and in_sentence:
            return self._model.in_sentence(layers)
        distiller = self._model.meaning if kind == "meaning" else self._model.context
        vectors: torch.Tensor = distiller(self._model.layers(layers), None)
        return vectors

    def words(
        self, items: Iterable[tuple[str, Span]], kinds: Sequence[str], batch_size: int | None
    ) -> Iterator[tuple[Vectors, ...]]:
        """Yield vectors (N, D) of each kind for some items at a time; ItemError follows those before a bad item."""
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        remaining, done = iter(items), 0
        while some := list(itertools.islice(remaining, _TEXTS_AT_ONCE)):
            problem = next(filter(None, map(problem_of, itertools.count(done), some)), None)
            good = some[: problem.index - done] if problem else some
            texts, spans = [text for text, _ in good], [span for _, span in good]
            states, reasons = self._backbone.states(texts, spans, batch_size)
            numbered = enumerate(reasons)
            unread = (item_error(done + n, *good[n], reason) for n, reason in numbered if reason is not None)
            problem = next(unread, problem)
            before = states[: problem.index - done] if problem else states
            if len(before):
                yield self.distil(before, kinds)
            if problem:
                raise problem
            done += len(some)

    def sentences(
        self, texts: Iterable[str], kinds: Sequence[str], unread: list[int] | None = None
    ) -> Iterator[tuple[Vectors, ...]]:
        """Yield vectors of texts; one without word pieces is an error or, given `unread`, gets zeros and is listed."""
        remaining, done = iter(texts), 0
        while some := list(itertools.islice(remaining, _SENTENCES_AT_ONCE)):
            for index, text in enumerate(some, done):
                check_text(index, text)
            of_texts = list(self._backbone.piece_states(some))
            counts = np.array([len(states) for states in of_texts])
            without = [done + int(number) for number in np.flatnonzero(counts == 0)]
            if without and unread is None:
                raise EmptyTextError(without[0], NOTHING_READ)
            vectors = self.distil(np.concatenate(of_texts), kinds, in_sentence=True)
            yield tuple(means(part, counts) for part in vectors)
            if unread is not None:
                unread += without
            done += len(some)

    def collected(self, parts: Iterable[tuple[Vectors, ...]], kinds: Sequence[str]) -> list[Vectors]:
        """Return all vectors of each kind."""
        made = list(parts)  # not in the call below: CPython 3.11 leaks memory if an unpacked iterator raises there
        collected = list(zip(*made, strict=True))
        nothing = np.zeros((0, self._backbone.dimension), np.float32)
        return [np.concatenate(part) for part in collected] or [nothing] * len(kinds)


def answer(kinds: list[Any]) -> Any:
    """Return the vectors of one kind, or a pair of meaning and context."""
    return kinds[0] if len(kinds) == 1 else Distilled(*kinds)
