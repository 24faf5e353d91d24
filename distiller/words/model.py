"""The two distillers, which extract a word's meaning and its context from a frozen model's layer states.

Shapes: M members of a row, B rows, N words, L layers, H heads, D dimensions. States are (..., L, D). In training they
are (M, B, L, D): the original, the positive and the negative of each row go through the distillers together.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import gelu

_BLOCK = 16  # rows whose masks come from one generator, so that a worker draws little more than it needs
_STEPS = 1 << 16  # dropout draws 16 bits per value, four values at a time: several times cheaper than one at a time


class Distilled(NamedTuple):
    """The meaning and context vectors of words, each (..., D)."""

    meaning: torch.Tensor
    context: torch.Tensor


class DistilledWithSentence(NamedTuple):
    """The meaning and context vectors of words, and those whose mean is the vector of a whole text, each (..., D)."""

    meaning: torch.Tensor
    context: torch.Tensor
    in_sentence: torch.Tensor


@dataclass(frozen=True)
class TrainingPosition:
    """The position of a call's rows in a training: they start at `first_row` of the `rows` of the batch of `step`.

    Dropout depends on this alone, so it is the same however the batch is divided among workers, and after a restart.
    """

    seed: int
    step: int
    first_row: int = 0
    rows: int = 0
    """How many rows the whole batch has, those of all workers together."""


class StatelessDropout(nn.Module):
    """Dropout whose masks depend on the position in the model and in the training, not on any random state.

    Values are (M, B, ...). The masks of a row do not depend on the other rows of the call.
    """

    def __init__(self, share: float, name: str) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, not {share}")
        self.name = name
        self.dropped = round(share * _STEPS)

    def forward(self, values: torch.Tensor, position: TrainingPosition | None) -> torch.Tensor:
        """Drop a share of the values and scale up the others; in evaluation, return the values unchanged."""
        if not self.training or self.dropped == 0:
            return values
        if position is None:
            raise ValueError("dropout depends on the position in the training; give `position`, or call eval() first")
        return values * self._kept(values, position) * (_STEPS / (_STEPS - self.dropped))

    def _kept(self, values: torch.Tensor, position: TrainingPosition) -> torch.Tensor:
        members, rows, *shape = values.shape
        first, stop = position.first_row, position.first_row + rows
        blocks = range(first // _BLOCK, math.ceil(stop / _BLOCK))
        size = _BLOCK * members * math.prod(shape)
        draws = torch.empty(len(blocks), size // 4, dtype=torch.int64, device=values.device)
        generator = torch.Generator(values.device)
        for block, part in zip(blocks, draws, strict=True):
            generator.manual_seed(_hash(position.seed, position.step, self.name, block))
            part.random_(-(2**63), None, generator=generator)
        kept = draws.view(torch.int16) >= self.dropped - _STEPS // 2
        offset = first - blocks.start * _BLOCK
        return kept.view(len(blocks) * _BLOCK, members, *shape)[offset : offset + rows].transpose(0, 1)


class LayerAttention(nn.Module):
    """Multi-head attention of each layer of a word to all its layers."""

    def __init__(self, dimension: int, heads: int, dropout: float, name: str) -> None:
        super().__init__()
        check_heads(dimension, heads)
        self.heads = heads
        self.query_key_value = nn.Linear(dimension, 3 * dimension)
        self.output = nn.Linear(dimension, dimension)
        self.dropout = StatelessDropout(dropout, f"{name}.weights")
        nn.init.xavier_uniform_(self.query_key_value.weight)
        nn.init.zeros_(self.query_key_value.bias)
        nn.init.zeros_(self.output.bias)

    def forward(self, states: torch.Tensor, position: TrainingPosition | None) -> torch.Tensor:
        """Attend over the layers. With a dozen layers at most, weights are small and need no fused kernel."""
        weights, values = self.weights(states)
        weights = self.dropout(weights, position)
        attended: torch.Tensor = self.output((weights @ values).transpose(-3, -2).flatten(-2))
        return attended

    def weights(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the attention of each layer to each layer, (..., H, L, L), and the values that it weights."""
        split = self.query_key_value(states).unflatten(-1, (3, self.heads, -1))  # (..., L, 3, H, D / H)
        query, key, values = split.transpose(-4, -2).unbind(-3)  # each (..., H, L, D / H)
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        return scores.softmax(-1), values


class Distiller(nn.Module):
    """One transformer encoder layer over the layer axis, then the mean over the layers.

    It uses post-norm and GELU, as in the paper. In evaluation it computes what `nn.TransformerEncoderLayer` does.
    """

    def __init__(self, dimension: int, heads: int, dropout: float, name: str) -> None:
        super().__init__()
        self.attention = LayerAttention(dimension, heads, dropout, f"{name}.attention")
        self.attention_dropout = StatelessDropout(dropout, f"{name}.attention")
        self.attention_norm = nn.LayerNorm(dimension)
        self.expand = nn.Linear(dimension, 4 * dimension)
        self.expand_dropout = StatelessDropout(dropout, f"{name}.expand")
        self.contract = nn.Linear(4 * dimension, dimension)
        self.contract_dropout = StatelessDropout(dropout, f"{name}.contract")
        self.contract_norm = nn.LayerNorm(dimension)

    def forward(self, states: torch.Tensor, position: TrainingPosition | None) -> torch.Tensor:
        """Distil states (..., L, D) into vectors (..., D)."""
        attended = self.attention_dropout(self.attention(states, position), position)
        states = self.attention_norm(states + attended)
        expanded = self.expand_dropout(gelu(self.expand(states)), position)
        contracted = self.contract_dropout(self.contract(expanded), position)
        distilled: torch.Tensor = self.contract_norm(states + contracted)
        return distilled.mean(-2)


class StandardLayers(nn.Module):
    """A scaling to mean 0 and deviation 1 in each dimension of each layer, over the words it was fitted to.

    A frozen model's states share a large part that says nothing about a word; it is larger in some dimensions.
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, layers: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(layers, dimension))
        self.register_buffer("deviation", torch.ones(layers, dimension))

    def fit(self, states: torch.Tensor) -> None:
        """Fit the scaling to the states (N, L, D) of some words."""
        self.mean.copy_(states.mean(0))
        self.deviation.copy_(states.std(0, correction=0).clamp_min(1e-6))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Standardise states (..., L, D)."""
        return (states - self.mean) / self.deviation


class Distillers(nn.Module):
    """The base of word models: a distiller of meaning and one of context over the same layers.

    Subclasses set `layers`, which prepares the states, and the two distillers, which turn them into vectors.
    """

    dimension: int
    layers: nn.Module
    meaning: nn.Module
    context: nn.Module

    def forward(
        self, states: torch.Tensor, position: TrainingPosition | None = None
    ) -> Distilled | DistilledWithSentence:
        """Return the vectors of each word. Training needs `position` and states (M, B, L, D)."""
        states = self.layers(states.to(next(self.parameters()).dtype))
        return Distilled(self.meaning(states, position), self.context(states, position))

    def in_sentence(self, states: torch.Tensor) -> torch.Tensor:
        """Return the vectors (..., D) whose mean over all pieces of a text is its meaning vector."""
        vectors: torch.Tensor = self.meaning(self.layers(states), None)
        return vectors

    def own(self, states: torch.Tensor) -> torch.Tensor:
        """Return the frozen model's own vector of each word, (..., D): the vector that the distillers improve."""
        return own_vectors(states)


class WordModel(Distillers):
    """The paper's distillers, transformers over the layers, initialised from `seed` alone.

    `standardised` is the number of layers if they are standardised first, otherwise None.
    """

    meaning: Distiller
    context: Distiller

    def __init__(
        self, dimension: int, heads: int = 8, dropout: float = 0.1, seed: int = 0, standardised: int | None = None
    ) -> None:
        super().__init__()
        self.dimension = dimension
        self.layers = StandardLayers(standardised, dimension) if standardised else nn.Identity()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.meaning = Distiller(dimension, heads, dropout, "meaning")
            self.context = Distiller(dimension, heads, dropout, "context")

    def rebuilt(self, states: torch.Tensor) -> torch.Tensor:
        """Return the target of the reconstruction, (..., D): the mean of the layers as the distillers receive them."""
        return own_vectors(self.layers(states.float()))


def check_heads(dimension: int, heads: int) -> None:
    """Raise ValueError unless the heads can share the dimensions evenly."""
    if dimension % heads:
        possible = ", ".join(str(n) for n in range(1, min(dimension, 32) + 1) if dimension % n == 0)
        raise ValueError(f"{heads} heads cannot share {dimension} dimensions evenly; choose heads from {possible}")


def own_vectors(states: torch.Tensor) -> torch.Tensor:
    """Return the backbone's own vector of each word, the mean of its layers: (..., D) in single precision."""
    return states.float().mean(-2)


def _hash(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")
