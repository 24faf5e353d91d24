"""Merging of stores: their committed units become the units of a new store, for each product of their recipe.

A unit of the new plan stands for one unit of a source. It names that unit with the hashes of its parts, so that its id
follows from the exact bytes that go into it. Its commit has the stages of the source, followed by the stage `merge`,
whose rejects are the rows that an earlier unit has too. So the counts of the new store add up as in any other, and
the same command resumes a merge that was killed.

The vocabulary of paragraphs is made anew, from the counts of the rows that are left.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.config.build import ParagraphSettings
from corpusgen.config.run import RunSettings
from corpusgen.corpus.recipes.paragraphs import vocabulary_pass, vocabulary_stages
from corpusgen.corpus.stored_settings import open_store
from corpusgen.engine import LocalExecutor
from corpusgen.engine.passes import run_pass
from corpusgen.errors import CorpusgenError
from corpusgen.io.hashing import content_hash
from corpusgen.store import Commit, Plan, StageCount, Store, Totals, Unit
from corpusgen.store.parts import read_part
from corpusgen.store.products import (
    BOTH,
    DEFAULT_RECIPE,
    PARAGRAPHS,
    TOKEN_VOCABULARY,
    WORDS,
    Product,
    product_of,
    products_of,
    recipe_name,
)
from corpusgen.store.status import PassStatus
from corpusgen.tables import PARAPHRASES_TABLE
from corpusgen.targets.vocabulary import count_tokens

DUPLICATE = "same sentence and target as another"
_SAME = "the same as another"
_STAGE = "merge"
_VERSION = 1
_KEY_BYTES = 16  # for each row in memory while searching for duplicates

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Source:
    """A store, and what it had committed of a product when the merge read it."""

    store: Store
    plan: Plan
    commits: Sequence[Commit]

    @classmethod
    def at(cls, store: Store, product: Product) -> _Source:
        pass_store = store.pass_store(product.pass_name)
        return cls(store, pass_store.plan(), list(pass_store.commits()))

    @property
    def complete(self) -> bool:
        return len(self.commits) == len(self.plan.units)

    @property
    def tables(self) -> dict[str, pa.Schema]:
        """Return the tables to merge, without the one kept only for building again, which older stores do not have."""
        return {name: schema for name, schema in self.plan.tables.items() if name != PARAPHRASES_TABLE}


def merge(
    output: str, roots: Sequence[str], say: Say = lambda line: None, table: str | None = None
) -> dict[str, Totals]:
    """Merge the products of several stores into one, or resume; return the totals of each, by the name of its table.

    With `table`, only the product with this table is merged.
    """
    stores = [open_store(root) for root in roots]
    target = Store.at(output)
    _check_stores(target, stores)
    products = _products(stores, table)
    sources = {product.table: [_Source.at(store, product) for store in stores] for product in products}
    for of_product in sources.values():
        _check_columns(of_product)
    of_vocabulary = _of_paragraphs(stores) if PARAGRAPHS in products else None
    for product in products:
        for source in sources[product.table]:
            if not source.complete:
                some = f"{len(source.commits):,} of {len(source.plan.units):,} units"
                url = source.store.url + (f", {product.table}," if len(products) > 1 else "")
                say(f"{url} is not finished: only {some} are merged; resuming will not add the rest")
    target.ensure_corpus(_corpus(stores, products))
    merged = {product.table: _merge_product(target, product, sources[product.table]) for product in products}
    if of_vocabulary:
        pass_ = vocabulary_pass(target, vocabulary_stages(of_vocabulary, target))
        run_pass(pass_, target.pass_store(pass_.name), LocalExecutor(), RunSettings())
    return merged


def _merge_product(target: Store, product: Product, sources: Sequence[_Source]) -> Totals:
    commits = [(source, commit) for source in sources for commit in source.commits]
    fingerprint = content_hash({"pass": product.pass_name, "stage": _STAGE, "version": _VERSION})
    plan = Plan.of(fingerprint, [[_record(*pair)] for pair in commits], sources[0].tables)
    pass_store = target.pass_store(product.pass_name)
    pass_store.ensure_plan(plan)
    done = pass_store.committed()
    repeated = _repeated(product, commits)
    for (source, commit), unit, twice in zip(commits, plan.units, repeated, strict=True):
        if unit.id not in done:
            _copy(target, product, plan, source.store, commit, unit, twice)
    return PassStatus(pass_store).refresh()


def duplicates(totals: Totals) -> int:
    """Return how many rows of a merged product were left out, because another row says the same."""
    return sum(stage.rejected.get(reason, 0) for stage in totals.stages.values() for reason in (DUPLICATE, _SAME))


def merged_units(store: Store, product: Product = WORDS) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the origin of each unit of a merged store: `store`, `unit`, who made it, when; None for other stores."""
    if "merged" not in store.corpus():
        return None
    return {unit.id: unit.records[0] for unit in store.pass_store(product.pass_name).plan().units}


def _products(stores: Sequence[Store], table: str | None) -> list[Product]:
    """Return the products to merge; raise CorpusgenError unless all stores have them by the same recipe."""
    if table is not None:
        found = [[product_of(store, table)] for store in stores]
    else:
        found = [products_of(store) for store in stores]
    for store, products in zip(stores[1:], found[1:], strict=True):
        if products != found[0]:
            raise CorpusgenError(
                f"{store.url} has the recipe {recipe_name(store)!r}, {stores[0].url} the recipe "
                f"{recipe_name(stores[0])!r}: only rows of the same kind can be merged"
            )
    return found[0]


def _check_stores(target: Store, stores: Sequence[Store]) -> None:
    urls = [store.url for store in stores]
    twice = sorted({url for url in urls if urls.count(url) > 1})
    if twice:
        raise CorpusgenError(f"given twice: {', '.join(twice)}; name each store once")
    if target.url in urls:
        raise CorpusgenError(f"cannot merge {target.url} into itself; give a new store as OUTPUT")


def _check_columns(sources: Sequence[_Source]) -> None:
    first = sources[0]
    for source in sources[1:]:
        if source.tables != first.tables:
            raise CorpusgenError(
                f"{source.store.url} and {first.store.url} have different columns: {_columns(source, first)}"
            )


def _of_paragraphs(stores: Sequence[Store]) -> ParagraphSettings:
    """Return the settings of paragraphs and their vocabulary; raise CorpusgenError if stores differ in them."""
    of_each = [store.corpus().get("settings", {}).get(PARAGRAPHS.recipe, {}) for store in stores]
    for store, settings in zip(stores, of_each, strict=True):
        if settings != of_each[0]:
            raise CorpusgenError(
                f"{store.url} has the settings paragraphs: {settings}, {stores[0].url} has {of_each[0]}: only stores "
                "with the same settings can be merged into one with a vocabulary"
            )
    return ParagraphSettings.model_validate(of_each[0])


def _columns(one: _Source, other: _Source) -> str:
    for table in one.tables.keys() | other.tables.keys():
        ours, theirs = (set(side.tables.get(table, pa.schema([]))) for side in (one, other))
        if ours != theirs:
            names = sorted({column.name for column in ours ^ theirs})
            return f"{', '.join(names)} of table {table!r}"
    return "their order differs"


def _corpus(stores: Sequence[Store], products: Sequence[Product]) -> dict[str, Any]:
    """Return the new corpus.json: what the sources have in common, as in any store, and all of each source's own."""
    corpora = [store.corpus() for store in stores]
    of_each = [corpus.get("settings", {}) for corpus in corpora]
    settings = _common(of_each)
    if WORDS in products:
        # Even if their units have different sizes, readers ask how positives were made.
        settings.setdefault("generate", _common([section.get("generate", {}) for section in of_each]))
    recipe = BOTH.join(product.recipe for product in products)
    return {
        **({} if recipe == DEFAULT_RECIPE else {"recipe": recipe}),  # stores merged before there were others have none
        "passes": [*(product.pass_name for product in products), *([TOKEN_VOCABULARY[0]] * (PARAGRAPHS in products))],
        "settings": settings,
        "models": _common([corpus.get("models", {}) for corpus in corpora]),
        "merged": [{"store": store.url, "corpus": corpus} for store, corpus in zip(stores, corpora, strict=True)],
    }


def _common(sections: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the entries that are equal in all. A section that differs is left out: half would be read as whole."""
    first, *others = sections
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


def _record(source: _Source, commit: Commit) -> dict[str, Any]:
    """Return which unit of which store this is, who made it and when, since a source may disappear one day."""
    facts = {name: getattr(commit, name) for name in ("unit", "attempt", "worker", "committed_at")}
    parts = {name: part.sha256 for name, part in sorted(commit.parts.items())}
    return {"store": source.store.url, **facts, "parts": parts}


def _repeated(product: Product, commits: Sequence[tuple[_Source, Commit]]) -> list[npt.NDArray[np.bool_]]:
    """Return, for each unit, which of its rows an earlier unit or an earlier row already has."""
    keys = [_keys(source.store, product, commit) for source, commit in commits]
    together = np.concatenate([np.zeros(0, f"S{_KEY_BYTES}"), *keys])
    repeated = np.ones(len(together), bool)
    repeated[np.unique(together, return_index=True)[1]] = False  # the index of the first occurrence
    return np.split(repeated, np.cumsum([len(some) for some in keys])[:-1]) if keys else []


def _keys(store: Store, product: Product, commit: Commit) -> npt.NDArray[np.bytes_]:
    if product.table not in commit.parts:
        return np.zeros(0, f"S{_KEY_BYTES}")
    table = product.open(store)
    digests = [
        hashlib.blake2b(_key(product, row).encode(), digest_size=_KEY_BYTES).digest()
        for batch in table.part_batches(commit.parts[product.table], product.same)
        for row in zip(*(batch[name].to_pylist() for name in product.same), strict=True)
    ]
    return np.array(digests, f"S{_KEY_BYTES}")


def _key(product: Product, values: Sequence[object]) -> str:
    """Return what is equal for rows that say the same."""
    if "id" in product.same:
        return " ".join(map(str, values))
    # The same text may be encoded and spaced in several ways. Case counts. Sentences may come in any order: which one
    # of a pair is the original depends on the seed.
    written = [" ".join(unicodedata.normalize("NFC", str(value)).split()) for value in values]
    texts = {member.text for member in product.members}
    is_text = [name in texts for name in product.same]
    sentences = sorted(itertools.compress(written, is_text))
    return "\n".join([*(value for value, skip in zip(written, is_text, strict=True) if not skip), *sentences])


def _copy(
    target: Store,
    product: Product,
    plan: Plan,
    source: Store,
    commit: Commit,
    unit: Unit,
    repeated: npt.NDArray[np.bool_],
) -> None:
    schemas = plan.tables
    parts = {name: part for name, part in commit.parts.items() if name in schemas}
    tables = {
        name: pq.read_table(pa.BufferReader(read_part(source.files, part, thorough=True)))
        for name, part in parts.items()
    }
    kept = len(repeated) - int(repeated.sum())
    reason = DUPLICATE if product == WORDS else _SAME
    if repeated.any():
        rows = tables[product.table]
        tables[product.table] = rows.filter(pa.array(~repeated))
        if product == PARAGRAPHS:
            tables["counts"] = count_tokens(tables[product.table])
        if product.rejects in schemas:
            lost = _as_rejects(rows.filter(pa.array(repeated)), schemas[product.rejects], reason)
            before = tables.get(product.rejects, schemas[product.rejects].empty_table())
            tables[product.rejects] = pa.concat_tables([before, lost])
    tables = {name: _of_unit(table, unit.id) for name, table in tables.items()}
    quarantined = list(_quarantined(source, commit))
    stages = [*commit.stages]
    count = StageCount(_STAGE, len(repeated), kept, {reason: len(repeated) - kept} if repeated.any() else {})
    if stages and stages[-1].name == _STAGE:  # a merged store merged again: stage names are unique
        last = stages.pop()
        count = replace(last + count, rows_in=last.rows_in, rows_out=kept)
    pass_store = target.pass_store(product.pass_name)
    pass_store.commit(
        unit.id, f"merge-{unit.id[:8]}", tables, quarantined, [*stages, count], worker=_STAGE, now=time.time()
    )


def _quarantined(store: Store, commit: Commit) -> Iterator[dict[str, Any]]:
    if commit.quarantine:
        for line in read_part(store.files, commit.quarantine).splitlines():
            yield json.loads(line)


def _as_rejects(rows: pa.Table, schema: pa.Schema, reason: str) -> pa.Table:
    """Return the rows that are left out, with the columns of rejects."""
    columns = []
    for field in schema:
        if field.name == "reason":
            columns.append(pa.array([reason] * rows.num_rows, field.type))
        elif field.name in rows.column_names:
            columns.append(rows[field.name])
        else:
            columns.append(pa.nulls(rows.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _of_unit(table: pa.Table, unit: str) -> pa.Table:
    """Assign the rows to the new unit; the plan records the unit that they come from."""
    column = table.schema.get_field_index("unit")
    if column < 0:
        return table
    return table.set_column(column, table.schema.field(column), pa.array([unit] * table.num_rows, pa.string()))
