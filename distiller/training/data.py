"""The order of training: which triples are held out, which come in which step, and their layer states from disk.

Everything follows from the ids, a seed and the number of the step: nothing else has to be remembered to resume.
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
"""Numbers of triples: their rows among the features."""

T = TypeVar("T")


class Split(NamedTuple):
    """The rows to train on, and those to validate with in the order of their hashes: neighbours are strangers."""

    training: Rows
    validation: Rows


def is_held_out(ids: Sequence[str | bytes] | NDArray[Any], share: float, salt: str) -> NDArray[np.bool_]:
    """Whether each sentence belongs to the `share` never trained on: a hash of its id says so, whatever the corpus."""
    return _held_out(_hashes(ids, salt), share)


def split(ids: Sequence[str | bytes] | NDArray[Any], share: float, at_most: int, salt: str) -> Split:
    """Train on what is not held out, validate with the held-out sentences of lowest hash, `at_most` triples of them.

    As the corpus grows no triple changes sides, and those of lower hash take the places of others in validation:
    what is held out and has no place there is not trained on either. Triples of one sentence stay together, even if
    that leaves places empty.
    """
    hashes = _hashes(ids, salt)
    held_out = _held_out(hashes, share)
    chosen = np.flatnonzero(held_out)
    chosen = chosen[np.argsort(hashes[chosen], kind="stable")]
    if len(chosen) > at_most:
        bound = hashes[chosen[at_most]]  # of the first that has no place
        chosen = chosen[hashes[chosen] < bound]
    return Split(np.flatnonzero(~held_out), chosen)


def _held_out(hashes: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    return (hashes >> np.uint64(11)) * 2.0**-53 < share  # as many bits as a float holds exactly


def _hashes(ids: Sequence[str | bytes] | NDArray[Any], salt: str) -> NDArray[np.uint64]:
    salted = hashlib.blake2b(salt.encode() + b"\0", digest_size=8)

    def digest(sentence: str | bytes) -> bytes:
        state = salted.copy()
        state.update(sentence if isinstance(sentence, bytes) else sentence.encode())
        return state.digest()

    return np.frombuffer(b"".join(map(digest, ids)), "<u8")


class EpochOrder:
    """The batches of a training: in each epoch every row once, in a seeded order. Steps are counted over all epochs."""

    def __init__(self, num_rows: int, batch_size: int, seed: int) -> None:
        if num_rows < 1 or batch_size < 1:
            raise ValueError(f"there must be rows and room in a batch, not {num_rows} rows in batches of {batch_size}")
        self.num_rows = num_rows
        self.batch_size = batch_size
        self.seed = seed
        self.steps_per_epoch = -(-num_rows // batch_size)
        self._epoch, self._permutation = -1, np.empty(0, np.int64)

    def batch(self, step: int) -> Rows:
        """The rows of a step; an epoch's last may have fewer than the others."""
        epoch, step_in_epoch = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            generator = np.random.Generator(np.random.PCG64((self.seed, epoch)))
            self._epoch, self._permutation = epoch, generator.permutation(self.num_rows)
        start = step_in_epoch * self.batch_size
        return self._permutation[start : start + self.batch_size]


def rank_range(size: int, rank: int, workers: int) -> range:
    """Which places of a batch a worker has: one after the other, as equal as can be, perhaps none of a small one."""
    return range(size * rank // workers, size * (rank + 1) // workers)


def rank_slice(batch: Rows, rank: int, workers: int) -> Rows:
    """The worker's part of a batch."""
    places = rank_range(len(batch), rank, workers)
    return batch[places.start : places.stop]


class FeatureChunk(NamedTuple):
    """Some triples in the order of the corpus: ids of their sentences, and float16 (rows, 3, layers, dimension)."""

    ids: Sequence[str]
    states: NDArray[np.float16]


class Source(Protocol):
    """The layer states of all triples, wherever they come from."""

    ids: NDArray[np.bytes_]
    """The sentence id of each row."""
    dimension: int
    dtype: torch.dtype
    """In which they lose nothing."""

    def __len__(self) -> int: ...

    def batch(self, rows: Rows, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The states of some triples: (3, rows, layers, dimension)."""
        ...


class MappedFeatures:
    """Layer states that were computed before, as one file on the node's disk, which all its workers map into memory.

    Each row has a checksum, and is compared with it whenever it is read: the file may be read for weeks.
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
        """Map the copy of the features that `fingerprint` names; the first worker of a node makes it of `chunks`."""
        hashed = ("shape.json", "checksums.npy", "ids.npy")
        copy = local_copy(cache, fingerprint, lambda folder: _write_features(folder, chunks()), hashed=hashed)
        shape = tuple(json.loads((copy / "shape.json").read_text()))
        return cls(np.memmap(copy / "states.f16", np.float16, "r", shape=shape), np.load(copy / "ids.npy"), copy)

    def batch(self, rows: Rows, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The states of some triples: (3, rows, layers, dimension)."""
        states = self._states[rows]
        self._check(rows, states)
        by_word = torch.from_numpy(states).transpose(0, 1)
        return torch.empty(by_word.shape, dtype=dtype).copy_(by_word)

    def _check(self, rows: Rows, states: NDArray[np.float16]) -> None:
        """StageError if rows are not what was written."""
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
    """One of each row."""
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
    """A worker's part of the batch of a step: the places from `first_row` on among the `size` of all workers."""

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
    """What a worker trains on from a step on, without end; `order` is an order of the places in `rows`.

    `pinned` memory stays in its place, so that a GPU can fetch it by itself.
    """
    for step in itertools.count(first_step):
        batch = order.batch(step)
        states = features.batch(rows[rank_slice(batch, rank, workers)], dtype)
        states = states.pin_memory() if pinned else states
        yield RankBatch(step, rank_range(len(batch), rank, workers).start, len(batch), states)


def prefetched(items: Iterable[T], depth: int = 4) -> Generator[T]:
    """The same items, up to `depth` of them made ahead by a thread, which ends when this generator is closed."""
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
        except BaseException as error:  # the consumer's to deal with
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
