"""Training objectives: the words, model and losses that each one uses, and how it scores held-out rows.

Shapes: M members of a row, B rows, L layers, D dimensions, T terms of the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

import torch

from corpusgen.config.plugins import find_part
from corpusgen.errors import ConfigError
from corpusgen.store import Store
from corpusgen.store.products import BOTH, Product, product_of, products_of
from distiller.settings import TrainSettings
from distiller.words.contrast import Contrast
from distiller.words.judging import FIGURES, Forward, Judged
from distiller.words.model import Distillers, TrainingPosition
from distiller.words.reconstruct import Reconstruct
from distiller.words.row_facts import BatchFacts

__all__ = ["FIGURES", "Contrast", "Forward", "Judged", "Objective", "Reconstruct", "check_fits", "objective_of"]


class Objective(Protocol):
    """The task of a training: its words of a row, its model, its losses and its figures.

    `members` are the words it needs, by their names or roles, in the order of the first axis of `states` (M, B, L, D).
    `facts` tell which word each of the B rows is about, and which members it has. DDP wraps `model`. An objective may
    have class variables `optional`, the members that a corpus, or a row, may lack, and `stops_by`, the terms whose sum
    on held-out rows decides which weights are best (by default all), and a method `settle`, with the parameters of
    `prepare`, which fits to held-out rows before each validation what depends on the trained weights.

    If it has optional members, no sentence of a held-out row is trained on: rows that share an optional member's
    sentence with one go without that member, and rows that share another one are left out.
    """

    name: ClassVar[str]
    members: ClassVar[tuple[str, ...]]

    def __init__(self, settings: TrainSettings) -> None: ...

    @property
    def term_names(self) -> tuple[str, ...]:
        """Return the names of the terms of the loss, T of them."""
        ...

    def new_model(self, layers: int, dimension: int) -> Distillers:
        """Return an untrained model for so many layers."""
        ...

    def prepare(self, model: Distillers, some_states: Callable[[], torch.Tensor]) -> None:
        """Fit what is fitted before training to `some_states`, which returns (M, B, L, D)."""
        ...

    def losses(
        self, call: Forward, model: Distillers, states: torch.Tensor, facts: BatchFacts, position: TrainingPosition,
        weight: float,
    ) -> torch.Tensor:  # fmt: skip
        """Return the loss of each term of a step, (T,). `call` is the model, which DDP may wrap."""
        ...

    def judge(self, model: Distillers, states: torch.Tensor, facts: BatchFacts) -> Judged:
        """Return sums over all rows but the first, which serves only as the unrelated neighbour of the second."""
        ...


OBJECTIVES: dict[str, type[Objective]] = {Reconstruct.name: Reconstruct, Contrast.name: Contrast}


def objective_of(settings: TrainSettings) -> Objective:
    """Return the objective that the settings name; raise ConfigError if it does not exist."""
    return _class_of(settings)(settings)


def products_for(settings: TrainSettings, corpus: Store) -> list[Product]:
    """Return the tables of a corpus to train on: those that the settings name, or the one that fits best.

    They are in the order of the corpus, so that `triples+pairs` and `pairs+triples` are the same training.
    """
    products = products_of(corpus)
    if settings.table is not None:
        named = [product_of(corpus, name) for name in settings.table.split(BOTH)]
        return [product for product in products if product in named]
    members = _class_of(settings).members
    return [max(products, key=lambda product: sum(name in product.roles for name in members))]


def check_fits(settings: TrainSettings, product: Product) -> None:
    """Raise ConfigError unless the corpus has what the objective needs."""
    corpus = f"{settings.corpus} was made with the recipe {product.recipe!r}"
    kind = _class_of(settings)
    needed = [name for name in kind.members if name not in getattr(kind, "optional", ())]
    if missing := [name for name in needed if name not in product.roles]:
        raise ConfigError(
            f"objective: {settings.objective} needs {', '.join(missing)} in each row, but {corpus}, whose rows have "
            f"{', '.join(member.name for member in product.members) or 'no words to compare'}"
        )
    if "negative" in needed and product.negative_in not in ("original", "positive"):
        raise ConfigError(
            f"objective: {settings.objective} needs a negative in the sentence of the original, but {corpus}, whose "
            f"negatives stand in {product.negative_in}; set objective to contrast, or use another corpus"
        )
    across = product.negative_in == "positive"
    if settings.crosslingual != across:
        raise ConfigError(
            f"crosslingual: {str(settings.crosslingual).lower()}, but {corpus}, whose negatives are in the sentence "
            f"of the {product.negative_in}; set crosslingual to {str(across).lower()}, or use another corpus"
        )


def _class_of(settings: TrainSettings) -> type[Objective]:
    found: type[Objective] = find_part(settings.objective, OBJECTIVES, type, "objective")
    return found
