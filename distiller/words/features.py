"""Features: the layer states of every triple's three words, computed once and kept as float16 beside the corpus.

They live in a store of their own, `<corpus>/features/<16 hex digits>`, made by the same engine under the same protocol
of plan, parts and commits. The digits name the backbone, its layers and the very triples.
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
from corpusgen.store import CommittedTable, Part, Store, Totals, TripleStore
from distiller.settings import BackboneSettings, FeatureSettings
from distiller.words.backbone import Backbone, Shape, confirmed_backbone, shape_of

PASS = "features"
OVERFLOW = "states are too large for float16"

# Where a triple has its words: column of the features, then text, start and end among the columns of the triple.
WORDS = {
    "original": ("text", "target_start", "target_end"),
    "positive": ("positive", "positive_start", "positive_end"),
    "negative": ("negative", "negative_start", "negative_end"),
}
TRIPLE_COLUMNS = ("id", *(name for columns in WORDS.values() for name in columns))
_NUMBER = np.dtype("<f2")
_REJECTS = pa.schema([("id", pa.string()), ("reason", pa.string())])


def bytes_per_triple(layers: int, dimension: int) -> int:
    """What the states of a triple's three words take: 73,728 bytes for the top half of BERT-large."""
    return layers * dimension * len(WORDS) * _NUMBER.itemsize


@dataclass(frozen=True)
class Estimate:
    """How much there is to compute and to store."""

    triples: int
    left: int
    """Triples whose units are not committed yet."""
    shape: Shape

    @property
    def bytes_left(self) -> int:
        """What is still to be written; compression saves some of it, file formats add a little."""
        return self.left * bytes_per_triple(len(self.shape.layers), self.shape.dimension)

    def __str__(self) -> str:
        layers, dimension = self.shape
        each = bytes_per_triple(len(layers), dimension)
        return (
            f"{self.triples:,} triples × {each:,} bytes (layers {layers[0]}–{layers[-1]}, dimension {dimension}): "
            f"{self.bytes_left / 1e9:,.2f} GB to write for the {self.left:,} left"
        )


@dataclass
class ReadTriples(ReadRows):
    """The triples of a unit, only what is needed of them."""

    adds: ClassVar[tuple[str, ...]] = TRIPLE_COLUMNS


@dataclass
class EncodeTriples(Stage):
    """Text and place of three words → their layer states."""

    name: ClassVar[str] = "features"
    needs: ClassVar[tuple[str, ...]] = TRIPLE_COLUMNS
    adds: ClassVar[tuple[str, ...]] = tuple(WORDS)

    made_with: Mapping[str, Any]
    """What determines the states: the backbone's identity and layers, not where it lies on this machine."""
    backbone: BackboneSettings = field(metadata={"content": False})
    device: str = field(default="auto", metadata={"content": False})

    def setup(self) -> None:
        """Load the backbone."""
        backbone = confirmed_backbone(self.backbone, self.made_with.get("backbone", {}))
        self._backbone = Backbone(backbone, self.device, threads=max(1, int(self.resources.cpus)))

    def process(self, rows: pa.Table) -> Result:
        """Encode all words of one kind at a time; a triple needs all three."""
        columns: dict[str, pa.Array] = {"id": rows["id"]}
        reasons: list[str | None] = [None] * rows.num_rows
        for word, (text, start, end) in WORDS.items():
            spans = list(zip(rows[start].to_pylist(), rows[end].to_pylist(), strict=True))
            states, problems = self._backbone.states(rows[text].to_pylist(), spans)
            with np.errstate(over="ignore"):  # what is too large becomes infinite: rejected below
                halves = states.astype(_NUMBER)
            finite = [bool(np.isfinite(of_word).all()) for of_word in halves]
            for row, (problem, fits) in enumerate(zip(problems, finite, strict=True)):
                reason = problem or (None if fits else OVERFLOW)
                if reason and not reasons[row]:
                    reasons[row] = f"{word}: {reason}"
            columns[word] = _packed(halves)
        reason_column = pa.array(reasons, pa.string())
        usable = pc.is_null(reason_column)
        rejects = pa.table({"id": rows["id"], "reason": reason_column}, _REJECTS)
        return Result(pa.table(columns).filter(usable), rejects.filter(pc.invert(usable)))


def features_store(corpus_root: str, settings: FeatureSettings) -> Store:
    """Where the features of this corpus and backbone belong; it need not exist yet."""
    return _store_for(corpus_root, features_content(TripleStore(corpus_root), settings))


def make_features(
    corpus_root: str,
    settings: FeatureSettings,
    executor: Executor,
    run_settings: RunSettings,
    on_pass: Callable[[str, Totals], None] = lambda name, totals: None,
    on_estimate: Callable[[Estimate], None] = lambda estimate: None,
) -> Store:
    """Compute the features of all committed triples, or go on with it.

    `on_estimate` hears how much there is to do before anything is written, `on_pass` what came of it.
    """
    triples = TripleStore(corpus_root)
    if not triples.num_rows:
        raise StoreError(f"{corpus_root} has no triples yet: `corpusgen build` makes them")
    content = features_content(triples, settings)
    store = _store_for(corpus_root, content)
    pass_ = _pass(Store.at(corpus_root), triples, settings, content)
    estimate = _estimate(pass_, store, shape_of(settings.backbone))
    on_estimate(estimate)
    _check_room(store, estimate)
    store.ensure_corpus(content)
    on_pass(PASS, run_pass(pass_, store.pass_store(PASS), executor, run_settings))
    return store


def features_content(triples: TripleStore, settings: FeatureSettings) -> dict[str, Any]:
    """What the features of these triples are made of: their corpus.json."""
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
        "triples": _fingerprint(triples),
        "settings": {"unit_triples": settings.unit_triples, "batch_tokens": backbone.batch_tokens},
    }


def _fingerprint(triples: TripleStore) -> dict[str, Any]:
    """What the triples are at this moment: a corpus that is still being built will have others."""
    parts = content_hash([part.sha256 for part in triples.parts])
    return {"parts": parts, "rows": triples.num_rows, "complete": triples.complete}


def _store_for(corpus_root: str, content: Mapping[str, Any]) -> Store:
    return Store.at(f"{corpus_root.rstrip('/')}/{PASS}/{features_identity(content)}")


def features_identity(content: Mapping[str, Any]) -> str:
    """The name of features: the same for the same backbone, layers and triples."""
    return content_hash([content[name] for name in ("backbone", "layers", "triples")])[:16]


def _pass(corpus: Store, triples: TripleStore, settings: FeatureSettings, content: Mapping[str, Any]) -> Pass:
    made_with = {**{name: content[name] for name in ("backbone", "layers")}, **content["settings"]}
    stages = [ReadTriples(store=corpus), EncodeTriples(made_with, settings.backbone, settings.device)]
    slices = row_slices(part_records(triples), settings.unit_triples)
    schema = _schema(content["layers"], content["dimension"])
    return Pass(PASS, stages, slices, {"features": schema, "rejects": _REJECTS})


def _schema(layers: Sequence[int], dimension: int) -> pa.Schema:
    states = pa.binary(len(layers) * dimension * _NUMBER.itemsize)
    metadata = {"layers": json.dumps(list(layers)), "dimension": str(dimension), "dtype": _NUMBER.name}
    return pa.schema([("id", pa.string()), *((word, states) for word in WORDS)], metadata)


def _packed(states: npt.NDArray[np.float16]) -> pa.Array:
    """States (n, L, d) as n fixed-size binary values, without a copy."""
    rows, layers, dimension = states.shape
    kind = pa.binary(layers * dimension * states.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, rows, [None, pa.py_buffer(np.ascontiguousarray(states))])


def _unpacked(column: pa.Array, layers: int, dimension: int) -> npt.NDArray[np.float16]:
    """The inverse: a view of the column's own memory."""
    start = column.offset * layers * dimension * _NUMBER.itemsize
    numbers = np.frombuffer(column.buffers()[1], _NUMBER, len(column) * layers * dimension, start)
    return numbers.reshape(len(column), layers, dimension)


def _estimate(pass_: Pass, store: Store, shape: Shape) -> Estimate:
    done = store.pass_store(PASS).committed()
    sizes = {unit.id: sum(record["rows"] for record in unit.records) for unit in pass_.plan().units}
    return Estimate(sum(sizes.values()), sum(size for unit, size in sizes.items() if unit not in done), shape)


def _check_room(store: Store, estimate: Estimate) -> None:
    """StoreError if the local disk is too small for what is to come."""
    if "://" in store.url:
        return
    folder = next(folder for folder in Path(store.url).parents if folder.exists())
    free = shutil.disk_usage(folder).free
    if free < estimate.bytes_left:
        raise StoreError(
            f"{store.url}: the features need {estimate.bytes_left / 1e9:,.2f} GB, but only {free / 1e9:,.2f} GB are "
            "free on this disk; make room, use fewer layers, or compute the states during training instead"
        )


class FeatureBatch(NamedTuple):
    """Some triples: their ids, and for each of the three words the states (n, layers, dimension) in float16.

    The arrays are views of what was read, not copies.
    """

    ids: pa.StringArray
    original: npt.NDArray[np.float16]
    positive: npt.NDArray[np.float16]
    negative: npt.NDArray[np.float16]


class Features:
    """The features of a corpus as they were committed when this object was made, in the order of the plan."""

    def __init__(self, store: Store) -> None:
        content = store.corpus()
        self.layers: list[int] = content["layers"]
        self.dimension: int = content["dimension"]
        self._table = CommittedTable(store, PASS, "features")

    @property
    def complete(self) -> bool:
        """Whether no unit is missing."""
        return self._table.complete

    @property
    def num_rows(self) -> int:
        """How many triples have features."""
        return self._table.num_rows

    @property
    def parts(self) -> list[Part]:
        """The files that the features are in."""
        return self._table.parts

    @cached_property
    def ids(self) -> list[str]:
        """The ids of the triples that have features."""
        ids: list[str] = self._table.to_table(["id"])["id"].to_pylist()
        return ids

    def batches(self, batch_size: int = 1024) -> Iterator[FeatureBatch]:
        """All features in batches of at most so many triples; a batch never spans two parts."""
        for batch in self._table.batches(batch_size=batch_size):
            states = (_unpacked(batch[word], len(self.layers), self.dimension) for word in WORDS)
            yield FeatureBatch(batch["id"], *states)


def open_features(store: Store, corpus_root: str | None = None, allow_incomplete: bool = False) -> Features:
    """Features for reading; StoreError unless they are complete and of the triples that the corpus has now.

    The corpus is by default the one that the store lies in.
    """
    content = store.corpus()
    if content.get("passes") != [PASS]:
        raise StoreError(f"{store.url} holds no features; `features_store` tells where those of a corpus are")
    corpus_root = corpus_root or store.url.rpartition(f"/{PASS}/")[0]
    made_of, now = content["triples"], _fingerprint(TripleStore(corpus_root))
    if made_of != now:
        raise StoreError(
            f"{store.url} holds features of other triples than {corpus_root} has: {_described(made_of)} then, "
            f"{_described(now)} now; make the features again"
        )
    features = Features(store)
    if not (features.complete or allow_incomplete):
        raise StoreError(f"{store.url}: not all features are computed yet; make them again with the same settings")
    return features


def _described(triples: Mapping[str, Any]) -> str:
    finished = "" if triples["complete"] else ", build not finished"
    return f"{triples['rows']:,} triples (parts {triples['parts'][:8]}{finished})"
