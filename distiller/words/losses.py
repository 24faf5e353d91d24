"""The terms of the training loss: each word is rebuilt from its own parts and from those of its counterparts.

Shapes: M members of a row, B rows, D dimensions, T terms of the loss.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from distiller.words.model import Distilled

ORIGINAL, POSITIVE, NEGATIVE = range(3)
"""The members of a triple, in the order of the axis M."""


class Term(NamedTuple):
    """A term of the loss: the `meaning` of one member and the `context` of another together rebuild the `target`."""

    name: str
    meaning: int
    context: int
    target: int


_PAIR = (
    Term("self_original", ORIGINAL, ORIGINAL, ORIGINAL),
    Term("self_positive", POSITIVE, POSITIVE, POSITIVE),
    Term("positive_by_meaning_of_original", ORIGINAL, POSITIVE, POSITIVE),
    Term("original_by_meaning_of_positive", POSITIVE, ORIGINAL, ORIGINAL),
)
_SELF_NEGATIVE = Term("self_negative", NEGATIVE, NEGATIVE, NEGATIVE)
_NEGATIVE = (
    _SELF_NEGATIVE,
    Term("negative_by_context_of_original", NEGATIVE, ORIGINAL, NEGATIVE),
    Term("original_by_context_of_negative", ORIGINAL, NEGATIVE, ORIGINAL),
)
_CROSSLINGUAL_NEGATIVE = (
    _SELF_NEGATIVE,
    Term("negative_by_context_of_positive", NEGATIVE, POSITIVE, NEGATIVE),
    Term("positive_by_context_of_negative", ORIGINAL, NEGATIVE, POSITIVE),
)


def terms_of(*, negatives: bool = True, crosslingual: bool = False) -> tuple[Term, ...]:
    """Return the terms of the loss, which training adds up unweighted.

    Original and positive share a meaning but not a context; original and negative share a context but not a
    meaning. So the meaning of one and the context of the other rebuild the word that has both: the seven terms of
    AK21. In a crosslingual corpus the negative is made from the translation and shares its context with the positive
    (AK24). Without negatives nothing keeps words apart, and meaning vectors collapse: the ablation of AK21.
    """
    if not negatives:
        return _PAIR
    return _PAIR + (_CROSSLINGUAL_NEGATIVE if crosslingual else _NEGATIVE)


def term_losses(
    distilled: Distilled,
    own: torch.Tensor,
    terms: tuple[Term, ...],
    weight: float | None = None,
    has: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the loss of each term, (T,): the mean squared error over D, summed over B, times `weight`.

    `distilled` and `own`, the mean of the layers, are (M, B, D). Without a weight the loss is the mean over the rows;
    a worker with a part of the batch passes `worker_weight`. A term is zero in rows that lack one of its members:
    `has`, (M, B), tells which members each row has; by default all.
    """
    rebuilt = [(distilled.meaning[term.meaning] + distilled.context[term.context]) / 2 for term in terms]
    targets = [own[term.target] for term in terms]
    errors = (torch.stack(rebuilt) - torch.stack(targets)).square().mean(-1)  # (T, B)
    if has is not None:
        errors = errors * torch.stack([has[[term.meaning, term.context, term.target]].all(0) for term in terms])
    return errors.mean(-1) if weight is None else errors.sum(-1) * weight


def worker_weight(workers: int, batch_size: int) -> float:
    """Return the weight of a row in the loss of one worker, when the gradients of all workers are averaged as by DDP.

    The average over workers is then the mean over the whole batch, even if their parts of it are unequal.
    """
    return workers / batch_size
