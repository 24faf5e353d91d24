"""The loss of dynamic skip-gram.

Shapes: N centres, C places of a window, K negatives, P pairs of a centre and a context, R words, d dimensions of words,
D those of the frozen model.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import embedding, softplus

from distiller.static.settings import SkipgramSettings

_PUBLISHED_GROUP = 5  # pairs, over which the published code takes its softmax


class Sums(NamedTuple):
    """The loss of a batch in two terms, and how many predictions the first one has."""

    targets: torch.Tensor
    negatives: torch.Tensor
    predictions: int


def new_map(settings: SkipgramSettings, dimension: int, generator: torch.Generator) -> nn.Linear:
    """Return the map from the frozen model's vectors (…, D) to vectors of centres (…, d)."""
    made = nn.Linear(dimension, settings.dimension, bias=bool(settings.bias))
    nn.init.xavier_uniform_(made.weight, generator=generator)
    if settings.bias:
        nn.init.zeros_(made.bias)
    return made


def sums(
    centres: torch.Tensor,
    words: torch.Tensor,
    contexts: torch.Tensor,
    present: torch.Tensor,
    negatives: torch.Tensor,
    settings: SkipgramSettings,
) -> Sums:
    """Return the loss of centres (N, d), summed.

    Args:
        centres: The mapped vectors of the centres, (N, d).
        words: The vectors of the words of the batch, (R, d).
        contexts: Which of the words are in each window, (N, C).
        present: Where a window has a word, (N, C).
        negatives: Which of the words are negatives of each centre, (N, K), or of each pair, (P, K).
        settings: The form of the loss.
    """
    # `embedding` adds gradients up in the same order every time; an index of a tensor does not on a CPU.
    scores = torch.einsum("nd,ncd->nc", centres, embedding(contexts, words))
    scale = 1 / math.sqrt(centres.shape[1]) if settings.scaled else 1.0
    if settings.attention == "pairs":
        predictions = _weighted_pairs(scores[present], scale)
    else:
        predictions = _attended(scores, present, scale, settings.attention == "window")
    owners = centres if settings.negatives_per == "centre" else embedding(present.nonzero()[:, 0], centres)
    against = torch.einsum("nd,nkd->nk", owners, embedding(negatives, words))
    return Sums(softplus(-predictions).sum(), softplus(against).sum(), predictions.numel())


def _attended(scores: torch.Tensor, present: torch.Tensor, scale: float, by_score: bool) -> torch.Tensor:
    """Return the score of each centre with the weighted mean of its window, (N,): the weighted mean of its scores."""
    logits = scale * scores if by_score else torch.zeros_like(scores)
    weights = logits.masked_fill(~present, -math.inf).softmax(dim=1)
    return (weights * scores).sum(dim=1)


def _weighted_pairs(scores: torch.Tensor, scale: float) -> torch.Tensor:
    """Return the weighted score of each pair, (P,): by a softmax over five pairs at a time, of any centres."""
    missing = -len(scores) % _PUBLISHED_GROUP
    logits = torch.cat([scale * scores, scores.new_full((missing,), -math.inf)])
    return logits.view(-1, _PUBLISHED_GROUP).softmax(dim=1).flatten()[: len(scores)] * scores
