"""Figures of a store: what every pass holds, what was rejected, and how the numbers of each product are distributed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.corpus.stored_settings import open_store
from corpusgen.ops.funnels import AnyFunnel, funnel_count, funnel_lines
from corpusgen.ops.inspect.distributions import PERCENTILES, Distribution
from corpusgen.ops.paragraph_funnel import LENGTHS, lengths
from corpusgen.store import Commit, Store, Totals
from corpusgen.store.products import PARAGRAPHS, Product, product_of, products_of
from corpusgen.store.rows import words_in

_POSITIONS = ("paragraph", "sentence")  # columns with these names, or that end so, tell where a text comes from


@dataclass(frozen=True)
class ProductStats:
    """The figures of one product; the keys of `distinct_words` are members, those of `distributions` columns.

    `kinds` are the values of the column that tells rows apart, if there is one, each with its number of rows.
    """

    rows: int
    funnel: AnyFunnel | None
    kinds: dict[str, int]
    distinct_words: dict[str, int]
    distributions: dict[str, dict[str, float]]
    labels: dict[str, str]
    """What the numbers of each distribution are."""


@dataclass(frozen=True)
class Stats:
    """The complete result of `corpusgen stats`; a product whose pass has not begun is None."""

    root: str
    passes: dict[str, dict[str, Any]]
    products: dict[str, ProductStats | None]


def stats(root: str, table: str | None = None) -> Stats:
    """Return the figures of what is committed now: all of the same units, even while a build runs.

    With `table`, only the product with this table has figures.
    """
    store = open_store(root)
    products = [product_of(store, table)] if table is not None else products_of(store)
    passes: dict[str, dict[str, Any]] = {}
    figures: dict[str, ProductStats | None] = {product.table: None for product in products}
    for pass_store in store.passes():
        plan = pass_store.plan()
        totals = Totals(len(plan.units), rows=dict.fromkeys(plan.tables, 0))
        commits = list(pass_store.commits())
        for commit in commits:
            totals.add(commit)
        passes[pass_store.name] = _as_dict(totals)
        for product in products:
            if product.pass_name == pass_store.name:
                figures[product.table] = _figures(store, product, commits)
    return Stats(store.url, passes, figures)


def _as_dict(totals: Totals) -> dict[str, Any]:
    return {
        "units": totals.units,
        "committed": totals.committed,
        "rows": totals.rows,
        "rejected": {name: dict(stage.rejected) for name, stage in totals.stages.items() if stage.rejected},
        "quarantined": totals.quarantined,
    }


def _figures(store: Store, product: Product, commits: Sequence[Commit]) -> ProductStats:
    table = product.open(store)
    funnel = funnel_count(store, product)
    kinds: Counter[str] = Counter()
    words: dict[str, set[str | None]] = {member.name: set() for member in product.members}
    numbers = numeric_columns(product, table.schema)
    distributions: defaultdict[str, Distribution] = defaultdict(Distribution)
    columns = {*numbers, *product.columns, *(member.word for member in product.members if member.word)}
    columns |= {*([product.kind] if product.kind else []), *(funnel.OF_ROWS if funnel else ())}
    rows = 0
    for commit in commits:
        if funnel:
            funnel.add_stages(commit.stages)
        if funnel and product.rejects in commit.parts:
            for batch in product.open_rejects(store).part_batches(commit.parts[product.rejects], funnel.OF_REJECTS):
                funnel.add_rejects(batch)
        if product.table not in commit.parts:
            continue
        for batch in table.part_batches(commit.parts[product.table], sorted(columns)):
            rows += batch.num_rows
            if funnel:
                funnel.add_rows(batch)
            if product.kind:
                kinds.update(batch[product.kind].to_pylist())
            for name, values in _measured(product, numbers, batch).items():
                distributions[name].add(values)
            for member in product.members:
                words[member.name].update(words_in(batch, member))
    summaries = {name: found.summary() for name, found in distributions.items()}
    return ProductStats(
        rows=rows,
        funnel=funnel.result() if funnel else None,
        kinds=dict(kinds.most_common()),
        distinct_words={name: len(known - {None}) for name, known in words.items()},
        distributions={name: summary for name, summary in summaries.items() if summary},
        labels={
            **labels_of(table.schema, numbers),
            **(LENGTHS if product == PARAGRAPHS else {}),
            # Members may share a sentence: it is named after the first one.
            **{member.text: f"words in {member.name}" for member in reversed(product.members)},
        },
    )


def _measured(product: Product, numbers: Sequence[str], batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the numbers of a batch that have distributions: those of columns, and the lengths of texts."""
    found = {name: batch[name] for name in numbers}
    found |= {member.text: words_per_text(batch[member.text]) for member in product.members}
    return found | lengths(batch) if product == PARAGRAPHS else found


def numeric_columns(product: Product, schema: pa.Schema) -> list[str]:
    """Return the columns with numbers about a row: not where its words stand, nor where its texts come from."""
    spans = {name for member in product.members for name in member.columns}
    return [
        field.name
        for field in schema
        if (pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
        and field.name not in spans
        and not field.name.endswith(_POSITIONS)
    ]


def labels_of(schema: pa.Schema, columns: Sequence[str] | dict[str, Any]) -> dict[str, str]:
    """Return what the schema says about these columns, up to the first semicolon; the name if it says nothing."""
    told = {name: (schema.field(name).metadata or {}).get(b"description", b"").decode() for name in columns}
    return {name: text.partition(";")[0] or name for name, text in told.items()}


def words_per_text(texts: pa.Array) -> pa.Array:
    """Return the number of words in each text, parted by spaces."""
    return pc.list_value_length(pc.utf8_split_whitespace(pc.utf8_trim_whitespace(texts)))


def lines(found: Stats) -> Iterator[str]:
    """Yield the figures as lines for the terminal."""
    for name, figures in found.passes.items():
        rows = ", ".join(f"{count:,} {table}" for table, count in figures["rows"].items())
        yield f"{name}: {figures['committed']:,} of {figures['units']:,} units, {rows}"
        reasons = ((n, reason) for of_stage in figures["rejected"].values() for reason, n in of_stage.items())
        for number, reason in sorted(reasons, key=lambda item: (-item[0], item[1])):
            yield f"  {number:>12,} rejected: {reason}"
        if figures["quarantined"]:
            yield f"  {figures['quarantined']:>12,} quarantined"
    for table, product in found.products.items():
        yield ""
        if product is None:
            yield f"no {table} yet: their pass has not been started"
        else:
            yield from _product_lines(table, product)


def _product_lines(table: str, found: ProductStats) -> Iterator[str]:
    yield f"{found.rows:,} {table}"
    if found.distinct_words:
        yield "distinct words: " + ", ".join(f"{n:,} {name}" for name, n in found.distinct_words.items())
    if found.kinds:
        yield "by rule: " + ", ".join(f"{n:,} {kind}" for kind, n in found.kinds.items())
    if found.funnel:
        yield ""
        yield from funnel_lines(found.funnel)
    if found.distributions:
        yield ""
        heads = ("mean", "min", *(f"p{p}" for p in PERCENTILES), "max")
        width = max(40, 2 + max(len(found.labels[name]) for name in found.distributions))
        yield f"{'':{width}}{'count':>12}" + "".join(f"{head:>9}" for head in heads)
        for name, summary in found.distributions.items():
            whole = all(value == int(value) for head, value in summary.items() if head != "mean")
            values = "".join(_number(summary[head], whole) for head in heads)
            yield f"{found.labels[name]:{width}}{summary['count']:>12,}{values}"


def _number(value: float, whole: bool) -> str:
    return f"{value:>9,.0f}" if whole and value == int(value) else f"{value:>9.1f}" if whole else f"{value:>9.3f}"
