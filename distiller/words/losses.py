"""The terms that training adds up: each word rebuilt from its own parts, and from the parts of its counterparts."""

from __future__ import annotations

from typing import NamedTuple

import torch

from distiller.words.model import Distilled

ORIGINAL, POSITIVE, NEGATIVE = range(3)
"""The members of a triple, in the order of the first axis of everything here."""


class Term(NamedTuple):
    """The `meaning` of one member and the `context` of another must together rebuild the `target`."""

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
    """The terms of a training, which are added up unweighted.

    Original and positive have one meaning and two contexts; original and negative one context and two meanings. So
    the meaning of one with the context of the other rebuilds the word that has both: the seven terms of AK21. In a
    crosslingual corpus the negative was made of the translation and shares its context with the positive (AK24).
    Without negatives nothing keeps words apart, and meaning vectors collapse: the ablation of AK21.
    """
    if not negatives:
        return _PAIR
    return _PAIR + (_CROSSLINGUAL_NEGATIVE if crosslingual else _NEGATIVE)


def term_losses(
    distilled: Distilled, own: torch.Tensor, terms: tuple[Term, ...], weight: float | None = None
) -> torch.Tensor:
    """The loss of each term, (terms,): the mean square error over dimensions, summed over rows, times `weight`.

    `distilled` and `own`, the mean of the layers, are (members, rows, dimension). By default the weight makes it the
    mean over the rows; a worker that has a part of the batch takes `worker_weight` instead.
    """
    rebuilt = [(distilled.meaning[term.meaning] + distilled.context[term.context]) / 2 for term in terms]
    targets = [own[term.target] for term in terms]
    errors = (torch.stack(rebuilt) - torch.stack(targets)).square().mean(-1)  # (terms, rows)
    return errors.mean(-1) if weight is None else errors.sum(-1) * weight


def worker_weight(workers: int, batch_size: int) -> float:
    """The weight of a row in the loss of one of several workers whose gradients are averaged, as DDP does.

    Then the average over workers is the mean over the whole batch, even if they have unequal parts of it.
    """
    return workers / batch_size
