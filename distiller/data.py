"""The order of training: which triples are held out, which come in which step, and their layer states from disk.

Everything follows from the ids, a seed and the number of the step: nothing else has to be remembered to resume.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import json
import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from corpusgen.errors import StageError

Rows = NDArray[np.int64]
"""Numbers of triples: their rows among the features."""

T = TypeVar("T")


class Split(NamedTuple):
    """The rows to train on and those to validate with."""

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
    if len(chosen) > at_most:
        bound = np.partition(hashes[chosen], at_most)[at_most]  # the first hash that has no place
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


class MappedFeatures:
    """The layer states of all triples as one file on the node's disk, which all its workers map into memory.

    `ids` are the sentence ids of the rows, as bytes.
    """

    def __init__(self, states: NDArray[np.float16], ids: NDArray[np.bytes_]) -> None:
        self._states = states
        self.ids = ids
        self.layers, self.dimension = states.shape[2:]

    def __len__(self) -> int:
        return len(self._states)

    @staticmethod
    def open(folder: str | Path, fingerprint: str, chunks: Callable[[], Iterable[FeatureChunk]]) -> MappedFeatures:
        """Map the copy in `folder` of the features that have this fingerprint; if there is none, make it from `chunks`.

        Of all workers of a node one makes it while the others wait. A copy counts once its description, written
        last, is there; one that a crash left unfinished is begun again.
        """
        name = hashlib.blake2b(fingerprint.encode(), digest_size=8).hexdigest()
        copy = _Copy(Path(folder) / f"features-{name}", fingerprint)
        with copy.lock():
            return copy.load(copy.shape() or copy.make(chunks()))

    def batch(self, rows: Rows, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The states of some triples: (3, rows, layers, dimension)."""
        states = torch.from_numpy(self._states[rows]).transpose(0, 1)
        return torch.empty(states.shape, dtype=dtype).copy_(states)


class _Copy:
    """The files of a local copy: float16 values, the ids, a description and a lock."""

    def __init__(self, base: Path, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        self._states, self._ids, self._json, self._lock, self._partial = (
            base.with_suffix(suffix) for suffix in (".f16", ".ids.npy", ".json", ".lock", ".partial")
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other workers of the node out; the system takes the lock from a worker that dies."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with open(self._lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def shape(self) -> tuple[int, ...] | None:
        """The shape of the states, if the copy is whole and of the right features."""
        try:
            described = json.loads(self._json.read_text())
            sizes = [path.stat().st_size for path in (self._states, self._ids)]
            whole = described["fingerprint"] == self._fingerprint and described["sizes"] == sizes
            return tuple(described["shape"]) if whole else None
        except (FileNotFoundError, ValueError, KeyError):
            return None

    def load(self, shape: tuple[int, ...]) -> MappedFeatures:
        """Map the states and read the ids."""
        return MappedFeatures(np.memmap(self._states, np.float16, "r", shape=shape), np.load(self._ids))

    def make(self, chunks: Iterable[FeatureChunk]) -> tuple[int, ...]:
        """Write all files, the description last, and give the shape of the states."""
        try:
            self._json.unlink(missing_ok=True)
            shape, ids = self._write_states(chunks)
            with open(self._partial, "wb") as file:
                np.save(file, ids)
                _settle(file, self._ids)
            sizes = [path.stat().st_size for path in (self._states, self._ids)]
            with open(self._partial, "wb") as file:
                file.write(json.dumps({"fingerprint": self._fingerprint, "shape": shape, "sizes": sizes}).encode())
                _settle(file, self._json)
            return shape
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            written = self._partial.stat().st_size if self._partial.exists() else 0
            raise StageError(
                f"no room in {self._states.parent} for a copy of the features (full after {written / 1e9:.1f} GB): "
                "free some space or choose a folder on a larger local disk"
            ) from error
        finally:
            self._partial.unlink(missing_ok=True)

    def _write_states(self, chunks: Iterable[FeatureChunk]) -> tuple[tuple[int, ...], NDArray[np.bytes_]]:
        ids: list[bytes] = []
        shape: tuple[int, ...] | None = None
        with open(self._partial, "wb") as file:
            for chunk in chunks:
                shape = shape or chunk.states.shape[1:]
                expected = (len(chunk.ids), *shape)
                if chunk.states.dtype != np.float16 or chunk.states.shape != expected or len(expected) != 4:
                    found = f"{chunk.states.dtype} {chunk.states.shape}"
                    raise ValueError(f"features of {len(chunk.ids)} ids must be float16 {expected}, not {found}")
                file.write(np.ascontiguousarray(chunk.states).data)
                ids += [sentence.encode() for sentence in chunk.ids]
            if not ids or shape is None:
                raise StageError("the features have no rows: there is nothing to train on; build some triples first")
            _settle(file, self._states)
        return (len(ids), *shape), np.array(ids)


def _settle(file: Any, path: Path) -> None:
    """Make a written file durable, then give it its name."""
    file.flush()
    os.fsync(file.fileno())
    os.replace(file.name, path)


@dataclass(frozen=True)
class RankBatch:
    """A worker's part of the batch of a step: the places from `first_row` on among the `size` of all workers."""

    step: int
    first_row: int
    size: int
    states: torch.Tensor


def rank_batches(
    features: MappedFeatures,
    rows: Rows,
    order: EpochOrder,
    *,
    first_step: int,
    rank: int,
    workers: int,
    dtype: torch.dtype = torch.float32,
) -> Iterator[RankBatch]:
    """What a worker trains on from a step on, without end; `order` is an order of the places in `rows`."""
    for step in itertools.count(first_step):
        batch = order.batch(step)
        states = features.batch(rows[rank_slice(batch, rank, workers)], dtype)
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
