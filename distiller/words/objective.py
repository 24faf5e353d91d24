"""Training objectives: the words, model and losses that each one uses, and how it scores held-out rows.

Shapes: M members of a row, B rows, L layers, D dimensions, T terms of the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

import torch
from torch.nn.functional import cosine_similarity

from corpusgen.config.plugins import find_part
from corpusgen.errors import ConfigError
from corpusgen.store.products import Product
from distiller.settings import TrainSettings
from distiller.words.losses import NEGATIVE, ORIGINAL, POSITIVE, Term, term_losses, terms_of
from distiller.words.model import Distilled, StandardLayers, TrainingPlace, WordModel

Forward = Callable[[torch.Tensor, TrainingPlace], Distilled]
FIGURES = ("cosine_positive", "cosine_negative", "ordered", "cosine_unrelated")
"""The figures of held-out rows besides the loss: mean cosines, and the share of rows in the right order."""


class Objective(Protocol):
    """The task of a training: its words of a row, its model, its losses and its figures.

    `members` are the words it needs, in the order of the first axis of `states` (M, B, L, D). DDP wraps `model`.
    """

    name: ClassVar[str]
    members: ClassVar[tuple[str, ...]]

    def __init__(self, settings: TrainSettings) -> None: ...

    @property
    def term_names(self) -> tuple[str, ...]:
        """Return the names of the terms of the loss, T of them."""
        ...

    def new_model(self, dimension: int, some_states: Callable[[], torch.Tensor]) -> WordModel:
        """Return an untrained model; it may be fitted to `some_states`, which returns (M, B, L, D)."""
        ...

    def losses(
        self,
        call: Forward,
        model: WordModel,
        states: torch.Tensor,
        place: TrainingPlace,
        weight: float,
    ) -> torch.Tensor:
        """Return the loss of each term of a step, (T,). `call` is the model, which DDP may wrap."""
        ...

    def judge(self, model: WordModel, states: torch.Tensor) -> torch.Tensor:
        """Return sums over all rows but the first: the terms of the loss, then FIGURES, (T + 4,).

        The first row serves only as the unrelated neighbour of the second.
        """
        ...


class Reconstruct:
    """The paper's objective: the meaning of one word and the context of another rebuild a third."""

    name: ClassVar[str] = "reconstruct"
    members: ClassVar[tuple[str, ...]] = ("original", "positive", "negative")

    def __init__(self, settings: TrainSettings) -> None:
        self._settings = settings
        self.terms: tuple[Term, ...] = terms_of(negatives=settings.negatives, crosslingual=settings.crosslingual)

    @property
    def term_names(self) -> tuple[str, ...]:
        """Return the names of the terms of the loss, T of them."""
        return tuple(term.name for term in self.terms)

    def new_model(self, dimension: int, some_states: Callable[[], torch.Tensor]) -> WordModel:
        """Return two untrained distillers; the settings decide whether their layers are standardised."""
        shape = dimension, self._settings.heads, self._settings.dropout, self._settings.seed
        if not self._settings.standardise:
            return WordModel(*shape)
        originals = some_states()[ORIGINAL]
        model = WordModel(*shape, standardised=originals.shape[1])
        assert isinstance(model.layers, StandardLayers)
        model.layers.fit(originals)
        return model

    def losses(
        self,
        call: Forward,
        model: WordModel,
        states: torch.Tensor,
        place: TrainingPlace,
        weight: float,
    ) -> torch.Tensor:
        """Return the loss of each term of a step, (T,)."""
        distilled = Distilled(*(vectors.float() for vectors in call(states, place)))
        return term_losses(distilled, model.rebuilt(states), self.terms, weight)

    def judge(self, model: WordModel, states: torch.Tensor) -> torch.Tensor:
        """Return sums over all rows but the first, (T + 4,)."""
        distilled = model(states)
        before = distilled.meaning[ORIGINAL, :-1]
        distilled = Distilled(*(vectors[:, 1:] for vectors in distilled))
        losses = term_losses(distilled, model.rebuilt(states[:, 1:]), self.terms, weight=1.0)
        meaning = distilled.meaning
        positive = cosine_similarity(meaning[ORIGINAL], meaning[POSITIVE], dim=-1)
        negative = cosine_similarity(meaning[ORIGINAL], meaning[NEGATIVE], dim=-1)
        unrelated = cosine_similarity(meaning[ORIGINAL], before, dim=-1)
        figures = torch.stack([positive, negative, (positive > negative).float(), unrelated]).double().sum(-1)
        return torch.cat([losses.double(), figures])


OBJECTIVES: dict[str, type[Objective]] = {Reconstruct.name: Reconstruct}


def objective_of(settings: TrainSettings) -> Objective:
    """Return the objective that the settings name; raise ConfigError if it does not exist."""
    return _class_of(settings)(settings)


def check_fits(settings: TrainSettings, product: Product) -> None:
    """Raise ConfigError unless the corpus has what the objective needs."""
    corpus = f"{settings.corpus} was made by the recipe {product.recipe!r}"
    found = tuple(member.name for member in product.members)
    members = _class_of(settings).members
    if missing := [name for name in members if name not in found]:
        raise ConfigError(
            f"objective: {settings.objective} needs {', '.join(missing)} in each row, but {corpus}, whose rows have "
            f"{', '.join(found)}"
        )
    across = product.negative_in == "positive"
    if settings.crosslingual != across:
        raise ConfigError(
            f"crosslingual: {str(settings.crosslingual).lower()}, but {corpus}, whose negatives stand in the sentence "
            f"of the {product.negative_in}; set crosslingual to {str(across).lower()}, or give another corpus"
        )


def _class_of(settings: TrainSettings) -> type[Objective]:
    found: type[Objective] = find_part(settings.objective, OBJECTIVES, type, "objective")
    return found
