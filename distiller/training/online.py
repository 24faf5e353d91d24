"""Layer states computed during training, anew in every epoch, for corpora whose states are too large to keep.

Shapes: M members of a row, B rows, L layers, D dimensions.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from corpusgen.errors import StageError
from corpusgen.io.node_cache import local_copy
from corpusgen.store import CommittedTable
from corpusgen.store.products import Product
from distiller.training.data import Rows
from distiller.words.backbone import Backbone
from distiller.words.features import member_words
from distiller.words.row_facts import RowFacts, row_facts


class OnlineFeatures:
    """A source of layer states from the worker's own backbone; the texts are on the node's disk.

    It has the same rows as cached features: those where the backbone finds all words.
    """

    dtype = torch.float32  # nothing has checked whether the states fit float16

    def __init__(
        self,
        rows: pa.Table,
        product: Product,
        ids: NDArray[np.bytes_],
        backbone: Backbone,
        facts: RowFacts | None = None,
    ) -> None:
        self._rows, self._product = rows, product
        self._backbone = backbone
        self.ids = ids
        self.facts = row_facts(rows, product) if facts is None else facts
        self.layers, self.dimension = len(backbone.layers), backbone.dimension

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def open(
        cls, cache: str | Path, fingerprint: str, rows: CommittedTable, product: Product, backbone: Backbone
    ) -> OnlineFeatures:
        """Map the copy of the rows that `fingerprint` names; the first worker on a node makes it."""
        copy = local_copy(
            cache,
            f"online {fingerprint}",
            lambda folder: _write(folder, rows, product, backbone),
            hashed=("rows.arrow", "ids.npy", "facts.npy"),
        )
        with pa.memory_map(str(copy / "rows.arrow")) as source:
            table = pa.ipc.open_file(source).read_all()
        return cls(table, product, np.load(copy / "ids.npy"), backbone, np.load(copy / "facts.npy"))

    def batch(self, rows: Rows, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return the states of some rows, (M, B, L, D)."""
        # Encode all words of all rows at once: among more texts, more have the same length.
        texts, spans = member_words(self._rows.take(pa.array(rows)), self._product)
        states, _ = self._backbone.states(texts, spans)
        return torch.from_numpy(states.reshape(len(self._product.members), len(rows), *states.shape[1:])).to(dtype)


def _write(folder: Path, rows: CommittedTable, product: Product, backbone: Backbone) -> None:
    ids: list[bytes] = []
    facts: list[RowFacts] = []
    schema = pa.schema([rows.schema.field(name) for name in product.columns])
    with pa.ipc.new_file(folder / "rows.arrow", schema) as file:
        for batch in rows.batches(product.columns):
            reasons = np.array([reason is None for reason in backbone.reasons(*member_words(batch, product))])
            usable = batch.filter(pa.array(reasons.reshape(len(product.members), -1).all(axis=0)))
            file.write_batch(usable.cast(schema))
            facts.append(row_facts(usable, product))
            ids += [product.group_of(id_).encode() for id_ in usable["id"].to_pylist()]
    if not ids:
        raise StageError("the backbone cannot find the words of any row; check that the corpus is in its language")
    np.save(folder / "ids.npy", np.array(ids))
    np.save(folder / "facts.npy", np.concatenate(facts))
