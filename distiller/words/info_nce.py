"""The contrast of pairs: two occurrences with one meaning are nearer to each other than to anything else in the batch.

Shapes: M members of a row, B rows of the whole batch, D dimensions, T terms of the loss.
"""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch.nn.functional import normalize

from distiller.words.model import TrainingPosition
from distiller.words.row_facts import BatchFacts

_NEVER = -1e4  # a logit that no other competes with; -inf would give NaN gradients


def gathered(values: torch.Tensor, position: TrainingPosition, dim: int) -> torch.Tensor:
    """Return the values of all workers' rows in the order of the batch; only those of this worker have gradients.

    Every worker then computes the loss of the whole batch. Its gradient with respect to the worker's own rows, summed
    over the workers, is that of one worker with all rows.
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return values
    workers, rank = dist.get_world_size(), dist.get_rank()
    sizes = [position.rows * (n + 1) // workers - position.rows * n // workers for n in range(workers)]
    mine = values.detach().movedim(dim, 0).contiguous()
    padded = mine.new_zeros(max(sizes), *mine.shape[1:])
    padded[: len(mine)] = mine
    parts = [torch.empty_like(padded) for _ in range(workers)]
    dist.all_gather(parts, padded)
    whole = [part[:size].movedim(0, dim) for part, size in zip(parts, sizes, strict=True)]
    whole[rank] = values
    return torch.cat(whole, dim)


def for_all_workers(loss: torch.Tensor) -> torch.Tensor:
    """Return a loss of the whole batch with the gradient that DDP, which averages over workers, must be given."""
    workers = dist.get_world_size() if dist.is_initialized() else 1
    return loss.detach() + workers * (loss - loss.detach())


def info_nce(
    one: torch.Tensor,
    other: torch.Tensor,
    hard: torch.Tensor,
    has_hard: torch.Tensor,
    is_same: torch.Tensor,
    temperature: float,
    weight: float,
    has_partner: torch.Tensor | None = None,
    also: torch.Tensor | None = None,
    also_share: float = 0.0,
) -> torch.Tensor:
    """Return the mean loss of telling each row's partner among the others of the batch, in both directions.

    Vectors are (B, D). Rows that `is_same` (B, B) marks are left out of each other's choices. The `hard` negative of a
    row, where it has one, counts like `weight` others. Rows that have no partner, (B,), take no part. Others may be
    right to some degree, too: the softmax of the logits `also` (B, B) says which, and `also_share` how much of the
    answer they are.
    """
    one, other, hard = (normalize(vectors, dim=-1) for vectors in (one, other, hard))
    if has_partner is not None:
        is_same = is_same | ~(has_partner[:, None] & has_partner[None])
    cosines = (one @ other.mT / temperature).masked_fill(is_same, _NEVER)
    losses = []
    for logits, side, right in ((cosines, one, also), (cosines.mT, other, None if also is None else also.mT)):
        if weight > 0:
            extra = (side * hard).sum(-1) / temperature + math.log(weight)
            logits = torch.cat([logits, torch.where(has_hard, extra, _NEVER)[:, None]], 1)
        losses.append(_answered(logits.log_softmax(1)[:, : len(one)], is_same, right, also_share))
    both = (losses[0] + losses[1]) / 2
    if has_partner is None:
        return both.mean()
    return torch.where(has_partner, both, 0).sum() / has_partner.sum().clamp(min=1)


def _answered(
    log_shares: torch.Tensor, is_same: torch.Tensor, also: torch.Tensor | None, also_share: float
) -> torch.Tensor:
    """Return the loss of each row (B,) from the logarithms of the shares that it gives to its choices, (B, B)."""
    right = log_shares.diagonal()
    if also is None or also_share == 0:
        return -right
    excluded = is_same | torch.eye(len(is_same), dtype=torch.bool, device=is_same.device)
    shares = also_share * also.masked_fill(excluded, _NEVER).softmax(1).masked_fill(excluded, 0)
    return -(1 - shares.sum(1)) * right - (shares * log_shares.masked_fill(excluded, 0)).sum(1)


def others_of_same_word(facts: BatchFacts) -> torch.Tensor:
    """Return which rows (B, B) are about the same word as another one: they may mean the same."""
    return _equal(facts.word)


def others_of_same_sentence(facts: BatchFacts) -> torch.Tensor:
    """Return which rows (B, B) have the sentence of another one: their context is the same."""
    return _equal(facts.sentence)


def _equal(keys: torch.Tensor) -> torch.Tensor:
    same = keys[:, None] == keys[None]
    return same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)


def estimated_info_nce(
    positive: torch.Tensor,
    hard: torch.Tensor,
    has_hard: torch.Tensor,
    unrelated: torch.Tensor,
    temperature: float,
    weight: float,
    others: int,
) -> torch.Tensor:
    """Return the loss of each row (B,) from cosines (B,), as if one unrelated row stood for `others` of a batch.

    It depends on the row and its neighbour alone, so that held-out rows can be judged in any portions.
    """
    logits = [positive / temperature, unrelated / temperature + math.log(others)]
    if weight > 0:
        logits.append(torch.where(has_hard, hard / temperature + math.log(weight), _NEVER))
    stacked = torch.stack(logits, -1)
    return torch.logsumexp(stacked, -1) - stacked[..., 0]
