"""Recipes: which passes make a corpus, and which table comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from corpusgen.config.build import BuildConfig
from corpusgen.engine import Pass, Stage
from corpusgen.engine.parts import PartRecord, part_records
from corpusgen.errors import ConfigError
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import BOTH, Product
from corpusgen.store.records import Reads, hash_of_parts


@dataclass(frozen=True)
class PassRecipe:
    """How to make one pass from the settings.

    `stages` returns its stages without reading any input; `plan` returns the pass over them. `reads` names the tables
    that the pass is planned from; None for a pass that reads the source. `stage_classes` are all stages that the pass
    may have, whose workers can be set.
    """

    stages: Callable[[BuildConfig, Store], list[Stage]]
    plan: Callable[[BuildConfig, Store, list[Stage]], Pass]
    reads: Reads | None = None
    stage_classes: tuple[type[Stage], ...] = ()

    def make(self, config: BuildConfig, store: Store) -> Pass:
        """Return the pass, planned over what is committed now."""
        return self.plan(config, store, self.stages(config, store))


@dataclass(frozen=True)
class Recipe:
    """A kind of corpus: its passes in order, and its final table.

    `complete_for` returns the passes that the settings are complete for. It raises ConfigError if a pass has only half
    of its settings, before any time is spent.
    """

    product: Product
    passes: Mapping[str, PassRecipe]
    complete_for: Callable[[BuildConfig], Sequence[str]]
    others: tuple[Product, ...] = ()
    """The products of the other recipes, if one build follows several."""

    @property
    def name(self) -> str:
        """Return the name of the recipe in corpus.json."""
        return BOTH.join(product.recipe for product in self.products)

    @property
    def products(self) -> tuple[Product, ...]:
        """Return all final tables."""
        return (self.product, *self.others)

    @property
    def reads(self) -> dict[str, Reads]:
        """Return the tables that each pass but the first is planned from."""
        return {name: found.reads for name, found in self.passes.items() if found.reads}


def together(recipes: Sequence[Recipe]) -> Recipe:
    """Return one recipe that makes the products of all of them; passes with the same name are shared."""
    if len(recipes) == 1:
        return recipes[0]
    passes: dict[str, PassRecipe] = {}
    for recipe in recipes:
        for name, found in recipe.passes.items():
            if passes.setdefault(name, found) != found:
                both = " and ".join(one.name for one in recipes if name in one.passes)
                raise ConfigError(f"recipe: {both} each define their own pass {name!r}; build them in two stores")

    def complete_for(config: BuildConfig) -> Sequence[str]:
        complete = {name for recipe in recipes for name in recipe.complete_for(config)}
        return [name for name in passes if name in complete]

    products = [product for recipe in recipes for product in recipe.products]
    return Recipe(products[0], passes, complete_for, tuple(products[1:]))


def parts_of(reads: Reads, store: Store) -> list[PartRecord]:
    """Return the parts that a pass is planned over."""
    return part_records(CommittedTable(store, *reads.parts, finished=True))


def with_whole(reads: Reads, groups: list[list[PartRecord]], store: Store) -> list[list[PartRecord]]:
    """Make the ids of units depend on a table that each unit reads as a whole."""
    assert reads.whole
    together = hash_of_parts(CommittedTable(store, *reads.whole, finished=True).parts)
    return [[{**record, "with": together} for record in group] for group in groups]
