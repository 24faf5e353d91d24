"""The paper's objective: rebuild words from each other's meanings and contexts.

Shapes: M members of a row, B rows, L layers, D dimensions, T terms of the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch.nn.functional import cosine_similarity

from distiller.settings import TrainSettings
from distiller.words.judging import Forward, Judged, cosines_with
from distiller.words.losses import NEGATIVE, ORIGINAL, POSITIVE, Term, term_losses, terms_of
from distiller.words.model import Distilled, Distillers, StandardLayers, TrainingPosition, WordModel
from distiller.words.row_facts import BatchFacts


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

    def new_model(self, layers: int, dimension: int) -> WordModel:
        """Return two untrained distillers; the settings decide whether their layers are standardised."""
        settings = self._settings
        standardised = layers if settings.standardise else None
        return WordModel(dimension, settings.heads, settings.dropout, settings.seed, standardised)

    def prepare(self, model: Distillers, some_states: Callable[[], torch.Tensor]) -> None:
        """Fit the scaling of the layers, if there is one."""
        if isinstance(model.layers, StandardLayers):
            model.layers.fit(some_states()[ORIGINAL])

    def losses(
        self, call: Forward, model: Distillers, states: torch.Tensor, facts: BatchFacts, position: TrainingPosition,
        weight: float,
    ) -> torch.Tensor:  # fmt: skip
        """Return the loss of each term of a step, (T,)."""
        assert isinstance(model, WordModel)
        distilled = Distilled(*(vectors.float() for vectors in call(states, position)))
        return term_losses(distilled, model.rebuilt(states), self.terms, weight)

    def judge(self, model: Distillers, states: torch.Tensor, facts: BatchFacts) -> Judged:
        """Return sums over all rows but the first; the order of rows counts where the positive is another word."""
        assert isinstance(model, WordModel)
        distilled = model(states)
        before = distilled.meaning[ORIGINAL, :-1]
        distilled = Distilled(*(vectors[:, 1:] for vectors in distilled))
        losses = term_losses(distilled, model.rebuilt(states[:, 1:]), self.terms, weight=1.0)
        positive, negative = cosines_with(distilled.meaning, ORIGINAL, POSITIVE, NEGATIVE)
        frozen_positive, frozen_negative = cosines_with(model.own(states[:, 1:]), ORIGINAL, POSITIVE, NEGATIVE)
        unrelated = cosine_similarity(distilled.meaning[ORIGINAL], before, dim=-1)
        differs = facts.differs[1:]
        figures = [(positive, None), (negative, None), (unrelated, None)]
        return Judged.of(
            losses, [*figures, (positive > negative, differs), (frozen_positive > frozen_negative, differs)]
        )
