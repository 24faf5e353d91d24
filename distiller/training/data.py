"""Training data: which rows are held out, which ones each step uses, and their layer states from disk.

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
from distiller.words.row_facts import BatchFacts, RowFacts, distinct_words

Rows = NDArray[np.int64]
"""Row numbers in the features, (B,)."""

T = TypeVar("T")


class Split(NamedTuple):
    """The rows to train on and the rows to validate with. In the latter, neighbours are unrelated."""

    training: Rows
    validation: Rows


def is_held_out(ids: Sequence[str | bytes] | NDArray[Any], share: float, salt: str) -> NDArray[np.bool_]:
    """Return whether each sentence or document is in the `share` never trained on. Only a hash of its id decides."""
    return _held_out(_hashes(ids, salt), share)


def split(ids: Sequence[str | bytes] | NDArray[Any], share: float, at_most: int, salt: str) -> Split:
    """Split rows for training and validation: validate with `at_most` held-out rows, those of the lowest hashes.

    As the corpus grows, no row changes sides. New rows with lower hashes replace others in validation. Held-out rows
    that validation has no room for are not trained on either. Rows of one sentence or document stay together, even if
    that leaves room in validation.
    """
    hashes = _hashes(ids, salt)
    held_out = _held_out(hashes, share)
    chosen = np.flatnonzero(held_out)
    chosen = chosen[np.argsort(hashes[chosen], kind="stable")]
    if len(chosen) > at_most:
        bound = hashes[chosen[at_most]]  # the hash of the first row that does not fit
        chosen = chosen[hashes[chosen] < bound]
    return Split(np.flatnonzero(~held_out), chosen[_spread(hashes[chosen])])


def without_sentences_of(
    held_out: Rows, rows: Rows, facts: RowFacts, is_optional: Sequence[bool]
) -> tuple[Rows, RowFacts]:
    """Return the rows to train on, and all facts, such that no sentence of a held-out row is trained on.

    A member that is optional and has such a sentence is marked as absent; rows with another such member are left out.
    """
    sentences = np.unique(facts["sentences"][held_out])
    facts, allowed = facts.copy(), np.ones(len(facts), bool)
    for number, may_lack in enumerate(is_optional):
        met = np.isin(facts["sentences"][:, number], sentences[sentences != 0])
        if may_lack:
            met[held_out] = False
            facts["present"][met] &= np.uint8(~(1 << number) & 0xFF)
        else:
            allowed &= ~met
    return rows[allowed[rows]], facts


def _spread(hashes: NDArray[np.uint64]) -> Rows:
    """Return an order of sorted hashes in which equal ones are evenly spread, and so no neighbours if that is possible.

    Rows of one document have equal hashes. Hashes that occur once keep their order.
    """
    _, first, group, count = np.unique(hashes, return_index=True, return_inverse=True, return_counts=True)
    place = (np.arange(len(hashes)) - first[group] + 0.5) / count[group]
    return np.lexsort((hashes, place))


def _held_out(hashes: NDArray[np.uint64], share: float) -> NDArray[np.bool_]:
    return (hashes >> np.uint64(11)) * 2.0**-53 < share  # the bits that a float holds exactly


def _hashes(ids: Sequence[str | bytes] | NDArray[Any], salt: str) -> NDArray[np.uint64]:
    salted = hashlib.blake2b(salt.encode() + b"\0", digest_size=8)

    def digest(group: str | bytes) -> bytes:
        state = salted.copy()
        state.update(group if isinstance(group, bytes) else group.encode())
        return state.digest()

    return np.frombuffer(b"".join(map(digest, ids)), "<u8")


class EpochOrder:
    """The batches of a training: every row once per epoch, in a seeded order. Steps count across epochs."""

    def __init__(self, num_rows: int, batch_size: int, seed: int) -> None:
        if num_rows < 1 or batch_size < 1:
            raise ValueError(f"rows and batch size must be positive, not {num_rows} rows in batches of {batch_size}")
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
    """Return a worker's consecutive rows of a batch: as equal as possible, none if the batch is too small."""
    return range(size * rank // workers, size * (rank + 1) // workers)


def rank_slice(batch: Rows, rank: int, workers: int) -> Rows:
    """Return a worker's part of a batch."""
    own = rank_range(len(batch), rank, workers)
    return batch[own.start : own.stop]


class FeatureChunk(NamedTuple):
    """Rows in the order of the corpus: ids, float16 states (N, M, L, D), facts of the words.

    Rows with the same id are held out together: it is that of their sentence, or of their document.

    Without facts, each row has a word of its own: `distinct_words`.
    """

    ids: Sequence[str]
    states: NDArray[np.float16]
    facts: RowFacts | None = None


class Source(Protocol):
    """A source of the layer states of all rows."""

    ids: NDArray[np.bytes_]
    """The id of each row's sentence or document."""
    facts: RowFacts
    """Which word each row is about, and whether its second member is another one."""
    layers: int
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

    def __init__(
        self,
        states: NDArray[np.float16],
        ids: NDArray[np.bytes_],
        copy: Path | None = None,
        facts: RowFacts | None = None,
    ) -> None:
        self._states = states
        self._copy = copy
        self._checksums: NDArray[np.uint32] | None = None if copy is None else np.load(copy / "checksums.npy")
        self.ids = ids
        self.facts = distinct_words(len(ids)) if facts is None else facts
        self.layers, self.dimension = states.shape[2:]

    def __len__(self) -> int:
        return len(self._states)

    @classmethod
    def open(cls, cache: str | Path, fingerprint: str, chunks: Callable[[], Iterable[FeatureChunk]]) -> MappedFeatures:
        """Map the copy of the features that `fingerprint` names; the first worker on a node makes it from `chunks`."""
        hashed = ("shape.json", "checksums.npy", "ids.npy", "facts.npy")
        copy = local_copy(cache, fingerprint, lambda folder: _write_features(folder, chunks()), hashed=hashed)
        shape = tuple(json.loads((copy / "shape.json").read_text()))
        states = np.memmap(copy / "states.f16", np.float16, "r", shape=shape)
        return cls(states, np.load(copy / "ids.npy"), copy, np.load(copy / "facts.npy"))

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
                f"{self._copy}: this node's copy of the layer states is damaged, for example in row {damaged[0]}; it "
                "will be made again. If this happens again, the disk or the memory is failing: choose another disk "
                "with the setting `cache`, or another node"
            )


class JoinedSources:
    """The rows of several sources, one after another; the frozen model and the members of a row are the same in all."""

    def __init__(self, sources: Sequence[Source]) -> None:
        kinds = {(source.layers, source.dimension, source.dtype) for source in sources}
        if len(kinds) != 1:
            raise ValueError(f"sources of different layers, dimensions or types cannot be joined: {kinds}")
        ((self.layers, self.dimension, self.dtype),) = kinds
        self._sources = sources
        self._starts = np.cumsum([0, *(len(source) for source in sources[:-1])])
        self.ids = np.concatenate([source.ids for source in sources])
        self.facts = np.concatenate([source.facts for source in sources])

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: Rows, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return the states of some rows, (M, B, L, D)."""
        owner = np.searchsorted(self._starts, rows, side="right") - 1
        parts = [
            source.batch(rows[owner == number] - self._starts[number], dtype)
            for number, source in enumerate(self._sources)
        ]
        places = np.argsort(np.argsort(owner, kind="stable"))  # of the rows among the parts
        return torch.cat(parts, dim=1).index_select(1, torch.from_numpy(places))


def _checksums(states: NDArray[np.float16]) -> NDArray[np.uint32]:
    """Return the checksum of each row, (N,)."""
    return np.fromiter(map(zlib.crc32, states), np.uint32, len(states))


def _write_features(folder: Path, chunks: Iterable[FeatureChunk]) -> None:
    ids: list[bytes] = []
    checksums: list[NDArray[np.uint32]] = []
    facts: list[RowFacts] = []
    shape: tuple[int, ...] | None = None
    with open(folder / "states.f16", "wb") as file:
        for chunk in chunks:
            shape = shape or chunk.states.shape[1:]
            expected = (len(chunk.ids), *shape)
            if chunk.states.dtype != np.float16 or chunk.states.shape != expected or len(expected) != 4:
                found = f"{chunk.states.dtype} {chunk.states.shape}"
                raise ValueError(f"features of {len(chunk.ids)} ids must be float16 {expected}, not {found}")
            if chunk.facts is not None and len(chunk.facts) != len(chunk.ids):
                raise ValueError(f"there are facts of {len(chunk.facts)} rows with {len(chunk.ids)} ids")
            states = np.ascontiguousarray(chunk.states)
            finite = np.isfinite(states).all((1, 2, 3))
            if not finite.all():
                raise StageError(
                    f"the features of the sentence or document {chunk.ids[int(np.argmin(finite))]!r} are NaN or "
                    "infinite, so nothing can be learned from them; remove the folder `features` of the corpus and run "
                    "this again"
                )
            file.write(states.data)
            checksums.append(_checksums(states))
            facts.append(distinct_words(len(states), len(ids)) if chunk.facts is None else chunk.facts)
            ids += [sentence.encode() for sentence in chunk.ids]
    if not ids or shape is None:
        raise StageError("the features have no rows, so there is nothing to train on; build a larger corpus")
    np.save(folder / "ids.npy", np.array(ids))
    np.save(folder / "facts.npy", np.concatenate(facts))
    np.save(folder / "checksums.npy", np.concatenate(checksums))
    (folder / "shape.json").write_text(json.dumps([len(ids), *shape]))


@dataclass(frozen=True)
class RankBatch:
    """A worker's part of the batch of a step; it starts at `first_row` of the batch's `size` rows."""

    step: int
    first_row: int
    size: int
    states: torch.Tensor
    """(M, B, L, D)"""
    facts: BatchFacts


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
    facts: RowFacts | None = None,
) -> Iterator[RankBatch]:
    """Yield a worker's batches without end, starting at `first_step`; `order` permutes the positions in `rows`.

    The `facts` of all rows are by default those of `features`. With `pinned`, tensors are in page-locked memory, from
    which a GPU can copy by itself.
    """
    all_facts = features.facts if facts is None else facts
    for step in itertools.count(first_step):
        batch = order.batch(step)
        mine = rows[rank_slice(batch, rank, workers)]
        states = features.batch(mine, dtype)
        mine_facts = BatchFacts.of(all_facts[mine])
        if pinned:
            states, mine_facts = states.pin_memory(), mine_facts.pin_memory()
        yield RankBatch(step, rank_range(len(batch), rank, workers).start, len(batch), states, mine_facts)


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
