"""Training data: which triples are held out, which ones each step uses, and their layer states from disk.

Everything follows from the ids, a seed and the number of the step, so resuming needs nothing else.

Shapes: M members of a row, B rows of a batch, N rows of a file or chunk, L layers, D dimensions.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from corpusgen.errors import StageError
from corpusgen.io.node_cache import discard, local_copy

Rows = NDArray[np.int64]
"""Row numbers of triples in the features, (B,)."""

T = TypeVar("T")


class Split(NamedTuple):
    """The rows to train on and the rows to validate with. The latter are sorted by hash: neighbours are unrelated."""

    training: Rows
    validation: Rows


def is_held_out(ids: Sequence[str | bytes] | NDArray[Any], share: float, salt: str) -> NDArray[np.bool_]:
    """Return whether each sentence is in the `share` never trained on. Only a hash of its id decides."""
    return _held_out(_hashes(ids, salt), share)


def split(ids: Sequence[str | bytes] | NDArray[Any], share: float, at_most: int, salt: str) -> Split:
    """Split rows for training and validation: validate with `at_most` held-out triples, those of the lowest hashes.

    As the corpus grows, no triple changes sides. New triples with lower hashes replace others in validation. Held-out
    triples that validation has no place for are not trained on either. Triples of one sentence stay together, even
    if that leaves places empty.
    """
    hashes = _hashes(ids, salt)
    held_out = _held_out(hashes, share)
    chosen = np.flatnonzero(held_out)
    chosen = chosen[np.argsort(hashes[chosen], kind="stable")]
    if len(chosen) > at_most:
        bound = hashes[chosen[at_most]]  # the hash of the first triple without a place
        chosen = chosen[hashes[chosen] < bound]
    return Split(np.flatnonzero(~held_out), chosen)


def _held_out(hashes: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    return (hashes >> np.uint64(11)) * 2.0**-53 < share  # the bits that a float holds exactly


def _hashes(ids: Sequence[str | bytes] | NDArray[Any], salt: str) -> NDArray[np.uint64]:
    salted = hashlib.blake2b(salt.encode() + b"\0", digest_size=8)

    def digest(sentence: str | bytes) -> bytes:
        state = salted.copy()
        state.update(sentence if isinstance(sentence, bytes) else sentence.encode())
        return state.digest()

    return np.frombuffer(b"".join(map(digest, ids)), "<u8")


class EpochOrder:
    """The batches of a training: every row once per epoch, in a seeded order. Steps count across epochs."""

    def __init__(self, num_rows: int, batch_size: int, seed: int) -> None:
        if num_rows < 1 or batch_size < 1:
            raise ValueError(f"there must be rows and room in a batch, not {num_rows} rows in batches of {batch_size}")
        self.num_rows = num_rows
        self.batch_size = batch_size
        self.seed = seed
        self.steps_per_epoch = -(-num_rows // batch_size)
        self._epoch, self._permutation = -1, np.empty(0, np.int64)

    def batch(self, step: int) -> Rows:
        """Return the rows of a step, (B,); the last batch of an epoch may be smaller."""
        epoch, step_in_epoch = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            generator = np.random.Generator(np.random.PCG64((self.seed, epoch)))
            self._epoch, self._permutation = epoch, generator.permutation(self.num_rows)
        start = step_in_epoch * self.batch_size
        return self._permutation[start : start + self.batch_size]


def rank_range(size: int, rank: int, workers: int) -> range:
    """Return a worker's consecutive places in a batch: as equal as possible, none if the batch is too small."""
    return range(size * rank // workers, size * (rank + 1) // workers)


def rank_slice(batch: Rows, rank: int, workers: int) -> Rows:
    """Return a worker's part of a batch."""
    places = rank_range(len(batch), rank, workers)
    return batch[places.start : places.stop]


class FeatureChunk(NamedTuple):
    """Rows in the order of the corpus: the ids of their sentences, and float16 states (N, M, L, D)."""

    ids: Sequence[str]
    states: NDArray[np.float16]


class Source(Protocol):
    """A source of the layer states of all rows."""

    ids: NDArray[np.bytes_]
    """The sentence id of each row."""
    dimension: int
    dtype: torch.dtype
    """The type that holds the states without loss."""

    def __len__(self) -> int: ...

    def batch(self, rows: Rows, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return the states of some rows, (M, B, L, D)."""
        ...


class MappedFeatures:
    """Precomputed layer states in one file on the node's disk, which all its workers map into memory.

    Every read checks the checksum of each row, because the file may be in use for weeks.
    """

    dtype = torch.float16

    def __init__(self, states: NDArray[np.float16], ids: NDArray[np.bytes_], copy: Path | None = None) -> None:
        self._states = states
        self._copy = copy
        self._checksums: NDArray[np.uint32] | None = None if copy is None else np.load(copy / "checksums.npy")
        self.ids = ids
        self.layers, self.dimension = states.shape[2:]

    def __len__(self) -> int:
        return len(self._states)

    @classmethod
    def open(cls, cache: str | Path, fingerprint: str, chunks: Callable[[], Iterable[FeatureChunk]]) -> MappedFeatures:
        """Map the copy of the features that `fingerprint` names; the first worker on a node makes it from `chunks`."""
        hashed = ("shape.json", "checksums.npy", "ids.npy")
        copy = local_copy(cache, fingerprint, lambda folder: _write_features(folder, chunks()), hashed=hashed)
        shape = tuple(json.loads((copy / "shape.json").read_text()))
        return cls(np.memmap(copy / "states.f16", np.float16, "r", shape=shape), np.load(copy / "ids.npy"), copy)

    def batch(self, rows: Rows, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return the states of some rows, (M, B, L, D)."""
        states = self._states[rows]
        self._check(rows, states)
        by_word = torch.from_numpy(states).transpose(0, 1)
        return torch.empty(by_word.shape, dtype=dtype).copy_(by_word)

    def _check(self, rows: Rows, states: NDArray[np.float16]) -> None:
        """Raise StageError if the states of rows are not those that were written."""
        if self._copy is None or self._checksums is None:
            return
        damaged = rows[_checksums(states) != self._checksums[rows]]
        if len(damaged):
            discard(self._copy)
            raise StageError(
                f"{self._copy}: this node's copy of the layer states is damaged, in row {damaged[0]} for one; it will "
                "be made again. If this comes again, the disk or the memory is failing: choose another disk by the "
                "setting `cache`, or another node"
            )


def _checksums(states: NDArray[np.float16]) -> NDArray[np.uint32]:
    """Return the checksum of each row, (N,)."""
    return np.fromiter(map(zlib.crc32, states), np.uint32, len(states))


def _write_features(folder: Path, chunks: Iterable[FeatureChunk]) -> None:
    ids: list[bytes] = []
    checksums: list[NDArray[np.uint32]] = []
    shape: tuple[int, ...] | None = None
    with open(folder / "states.f16", "wb") as file:
        for chunk in chunks:
            shape = shape or chunk.states.shape[1:]
            expected = (len(chunk.ids), *shape)
            if chunk.states.dtype != np.float16 or chunk.states.shape != expected or len(expected) != 4:
                found = f"{chunk.states.dtype} {chunk.states.shape}"
                raise ValueError(f"features of {len(chunk.ids)} ids must be float16 {expected}, not {found}")
            states = np.ascontiguousarray(chunk.states)
            finite = np.isfinite(states).all((1, 2, 3))
            if not finite.all():
                raise StageError(
                    f"the features of sentence {chunk.ids[int(np.argmin(finite))]!r} are NaN or infinite, and nothing "
                    "can be learned from them: remove the folder `features` of the corpus to have them made again"
                )
            file.write(states.data)
            checksums.append(_checksums(states))
            ids += [sentence.encode() for sentence in chunk.ids]
    if not ids or shape is None:
        raise StageError("the features have no rows: there is nothing to train on; build some triples first")
    np.save(folder / "ids.npy", np.array(ids))
    np.save(folder / "checksums.npy", np.concatenate(checksums))
    (folder / "shape.json").write_text(json.dumps([len(ids), *shape]))


@dataclass(frozen=True)
class RankBatch:
    """A worker's part (M, B, L, D) of the batch of a step; it starts at `first_row` of the batch's `size` rows."""

    step: int
    first_row: int
    size: int
    states: torch.Tensor


def rank_batches(
    features: Source,
    rows: Rows,
    order: EpochOrder,
    *,
    first_step: int,
    rank: int,
    workers: int,
    dtype: torch.dtype = torch.float32,
    pinned: bool = False,
) -> Iterator[RankBatch]:
    """Yield a worker's batches without end, starting at `first_step`; `order` permutes the places in `rows`.

    With `pinned`, states are in page-locked memory, from which a GPU can copy by itself.
    """
    for step in itertools.count(first_step):
        batch = order.batch(step)
        states = features.batch(rows[rank_slice(batch, rank, workers)], dtype)
        states = states.pin_memory() if pinned else states
        yield RankBatch(step, rank_range(len(batch), rank, workers).start, len(batch), states)


def prefetched(items: Iterable[T], depth: int = 4) -> Generator[T]:
    """Yield the items; a thread makes up to `depth` of them ahead and ends when this generator is closed."""
    ready: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
    free = threading.Semaphore(depth - 1)
    stopped = threading.Event()

    def produce() -> None:
        try:
            for item in items:
                ready.put((item,))
                free.acquire()
                if stopped.is_set():
                    return
            ready.put(None)
        except BaseException as error:  # the consumer raises it
            ready.put(error)

    thread = threading.Thread(target=produce, name="prefetch", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            free.release()
            yield item[0]
    finally:
        stopped.set()
        free.release()
        thread.join()
