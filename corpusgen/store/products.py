"""The product of each recipe: the final table of a corpus, and the words that a row of it compares.

`corpus.json` names the recipe of a corpus. Code that reads the result (reports, exports, features, training) asks the
product of that recipe where the rows are and what is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from corpusgen.config.plugins import find_part
from corpusgen.errors import ConfigError, StoreError
from corpusgen.store.reader import CommittedTable
from corpusgen.store.store import Store

DEFAULT_RECIPE = "words"  # also for stores begun when there was no other


@dataclass(frozen=True)
class Member:
    """One word of a row: the columns with its sentence, and with its start and end in that sentence.

    `word` is the column with the word itself, if the table has one. `scores` are columns with numbers about the word,
    each with a label for people. An `optional` member may be null. An `absent` one is null in every row: its columns
    are those of another member, whose values mean nothing for it.
    """

    name: str
    text: str
    start: str
    end: str
    word: str | None = None
    scores: tuple[tuple[str, str], ...] = ()
    optional: bool = False
    absent: bool = False

    @property
    def columns(self) -> tuple[str, str, str]:
        """Return the names of the word's columns."""
        return self.text, self.start, self.end


@dataclass(frozen=True)
class Product:
    """The final table of a recipe.

    `positive` and `negative` explain to people how the words of a row relate to the original. `negative_in` is the
    member in whose sentence the negative stands. `rejects` is the table of what did not become a row; empty if none
    is kept. Rows with equal values in the columns `same` say the same, in whatever order their sentences are; a merge
    keeps one of them. `kind` is the column by which rows are told apart in statistics, if there is one. `same_word`
    names the member that is the same word with perhaps another meaning, `same_context` the one that is another word in
    the same sentence, if there are such. With `shares_sentences`, neighbouring rows have sentences in common, and
    reading each once saves work. With `documents_in_ids`, an id begins with that of its document and a hyphen. A
    product without members compares no words: its rows are texts, in the column `text`.
    """

    recipe: str
    pass_name: str
    table: str
    rejects: str
    members: tuple[Member, ...]
    positive: str
    negative: str
    negative_in: str = "original"
    noun: str = "row"
    same: tuple[str, ...] = ("id",)
    kind: str | None = None
    same_word: str | None = None
    same_context: str | None = None
    shares_sentences: bool = False
    documents_in_ids: bool = False
    text: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that training needs."""
        return ("id", *dict.fromkeys(column for member in self.members for column in member.columns))

    def group_of(self, id_: str) -> str:
        """Return the id of the rows that are held out together: the row's own, or that of its document."""
        return id_.partition("-")[0] if self.documents_in_ids else id_

    @property
    def roles(self) -> dict[str, Member]:
        """Return the members by their names, and by what they are to the original."""
        found = {member.name: member for member in self.members}
        roles = {"same_word": self.same_word, "same_context": self.same_context}
        return found | {role: found[name] for role, name in roles.items() if name}

    def only(self, names: Sequence[str]) -> Product:
        """Return the same table with the members of these names or roles, in this order; absent ones for unknown."""
        roles = self.roles
        nothing = replace(self.members[0], absent=True)
        return replace(self, members=tuple(roles.get(name, nothing) for name in names))

    def relation(self, member: Member) -> str:
        """Return how the word of a member relates to that of the original, for people; empty if that is not known."""
        if member.name == self.same_context and member.text == self.members[0].text:
            return "another word of the same sentence"
        return {"positive": self.positive, "negative": self.negative}.get(member.name, "")

    def open(self, store: Store) -> CommittedTable:
        """Return the committed rows."""
        return CommittedTable(store, self.pass_name, self.table)

    def open_rejects(self, store: Store) -> CommittedTable:
        """Return the committed rejects, which did not become rows; only for a product that keeps them."""
        return CommittedTable(store, self.pass_name, self.rejects)


WORDS = Product(
    recipe=DEFAULT_RECIPE,
    pass_name="generate",
    table="triples",
    rejects="rejects",
    members=(
        Member("original", "text", "target_start", "target_end", "target"),
        Member(
            "positive",
            "positive",
            "positive_start",
            "positive_end",
            "positive_word",
            (("positive_cosine", "cosine"), ("positive_probability", "probability")),
        ),
        Member(
            "negative",
            "negative",
            "negative_start",
            "negative_end",
            "negative_word",
            (("negative_cosine", "cosine"), ("negative_probability", "probability")),
        ),
    ),
    positive="the word that stands for the target in a paraphrase",
    negative="another word that fits into the same sentence",
    noun="triple",
    same=("id", "target"),
    kind="positive_rule",
    same_context="negative",
)

DISCOURSE = Product(
    recipe="discourse",
    pass_name="pairs",
    table="pairs",
    rejects="",
    members=(
        Member("original", "text", "target_start", "target_end", "target"),
        Member("positive", "positive", "positive_start", "positive_end", "positive_word", (("overlap", "overlap"),)),
        Member("negative", "negative", "negative_start", "negative_end", "negative_word", optional=True),
        Member("neighbour", "text", "neighbour_start", "neighbour_end", "neighbour_word", optional=True),
    ),
    positive="the same word in another sentence of the same document",
    negative="the same word in another document",
    negative_in="another document",
    noun="pair",
    same=("target", "text", "positive"),
    same_word="negative",
    same_context="neighbour",
    shares_sentences=True,
    documents_in_ids=True,
)

PARAGRAPHS = Product(
    recipe="paragraphs",
    pass_name="paragraphs",
    table="paragraphs",
    rejects="",
    members=(),
    positive="",
    negative="",
    noun="paragraph",
    same=("text",),
    text="text",
)
TOKEN_VOCABULARY = ("tokens", "vocabulary")
"""The pass and the table of the vocabulary of paragraphs."""

PRODUCTS = {product.recipe: product for product in (WORDS, DISCOURSE, PARAGRAPHS)}
BOTH = "+"
"""Joins the names of recipes that one build follows, such as words+discourse."""


def recipe_name(store: Store) -> str:
    """Return the name of the recipe that made a corpus."""
    name: str = store.corpus().get("recipe", DEFAULT_RECIPE)
    return name


def products_of(store: Store) -> list[Product]:
    """Return the products of a corpus; raise ConfigError if its recipe belongs to a package not installed here."""
    setting = f"{store.url}/corpus.json: recipe"
    return [_product(name, setting) for name in recipe_name(store).split(BOTH)]


def product_of(store: Store, table: str | None = None) -> Product:
    """Return the product of a corpus whose final table has this name; by default the first one."""
    products = products_of(store)
    if table is None:
        return products[0]
    for product in products:
        if product.table == table:
            return product
    raise ConfigError(f"{store.url} holds {' and '.join(product.table for product in products)}, not {table}")


def _product(name: str, setting: str) -> Product:
    found = find_part(name, PRODUCTS, object, setting)
    product = getattr(found, "product", found)  # a plug-in is a recipe, which has a product
    if not isinstance(product, Product):
        raise ConfigError(f"{setting}: {name} is not a recipe")
    return product


def open_product(root: str | Store, table: str | None = None) -> CommittedTable:
    """Open the final table of a corpus, which holds its triples, pairs or paragraphs, or what another recipe makes.

    Args:
        root: The store, or where it is: a folder or `s3://bucket/prefix`.
        table: The name of the table, for a corpus that has several; None for the first one.

    Returns:
        The rows committed so far.

    Raises:
        StoreError: If there is no corpus, or it is damaged.
        ConfigError: If it has no such final table, or its recipe belongs to a package not installed here.
    """
    store = Store.at(root) if isinstance(root, str) else root
    return product_of(store, table).open(store)


def read_vocabulary(root: str | Store) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Read the vocabulary of a corpus of paragraphs: tokens in lower case, and how often each occurs.

    Args:
        root: The store, or where it is: a folder or `s3://bucket/prefix`.

    Returns:
        The words and their counts, both in the order of rank: most frequent first, ties by code points.

    Raises:
        StoreError: If there is no corpus, it is damaged, or its vocabulary is not made yet.
        ConfigError: If it does not hold paragraphs, or its recipe belongs to a package not installed here.
    """
    store = Store.at(root) if isinstance(root, str) else root
    product_of(store, PARAGRAPHS.table)
    name, table = TOKEN_VOCABULARY
    if not store.pass_store(name).started() or not (words := CommittedTable(store, name, table)).complete:
        raise StoreError(f"{store.url}: the vocabulary is not made yet; run `corpusgen build` to its end")
    rows = words.to_table(["word", "count"])
    return rows["word"].to_pylist(), rows["count"].to_numpy()


def check_holds_triples(store: Store) -> None:
    """Raise StoreError if no recipe of a corpus makes triples."""
    products = products_of(store)
    if WORDS not in products:
        tables, recipes = " and ".join(p.table for p in products), " and ".join(repr(p.recipe) for p in products)
        raise StoreError(f"{store.url} holds {tables} of the recipe {recipes}, not triples")


class TripleStore(CommittedTable):
    """The triples of a corpus; StoreError if its recipe makes something else."""

    def __init__(self, root: str | Store) -> None:
        store = Store.at(root) if isinstance(root, str) else root
        check_holds_triples(store)
        super().__init__(store, WORDS.pass_name, WORDS.table)
