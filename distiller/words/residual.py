"""Distillers that start at the frozen model: its own vector plus a correction that is zero before training.

Shapes: M members of a row, B rows, L layers, D dimensions. States are (..., L, D).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.nn.functional import cosine_similarity

from distiller.words.model import DistilledWithSentence, Distiller, Distillers, TrainingPosition, own_vectors

Head = Literal["linear", "transformer"]

_HALVINGS = 8  # strengths are multiples of 1/256: finer than any difference they make


class LayerMaps(nn.Module):
    """A linear map of each layer; their sum is the correction."""

    def __init__(self, layers: int, dimension: int) -> None:
        super().__init__()
        self.maps = nn.Parameter(torch.zeros(layers * dimension, dimension))

    def forward(self, states: torch.Tensor, position: TrainingPosition | None) -> torch.Tensor:
        """Return the corrections, (..., D)."""
        return states.flatten(-2) @ self.maps


class SharedMap(nn.Module):
    """One linear map for all layers; the sum over them is the correction."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.map = nn.Parameter(torch.zeros(dimension, dimension))

    def forward(self, states: torch.Tensor, position: TrainingPosition | None) -> torch.Tensor:
        """Return the corrections, (..., D)."""
        return states.sum(-2) @ self.map


class LayerTransformer(nn.Module):
    """A transformer over the layers, as in the paper, whose output passes a linear map that starts at zero."""

    def __init__(self, dimension: int, heads: int, dropout: float, name: str) -> None:
        super().__init__()
        self.distiller = Distiller(dimension, heads, dropout, name)
        self.output = nn.Linear(dimension, dimension, bias=False)
        nn.init.zeros_(self.output.weight)

    def forward(self, states: torch.Tensor, position: TrainingPosition | None) -> torch.Tensor:
        """Return the corrections, (..., D)."""
        corrections: torch.Tensor = self.output(self.distiller(states, position))
        return corrections


class ResidualDistiller(nn.Module):
    """The mean of the top layers plus a correction learnt from all layers.

    The correction sees how a word differs from the mean of all words. Otherwise the easiest thing to learn is to
    remove what all words share, which tells words apart but costs sentences much: it is most of what a sentence's
    vector says.

    Training adds the whole correction. In use it is multiplied by `strength`: a vector between the frozen model's and
    the trained one keeps more of what the frozen model knows.
    """

    mean: torch.Tensor
    strength: torch.Tensor

    def __init__(self, correction: nn.Module, layers: int, dimension: int, base_layers: int) -> None:
        super().__init__()
        self.correction = correction
        self.base_layers = base_layers
        self.register_buffer("mean", torch.zeros(layers, dimension))
        self.register_buffer("strength", torch.tensor(1.0))

    def forward(self, states: torch.Tensor, position: TrainingPosition | None) -> torch.Tensor:
        """Distil states (..., L, D) into vectors (..., D)."""
        own, correction = self.parts(states, position)
        return own + (correction if self.training else self.strength * correction)

    def parts(
        self, states: torch.Tensor, position: TrainingPosition | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the frozen model's own vectors and their whole corrections, each (..., D)."""
        correction: torch.Tensor = self.correction(states.to(self.mean.dtype) - self.mean, position)
        # Mixed precision makes corrections coarse; beside them, the frozen vector keeps its precision.
        return own_vectors(states[..., -self.base_layers :, :]), correction.float()


class ResidualModel(Distillers):
    """Distillers of meaning and context that start at the frozen model, initialised from `seed` alone.

    `base_layers` is how many of the topmost layers the frozen model's own vector is the mean of. What tells uses of a
    word apart blurs the mean of a sentence's words, so these have a correction of their own, `sentence`: one map, since
    the base already knows sentences best. Models of earlier versions have none, and take the mean of meaning vectors.
    """

    meaning: ResidualDistiller
    context: ResidualDistiller
    sentence: ResidualDistiller | None

    def __init__(
        self,
        layers: int,
        dimension: int,
        base_layers: int,
        head: Head = "linear",
        heads: int = 8,
        dropout: float = 0.1,
        seed: int = 0,
        with_sentence: bool = True,
    ) -> None:
        super().__init__()
        if not 0 < base_layers <= layers:
            raise ValueError(f"the base cannot be the top {base_layers} of {layers} layers")
        self.dimension = dimension
        self.layers = nn.Identity()
        self.base_layers = base_layers

        def correction(name: str) -> nn.Module:
            return (
                LayerMaps(layers, dimension) if head == "linear" else LayerTransformer(dimension, heads, dropout, name)
            )

        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.meaning = ResidualDistiller(correction("meaning"), layers, dimension, base_layers)
            self.context = ResidualDistiller(correction("context"), layers, dimension, base_layers)
        self.sentence = (
            ResidualDistiller(SharedMap(dimension), base_layers, dimension, base_layers) if with_sentence else None
        )

    def forward(self, states: torch.Tensor, position: TrainingPosition | None = None) -> DistilledWithSentence:
        """Return the vectors of each word. Training needs `position` and states (M, B, L, D)."""
        meaning = self.meaning(states, position)
        in_sentence = meaning if self.sentence is None else self.sentence(self._base(states), position)
        return DistilledWithSentence(meaning, self.context(states, position), in_sentence)

    def in_sentence(self, states: torch.Tensor) -> torch.Tensor:
        """Return the vectors (..., D) whose mean over all pieces of a text is its meaning vector."""
        if self.sentence is None:
            return super().in_sentence(states)
        vectors: torch.Tensor = self.sentence(self._base(states), None)
        return vectors

    def fit(self, states: torch.Tensor) -> None:
        """Fit the mean of all words to the states (N, L, D) of some."""
        mean = states.float().mean(0)
        self.meaning.mean.copy_(mean)
        self.context.mean.copy_(mean)
        if self.sentence is not None:
            self.sentence.mean.copy_(self._base(mean))

    def own(self, states: torch.Tensor) -> torch.Tensor:
        """Return the frozen model's own vector of each word, (..., D): the mean of its top layers."""
        return own_vectors(self._base(states))

    def _base(self, states: torch.Tensor) -> torch.Tensor:
        return states[..., -self.base_layers :, :]


def strongest(own: torch.Tensor, correction: torch.Tensor, kept: float) -> float:
    """Return the largest strength, up to 1, at which vectors still follow their contexts as the frozen model's do.

    Vectors are (2, B, D): B words, each in two contexts. Two words have a similarity in their first contexts and
    another one in their second; `kept` is how far the changes of similarity must correlate with the frozen ones.
    """
    far = max(1, own.shape[1] // 2)  # neighbours may share a document, or even a sentence

    def changes(vectors: torch.Tensor) -> torch.Tensor:
        similarities = cosine_similarity(vectors, vectors.roll(far, 1), dim=-1)
        return similarities[0] - similarities[1]

    def correlation(strength: float) -> float:
        both = torch.stack([changes(own), changes(own + strength * correction)])
        return float(torch.corrcoef(both.double())[0, 1])

    if not correlation(1.0) < kept:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if correlation(middle) < kept else (middle, high)
    return low
