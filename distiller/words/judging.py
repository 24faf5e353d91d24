"""What objectives and the training loop tell each other: how to call a model, and figures of held-out rows.

Shapes: M members of a row, B rows, D dimensions, T terms of the loss, F figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn.functional import cosine_similarity

from distiller.words.model import Distilled, TrainingPosition

Forward = Callable[[torch.Tensor, TrainingPosition], Distilled]

FIGURES = ("cosine_positive", "cosine_negative", "cosine_unrelated", "ordered", "ordered_frozen")
"""The figures of held-out rows besides the loss: cosines of the original's meaning vector with others, and which rows
are in order, with the positive nearer than the negative, by meaning vectors and by the frozen model's own.

Rows whose order says nothing are not counted: the objective decides which.
"""


class Judged(NamedTuple):
    """Sums over held-out rows: the losses (T,), FIGURES (F,), and how many rows each of them counts (F,)."""

    losses: torch.Tensor
    figures: torch.Tensor
    counts: torch.Tensor

    @classmethod
    def of(cls, losses: torch.Tensor, figures: list[tuple[torch.Tensor, torch.Tensor | None]]) -> Judged:
        """Sum each figure's values (B,) over the rows that count, given by a mask (B,); None counts all."""
        values, counts = [], []
        for value, mask in figures:
            counted = torch.ones_like(value, dtype=torch.bool) if mask is None else mask
            values.append(value.double()[counted].sum())
            counts.append(counted.double().sum())
        return cls(losses.double(), torch.stack(values), torch.stack(counts))

    def __add__(self, other: object) -> Judged:
        assert isinstance(other, Judged)
        return Judged(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


def cosines_with(vectors: torch.Tensor, original: int, *others: int) -> list[torch.Tensor]:
    """Return the cosines of one member's vectors (M, B, D) with those of others, (B,) each."""
    return [cosine_similarity(vectors[original], vectors[other], dim=-1) for other in others]
