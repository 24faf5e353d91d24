"""Layer states computed in training, again in every epoch: for corpora whose states are too large to keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from corpusgen.errors import StageError
from corpusgen.io.node_cache import local_copy
from corpusgen.store import TripleStore
from distiller.training.data import Rows
from distiller.words.backbone import Backbone
from distiller.words.features import TRIPLE_COLUMNS, WORDS


class OnlineFeatures:
    """The states of the triples' words by a backbone of the worker's own; the texts lie on the node's disk.

    The rows are those that cached features have: triples of which the backbone finds all three words.
    """

    dtype = torch.float32  # nobody has looked whether they fit into half of it

    def __init__(self, triples: pa.Table, ids: NDArray[np.bytes_], backbone: Backbone) -> None:
        self._triples = triples
        self._backbone = backbone
        self.ids = ids
        self.dimension = backbone.dimension

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def open(cls, cache: str | Path, fingerprint: str, triples: TripleStore, backbone: Backbone) -> OnlineFeatures:
        """Map the copy of the triples that `fingerprint` names; the first worker of a node makes it."""
        copy = local_copy(
            cache,
            f"online {fingerprint}",
            lambda folder: _write(folder, triples, backbone),
            hashed=("triples.arrow", "ids.npy"),
        )
        with pa.memory_map(str(copy / "triples.arrow")) as source:
            table = pa.ipc.open_file(source).read_all()
        return cls(table, np.load(copy / "ids.npy"), backbone)

    def batch(self, rows: Rows, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The states of some triples: (3, rows, layers, dimension)."""
        # All three words of all rows at once: the more texts, the more of them have the same length.
        texts, spans = _words(self._triples.take(pa.array(rows)))
        states, _ = self._backbone.states(texts, spans)
        return torch.from_numpy(states.reshape(len(WORDS), len(rows), *states.shape[1:])).to(dtype)


def _words(triples: pa.Table | pa.RecordBatch) -> tuple[list[str], list[tuple[int, int]]]:
    """Text and span of the original of each triple, then of each positive, then of each negative."""
    texts: list[str] = []
    spans: list[tuple[int, int]] = []
    for text, start, end in WORDS.values():
        texts += triples[text].to_pylist()
        spans += zip(triples[start].to_pylist(), triples[end].to_pylist(), strict=True)
    return texts, spans


def _write(folder: Path, triples: TripleStore, backbone: Backbone) -> None:
    ids: list[bytes] = []
    schema = pa.schema([triples.schema.field(name) for name in TRIPLE_COLUMNS])
    with pa.ipc.new_file(folder / "triples.arrow", schema) as file:
        for batch in triples.batches(TRIPLE_COLUMNS):
            reasons = np.array([reason is None for reason in backbone.reasons(*_words(batch))])
            usable = batch.filter(pa.array(reasons.reshape(len(WORDS), -1).all(axis=0)))
            file.write_batch(usable.cast(schema))
            ids += [sentence.encode() for sentence in usable["id"].to_pylist()]
    if not ids:
        raise StageError("the backbone finds no word of any triple: are they of its language?")
    np.save(folder / "ids.npy", np.array(ids))
