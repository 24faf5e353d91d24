"""The product of each recipe: the final table of a corpus, and the words that a row of it compares.

`corpus.json` names the recipe of a corpus. Code that reads the result (reports, exports, features, training) asks the
product of that recipe where the rows are and what is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from corpusgen.config.plugins import find_part
from corpusgen.errors import ConfigError, StoreError
from corpusgen.store.reader import CommittedTable
from corpusgen.store.store import Store

DEFAULT_RECIPE = "words"  # also for stores begun when there was no other


@dataclass(frozen=True)
class Member:
    """One word of a row: the columns with its sentence, and with its start and end in that sentence."""

    name: str
    text: str
    start: str
    end: str

    @property
    def columns(self) -> tuple[str, str, str]:
        """Return the names of the word's columns."""
        return self.text, self.start, self.end


@dataclass(frozen=True)
class Product:
    """The final table of a recipe.

    `positive` and `negative` explain to people how the words of a row relate to the original. `negative_in` is the
    member in whose sentence the negative stands.
    """

    recipe: str
    pass_name: str
    table: str
    rejects: str
    members: tuple[Member, ...]
    positive: str
    negative: str
    negative_in: str = "original"

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that training needs."""
        return ("id", *(column for member in self.members for column in member.columns))

    def only(self, names: Sequence[str]) -> Product:
        """Return the same table with these members, in this order."""
        by_name = {member.name: member for member in self.members}
        return replace(self, members=tuple(by_name[name] for name in names))

    def open(self, store: Store) -> CommittedTable:
        """Return the committed rows."""
        return CommittedTable(store, self.pass_name, self.table)

    def open_rejects(self, store: Store) -> CommittedTable:
        """Return the committed rejects, which did not become rows."""
        return CommittedTable(store, self.pass_name, self.rejects)


WORDS = Product(
    recipe=DEFAULT_RECIPE,
    pass_name="generate",
    table="triples",
    rejects="rejects",
    members=(
        Member("original", "text", "target_start", "target_end"),
        Member("positive", "positive", "positive_start", "positive_end"),
        Member("negative", "negative", "negative_start", "negative_end"),
    ),
    positive="the word that stands for the target in a paraphrase",
    negative="another word that fits into the same sentence",
)

PRODUCTS = {WORDS.recipe: WORDS}


def recipe_name(store: Store) -> str:
    """Return the name of the recipe that made a corpus."""
    name: str = store.corpus().get("recipe", DEFAULT_RECIPE)
    return name


def product_of(store: Store) -> Product:
    """Return the product of a corpus; raise ConfigError if its recipe belongs to a package not installed here."""
    setting = f"{store.url}/corpus.json: recipe"
    found = find_part(recipe_name(store), PRODUCTS, object, setting)
    product = getattr(found, "product", found)  # a plug-in is a recipe, which has a product
    if not isinstance(product, Product):
        raise ConfigError(f"{setting}: {recipe_name(store)} is not a recipe")
    return product


def open_product(root: str | Store) -> CommittedTable:
    """Return the final table of a corpus."""
    store = Store.at(root) if isinstance(root, str) else root
    return product_of(store).open(store)


def check_holds_triples(store: Store) -> None:
    """Raise StoreError if the recipe of a corpus does not make triples."""
    if (product := product_of(store)) is not WORDS:
        raise StoreError(f"{store.url} holds {product.table} of the recipe {product.recipe!r}, not triples")


class TripleStore(CommittedTable):
    """The triples of a corpus; StoreError if its recipe makes something else."""

    def __init__(self, root: str | Store) -> None:
        store = Store.at(root) if isinstance(root, str) else root
        check_holds_triples(store)
        super().__init__(store, WORDS.pass_name, WORDS.table)
