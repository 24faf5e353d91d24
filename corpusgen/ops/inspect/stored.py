"""Lookup of a triple or reject, and of the store that made it, without loading a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from corpusgen.errors import CorpusgenError
from corpusgen.ops.merge import DUPLICATE, merged_units
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import WORDS, Product, product_of, products_of
from corpusgen.store.rows import Row, find_rows, random_rows


class Stored(NamedTuple):
    """A row of `triples` or of `rejects`, and the store whose models made it."""

    store: Store
    table: str
    row: Row

    @property
    def is_triple(self) -> bool:
        """Return whether the target became a triple."""
        return self.table == WORDS.table


def find_stored(store: Store, id_: str, target: str | None = None) -> Stored:
    """Return the triple or reject of a sentence; raise CorpusgenError if there is none, or more than one."""
    found = [Stored(store, t, row) for t in (WORDS.table, WORDS.rejects) for row in _find(store, t, id_, target)]
    # What a merge left out is there twice: as the triple that was kept, and as the reject for the other one.
    found = [stored for stored in found if stored.row.get("reason") != DUPLICATE] or found
    if not found:
        which = f"{id_} with the target {target!r}" if target else id_
        raise CorpusgenError(
            f"{store.url}: no triple and no reject has the id {which}; `corpusgen sample {store.url}` shows some ids"
        )
    targets = list(dict.fromkeys(stored.row["target"] for stored in found))
    if len(targets) > 1:
        raise CorpusgenError(f"{id_} has the targets {', '.join(targets)}; choose one with --target")
    return found[0]


def stored_of_word(store: Store, word: str, seed: int = 0) -> Stored:
    """Return a triple with this target or, if there is none, a reject; the same one for the same seed."""
    for table in (WORDS.table, WORDS.rejects):
        rows = random_rows(CommittedTable(store, WORDS.pass_name, table), 1, seed, word)
        if rows:
            return Stored(store, table, rows[0])
    raise CorpusgenError(f"{store.url}: no triple and no reject has the target {word!r}")


def random_triples(store: Store, number: int, seed: int = 0) -> list[Stored]:
    """Return random triples, the same for the same seed; raise CorpusgenError if there are none."""
    rows = random_rows(WORDS.open(store), number, seed)
    if not rows:
        raise CorpusgenError(f"{store.url}: no triples yet")
    return [Stored(store, WORDS.table, row) for row in rows]


def product_to_explain(store: Store, id_: str | None, table: str | None, known: Sequence[Product]) -> Product:
    """Return the product with this table, or the one that has a row with this id, by default the first.

    Raises:
        CorpusgenError: It is of a recipe that is not `known`.
    """
    products = [product_of(store, table)] if table is not None else products_of(store)
    product = products[0]
    if id_ is not None and len(products) > 1:
        rest = WORDS if WORDS in products else product  # an id that is in no table may be that of a reject
        product = next((one for one in products if one in known and find_rows(one.open(store), id_)), rest)
    if product not in known:
        names = " and ".join(repr(one.recipe) for one in known)
        raise CorpusgenError(
            f"{store.url}: the recipe {product.recipe!r} is not supported: only {names} can be explained"
        )
    return product


class Origins:
    """Finds the store that made a row: the one that holds it or, if that was merged, the one it was taken from."""

    def __init__(self, product: Product = WORDS) -> None:
        self._product = product
        self._merged: dict[str, Mapping[str, Mapping[str, Any]] | None] = {}

    def of(self, stored: Stored) -> Stored:
        """Return the row with the store and the unit that made it."""
        url = stored.store.url
        if url not in self._merged:
            self._merged[url] = merged_units(stored.store, self._product)
        units = self._merged[url]
        if units is None:
            return stored
        source = units.get(stored.row["unit"])
        if source is None:
            raise CorpusgenError(f"{url}: the unit {stored.row['unit']} is not in the plan; run `corpusgen verify`")
        store = Store.at(source["store"])
        if not store.files.exists("corpus.json"):
            raise CorpusgenError(f"{url} was merged from {source['store']}, which this command needs but cannot find")
        if stored.row.get("reason") == DUPLICATE:  # in that store it is a triple
            return self.of(find_stored(store, stored.row["id"], stored.row["target"]))
        return self.of(Stored(store, stored.table, {**stored.row, "unit": source["unit"]}))


def _find(store: Store, table: str, id_: str, target: str | None) -> list[Row]:
    return find_rows(CommittedTable(store, WORDS.pass_name, table), id_, target)
