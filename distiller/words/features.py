"""Features: the layer states of all words of a corpus, computed once and kept beside it as float16.

They have their own store, `<corpus>/features/<16 hex digits>`, which the same engine makes by the same protocol of
plan, parts and commits. The digits identify the backbone, its layers and the rows.

Shapes: N rows, M members of a row, L layers, D dimensions.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.engine import Pass, Result, RunSettings, Stage
from corpusgen.engine.parts import ReadRows, part_records, row_slices
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.errors import StoreError
from corpusgen.io.hashing import content_hash
from corpusgen.models.identity import describe_hub_model
from corpusgen.store import CommittedTable, Part, Store, Totals
from corpusgen.store.products import WORDS, Member, Product, open_product, product_of
from distiller.settings import BackboneSettings, FeatureSettings
from distiller.words.backbone import Backbone, Shape, confirmed_backbone, shape_of

PASS = "features"
OVERFLOW = "states are too large for float16"

_NUMBER = np.dtype("<f2")
# Their names in version 0.1, whose rows were all triples. They are hashed into the names of stores and units.
_ROWS, _UNIT_ROWS = "triples", "unit_triples"
_REJECTS = pa.schema([("id", pa.string()), ("reason", pa.string())])


def bytes_per_row(members: int, layers: int, dimension: int) -> int:
    """Return the size of a row's states: 73,728 bytes for three words and the top half of BERT-large.

    Args:
        members: Words per row: three in a triple, four in a pair.
        layers: Layers of the frozen model that are used.
        dimension: Numbers per layer.

    Returns:
        Bytes, at two per number.
    """
    return members * layers * dimension * _NUMBER.itemsize


@dataclass(frozen=True)
class Estimate:
    """The amount of features to compute and to store."""

    rows: int
    left: int
    """Rows whose units are not committed yet."""
    shape: Shape
    product: Product

    @property
    def bytes_left(self) -> int:
        """Return the bytes still to write; compression saves some of them, file formats add a few."""
        return self.left * self._bytes_per_row

    @property
    def _bytes_per_row(self) -> int:
        return bytes_per_row(len(self.product.members), len(self.shape.layers), self.shape.dimension)

    def __str__(self) -> str:
        layers, dimension = self.shape
        return (
            f"{self.rows:,} {self.product.table} × {self._bytes_per_row:,} bytes "
            f"(layers {layers[0]}–{layers[-1]}, dimension {dimension}): "
            f"{self.bytes_left / 1e9:,.2f} GB to write for the {self.left:,} left"
        )


@dataclass
class ReadMembers(ReadRows):
    """The stage that reads the rows of a unit: only the columns with texts and the spans of words."""

    product: Product = field(default=WORDS, metadata={"content": False})

    @property
    def adds(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the columns that the stage reads."""
        return self.product.columns


@dataclass
class EncodeMembers(Stage):
    """The stage that turns the text and span of each word of a row into layer states."""

    name: ClassVar[str] = "features"
    can_use_gpu: ClassVar[bool] = True

    made_with: Mapping[str, Any]
    """What determines the states: the backbone's identity and layers, but not its local path."""
    backbone: BackboneSettings = field(metadata={"content": False})
    device: str = field(default="auto", metadata={"content": False})
    product: Product = field(default=WORDS, metadata={"content": False})

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the columns with texts and the spans of words."""
        return self.product.columns

    @property
    def adds(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return a column for each word of a row."""
        return tuple(member.name for member in self.product.members)

    def setup(self) -> None:
        """Load the backbone."""
        backbone = confirmed_backbone(self.backbone, self.made_with.get("backbone", {}))
        self._backbone = Backbone(backbone, self.device, threads=max(1, int(self.resources.cpus)))

    def process(self, rows: pa.Table) -> Result:
        """Encode the words of all members; reject rows with a word that cannot be encoded."""
        columns: dict[str, pa.Array] = {"id": rows["id"]}
        reasons: list[str | None] = [None] * rows.num_rows
        for member, states, problems in self._encoded(rows):
            with np.errstate(over="ignore"):  # values too large become infinite and are rejected below
                halves = states.astype(_NUMBER)
            finite = [bool(np.isfinite(of_word).all()) for of_word in halves]
            for row, (problem, fits) in enumerate(zip(problems, finite, strict=True)):
                reason = problem or (None if fits else OVERFLOW)
                if reason and not reasons[row]:
                    reasons[row] = f"{member.name}: {reason}"
            columns[member.name] = _packed(halves)
        reason_column = pa.array(reasons, pa.string())
        usable = pc.is_null(reason_column)
        rejects = pa.table({"id": rows["id"], "reason": reason_column}, _REJECTS)
        return Result(pa.table(columns).filter(usable), rejects.filter(pc.invert(usable)))

    def _encoded(self, rows: pa.Table) -> Iterator[tuple[Member, npt.NDArray[np.float32], Sequence[str | None]]]:
        """Yield the states and problems of each member's words.

        Rows that share sentences are encoded together, so that each sentence is read once. Others are encoded member by
        member, as ever: in other batches the last bits of their states would be others.
        """
        if not self.product.shares_sentences:
            for member in self.product.members:
                yield member, *self._backbone.states(*member_words(rows, self.product, [member]))
            return
        states, problems = self._backbone.states(*member_words(rows, self.product))
        for number, member in enumerate(self.product.members):
            own = slice(number * rows.num_rows, (number + 1) * rows.num_rows)
            yield member, states[own], problems[own]


def member_words(
    rows: pa.Table | pa.RecordBatch, product: Product, members: Sequence[Member] | None = None
) -> tuple[list[str], list[tuple[int, int]]]:
    """Return texts and spans of all or some members, M · N of each: the first of every row, then the second, and so on.

    Where an optional member is null, the product's first member stands for it.
    """
    texts: list[str] = []
    spans: list[tuple[int, int]] = []
    for member in product.members if members is None else members:
        columns = [rows[name] for name in member.columns]
        if member.optional:
            is_there = columns[1].is_valid()
            instead = (rows[name] for name in product.members[0].columns)
            columns = [pc.if_else(is_there, own, other) for own, other in zip(columns, instead, strict=True)]
        text, start, end = (column.to_pylist() for column in columns)
        texts += text
        spans += zip(start, end, strict=True)
    return texts, spans


def features_store(corpus_root: str, settings: FeatureSettings) -> Store:
    """Return the store for the features of this corpus and backbone; it need not exist yet."""
    return _store_for(corpus_root, features_content(Store.at(corpus_root), settings))


def make_features(
    corpus_root: str,
    settings: FeatureSettings,
    executor: Executor,
    run_settings: RunSettings,
    on_pass: Callable[[str, Totals], None] = lambda name, totals: None,
    on_estimate: Callable[[Estimate], None] = lambda estimate: None,
) -> Store:
    """Compute the features of all committed rows, or resume doing so.

    `on_estimate` receives the amount of work before anything is written, `on_pass` the totals afterwards.
    """
    corpus = Store.at(corpus_root)
    product = product_of(corpus, settings.table)
    if not product.open(corpus).num_rows:
        raise StoreError(f"{corpus_root} has no {product.table} yet; make them with `corpusgen build`")
    content = features_content(corpus, settings)
    store = _store_for(corpus_root, content)
    pass_ = _pass(corpus, product, settings, content)
    estimate = _estimate(pass_, store, shape_of(settings.backbone), product)
    on_estimate(estimate)
    _check_room(store, estimate)
    store.ensure_corpus(content)
    on_pass(PASS, run_pass(pass_, store.pass_store(PASS), executor, run_settings))
    return store


def features_content(corpus: Store, settings: FeatureSettings) -> dict[str, Any]:
    """Return the description of what the features are made from: the content of their corpus.json."""
    backbone = settings.backbone
    layers, dimension = shape_of(backbone)
    model = describe_hub_model(backbone.model, backbone.revision)
    if "sha256" in model:
        model["id"] = Path(model["id"]).name  # a folder may move
    return {
        "passes": [PASS],
        "backbone": {**model, "dtype": backbone.dtype},
        "layers": list(layers),
        "dimension": dimension,
        _ROWS: _fingerprint(open_product(corpus, settings.table)),
        "settings": {_UNIT_ROWS: settings.unit_rows, "batch_tokens": backbone.batch_tokens},
    }


def _fingerprint(rows: CommittedTable) -> dict[str, Any]:
    """Describe the rows as they are now; a corpus that is still being built will have others later."""
    parts = content_hash([part.sha256 for part in rows.parts])
    return {"parts": parts, "rows": rows.num_rows, "complete": rows.complete}


def _store_for(corpus_root: str, content: Mapping[str, Any]) -> Store:
    return features_at(corpus_root, features_identity(content))


def features_at(corpus_root: str, identity: str) -> Store:
    """Return the store for the features of this identity; it need not exist yet."""
    return Store.at(f"{corpus_root.rstrip('/')}/{PASS}/{identity}")


def made_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what determines the features: the backbone, its layers and the rows."""
    return {name: content[name] for name in ("backbone", "layers", _ROWS)}


def all_made_of(contents: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what determines the features of several tables, given by name; one is described as `made_of` does."""
    first, *others = (made_of(content) for content in contents.values())
    if not others:
        return first
    del first[_ROWS]
    return {**first, "tables": {table: content[_ROWS] for table, content in contents.items()}}


def features_identity(content: Mapping[str, Any]) -> str:
    """Return the name of features, which is the same for the same backbone, layers and rows."""
    return content_hash(list(made_of(content).values()))[:16]


def _pass(corpus: Store, product: Product, settings: FeatureSettings, content: Mapping[str, Any]) -> Pass:
    made_with = {**{name: content[name] for name in ("backbone", "layers")}, **content["settings"]}
    stages = [
        ReadMembers(store=corpus, product=product),
        EncodeMembers(made_with, settings.backbone, settings.device, product),
    ]
    slices = row_slices(part_records(product.open(corpus)), settings.unit_rows)
    schema = _schema(product, content["layers"], content["dimension"])
    return Pass(PASS, stages, slices, {"features": schema, "rejects": _REJECTS})


def _schema(product: Product, layers: Sequence[int], dimension: int) -> pa.Schema:
    states = pa.binary(len(layers) * dimension * _NUMBER.itemsize)
    metadata = {"layers": json.dumps(list(layers)), "dimension": str(dimension), "dtype": _NUMBER.name}
    return pa.schema([("id", pa.string()), *((member.name, states) for member in product.members)], metadata)


def _packed(states: npt.NDArray[np.float16]) -> pa.Array:
    """Pack states (N, L, D) into N fixed-size binary values, without a copy."""
    rows, layers, dimension = states.shape
    kind = pa.binary(layers * dimension * states.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, rows, [None, pa.py_buffer(np.ascontiguousarray(states))])


def _unpacked(column: pa.Array, layers: int, dimension: int) -> npt.NDArray[np.float16]:
    """Unpack a column into states (N, L, D), a view of the column's own memory."""
    start = column.offset * layers * dimension * _NUMBER.itemsize
    numbers = np.frombuffer(column.buffers()[1], _NUMBER, len(column) * layers * dimension, start)
    return numbers.reshape(len(column), layers, dimension)


def _estimate(pass_: Pass, store: Store, shape: Shape, product: Product) -> Estimate:
    done = store.pass_store(PASS).committed()
    sizes = {unit.id: sum(record["rows"] for record in unit.records) for unit in pass_.plan().units}
    left = sum(size for unit, size in sizes.items() if unit not in done)
    return Estimate(sum(sizes.values()), left, shape, product)


def _check_room(store: Store, estimate: Estimate) -> None:
    """Raise StoreError if the local disk is too small for the features still to write."""
    if "://" in store.url:
        return
    folder = next(folder for folder in Path(store.url).parents if folder.exists())
    free = shutil.disk_usage(folder).free
    if free < estimate.bytes_left:
        raise StoreError(
            f"{store.url}: the features need {estimate.bytes_left / 1e9:,.2f} GB, but only {free / 1e9:,.2f} GB are "
            "free on this disk; free some space, use fewer layers, or set features: online"
        )


class FeatureBatch(NamedTuple):
    """A batch of rows: their ids, and for each member the states (N, L, D) of its words in float16.

    The arrays are views of the data read, not copies.
    """

    ids: pa.StringArray
    states: Mapping[str, npt.NDArray[np.float16]]


class Features:
    """The features of a corpus that were committed when this object was made, in the order of the plan."""

    def __init__(self, store: Store) -> None:
        content = store.corpus()
        self.layers: list[int] = content["layers"]
        self.dimension: int = content["dimension"]
        self._table = CommittedTable(store, PASS, "features")
        self.members = tuple(name for name in self._table.schema.names if name != "id")

    @property
    def complete(self) -> bool:
        """Return whether all units are committed."""
        return self._table.complete

    @property
    def num_rows(self) -> int:
        """Return the number of rows with features."""
        return self._table.num_rows

    @property
    def parts(self) -> list[Part]:
        """Return the files that hold the features."""
        return self._table.parts

    @cached_property
    def ids(self) -> list[str]:
        """Return the ids of the rows with features."""
        ids: list[str] = self._table.to_table(["id"])["id"].to_pylist()
        return ids

    def batches(self, batch_size: int = 1024) -> Iterator[FeatureBatch]:
        """Yield all features in batches of at most `batch_size` rows; a batch never spans two parts."""
        for batch in self._table.batches(batch_size=batch_size):
            states = {name: _unpacked(batch[name], len(self.layers), self.dimension) for name in self.members}
            yield FeatureBatch(batch["id"], states)


def open_features(
    store: Store, corpus_root: str | None = None, table: str | None = None, *, allow_incomplete: bool = False
) -> Features:
    """Open features for reading; raise StoreError unless they are complete and match the corpus's current rows.

    By default the corpus is the one that contains the store, and the table its first.
    """
    content = store.corpus()
    if content.get("passes") != [PASS]:
        raise StoreError(f"{store.url} holds no features; find those of a corpus with `features_store`")
    corpus_root = corpus_root or store.url.rpartition(f"/{PASS}/")[0]
    before, now = content[_ROWS], _fingerprint(open_product(corpus_root, table))
    if before != now:
        raise StoreError(
            f"{store.url} was made from other rows than {corpus_root} has now: {_described(before)} then, "
            f"{_described(now)} now; make the features again"
        )
    features = Features(store)
    if not (features.complete or allow_incomplete):
        raise StoreError(f"{store.url}: not all features are computed yet; compute the rest with the same settings")
    return features


def _described(rows: Mapping[str, Any]) -> str:
    finished = "" if rows["complete"] else ", build not finished"
    return f"{rows['rows']:,} rows (parts {rows['parts'][:8]}{finished})"
