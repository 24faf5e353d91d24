"""Checkpoints of a training that several workers share.

Every worker writes its rows, in pieces of bounded size. Then one of them writes the manifest, a small file with the
hashes of all pieces: only it makes them a checkpoint. The checkpoint before it is kept, in case this one gets damaged;
older ones and whatever killed workers left behind are removed after that.

A piece says which words it holds, so a training may resume with another number of workers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from corpusgen.errors import ConfigError, DamagedPartError, StoreError
from corpusgen.io.files import Files
from corpusgen.io.strict_json import from_json
from distiller.static.x2static.trainer import ShardTrainer

FOLDER = "checkpoints"
_MAGIC = b"wicdistil X2Static checkpoint, sha256 "
_SUFFIX = ".safetensors"
_PIECE_BYTES = 64 << 20  # a worker holds one in memory beside its rows


@dataclass(frozen=True)
class Piece:
    """A file with the state of some words: `first`, `first + apart`, `first + 2·apart`, …"""

    name: str
    sha256: str
    first: int
    apart: int
    count: int

    @property
    def words(self) -> range:
        """Return the words of the piece."""
        return range(self.first, self.first + self.apart * self.count, self.apart)


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint, as its manifest describes it."""

    step: int
    """The number of steps done."""
    vocabulary: int
    dimension: int
    pieces: list[Piece]
    history: dict[str, Any]
    """What else the caller wants to find again after a restart."""


class Rows(NamedTuple):
    """Some rows of the vocabulary: their words, states (n, 3, D) and touches (n,)."""

    words: range
    state: NDArray[np.float32]
    touches: NDArray[np.int32]


def write_shard(files: Files, trainer: ShardTrainer) -> list[Piece]:
    """Write the rows of a worker; return the pieces, which make a checkpoint with those of all workers."""
    at_once = max(1, _PIECE_BYTES // (12 * trainer.dimension))
    pieces: list[Piece] = []
    for start in range(0, len(trainer.rows), at_once):
        rows = slice(start, start + at_once)
        words = trainer.rows[rows]
        data = save({"state": trainer.state[rows], "touches": trainer.touches[rows]})
        name = f"{trainer.steps:012}.{trainer.rank}-of-{trainer.workers}.{len(pieces):05}{_SUFFIX}"
        files.write(f"{FOLDER}/{name}", data)
        pieces.append(Piece(name, sha256(data).hexdigest(), words.start, words.step, len(words)))
    return pieces


def commit(files: Files, checkpoint: Checkpoint) -> None:
    """Make the pieces of all workers a checkpoint, then remove those that no one needs any more."""
    held = np.zeros(checkpoint.vocabulary, np.int64)
    for piece in checkpoint.pieces:
        held[piece.first : piece.words.stop : piece.apart] += 1
    if (held != 1).any():
        raise ValueError(f"word {np.flatnonzero(held != 1)[0]} is not in exactly one piece of step {checkpoint.step}")
    files.write(_manifest(checkpoint.step), _packed(checkpoint))
    _remove_older(files, checkpoint)


def latest(files: Files, say: Callable[[str], None]) -> Checkpoint | None:
    """Return the last checkpoint whose files are all as they were written; None before the first.

    The one before it replaces a damaged checkpoint, and `say` reports this. One process should call this before the
    workers start: all must resume from the same one, and what is damaged or unfinished is removed.
    """
    damaged: dict[int, str] = {}
    for step in reversed(_committed(files)):
        try:
            checkpoint = _unpacked(files, step)
            for piece in checkpoint.pieces:
                _read(files, piece)
        except DamagedPartError as error:
            damaged[step] = error.problem
            continue
        if damaged:
            say(f"{next(iter(damaged.values()))}; resuming from the previous checkpoint, at step {step:,}")
        _remove_remains(files, damaged)
        return checkpoint
    if damaged:
        raise StoreError(
            "\n".join(damaged.values()) + "\nthere is no other checkpoint to resume from; remove "
            f"{files.url}/{FOLDER} to train from the beginning"
        )
    return None


def restore(files: Files, checkpoint: Checkpoint, trainer: ShardTrainer) -> None:
    """Give a worker its rows out of a checkpoint, by however many workers it was written."""
    found, wanted = (checkpoint.vocabulary, checkpoint.dimension), (trainer.vocabulary, trainer.dimension)
    if found != wanted:
        raise ConfigError(
            f"{files.url}/{FOLDER} has {found[0]:,} words of {found[1]} dimensions, but this training has "
            f"{wanted[0]:,} words of {wanted[1]}; choose another folder, or remove that one"
        )
    needed = [piece for piece in checkpoint.pieces if len(_own_places(piece.words, trainer))]
    for words, state, touches in rows_of(files, needed):
        places = _own_places(words, trainer)
        rows = (words.start + words.step * places) // trainer.workers
        trainer.state[rows], trainer.touches[rows] = state[places], touches[places]
    trainer.steps = checkpoint.step


def rows_of(files: Files, pieces: Iterable[Piece]) -> Iterator[Rows]:
    """Yield the rows of pieces, one piece after the other; raise DamagedPartError at one that is damaged."""
    for piece in pieces:
        arrays = load(_read(files, piece))
        yield Rows(piece.words, arrays["state"], arrays["touches"])


def _own_places(words: range, trainer: ShardTrainer) -> NDArray[np.int64]:
    """Return where the words of a worker are among these."""
    return np.flatnonzero(np.arange(words.start, words.stop, words.step) % trainer.workers == trainer.rank)


def _read(files: Files, piece: Piece) -> bytes:
    path = f"{FOLDER}/{piece.name}"
    try:
        data = files.read(path)
    except FileNotFoundError:
        raise _damaged(files, path, "is missing") from None
    if sha256(data).hexdigest() != piece.sha256:
        raise _damaged(files, path, "is damaged: its content no longer matches its hash")
    return data


def _manifest(step: int) -> str:
    return f"{FOLDER}/{step:012}.json"


def _packed(checkpoint: Checkpoint) -> bytes:
    content = json.dumps(asdict(checkpoint)).encode()
    return _MAGIC + sha256(content).hexdigest().encode() + b"\n" + content


def _unpacked(files: Files, step: int) -> Checkpoint:
    """Read a manifest; raise DamagedPartError if it is not as it was written."""
    header, _, content = files.read(_manifest(step)).partition(b"\n")
    if header != _MAGIC + sha256(content).hexdigest().encode():
        raise _damaged(files, _manifest(step), "is damaged: its content no longer matches its hash")
    try:
        return from_json(content, Checkpoint)
    except ValueError as error:
        raise _damaged(files, _manifest(step), f"was written by another version: {error}") from None


def _damaged(files: Files, path: str, problem: str) -> DamagedPartError:
    problem = f"{files.url}/{path} {problem}"
    return DamagedPartError(f"{problem}; run the same command again to resume from the checkpoint before it", problem)


def _committed(files: Files) -> Sequence[int]:
    """Return the steps that have a manifest, in ascending order."""
    names = (info.path.rpartition("/")[2] for info in files.list(FOLDER))
    return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit())


def _remove_older(files: Files, checkpoint: Checkpoint) -> None:
    """Remove all checkpoints but this one and the one before it, and pieces that never became part of one.

    Pieces of later steps are left: faster workers may be writing them.
    """
    kept = [step for step in _committed(files) if step <= checkpoint.step][-2:]
    own = {piece.name for piece in checkpoint.pieces}
    by_name = {info.path.rpartition("/")[2]: info.path for info in files.list(FOLDER)}
    for name in sorted(by_name, key=lambda name: not name.endswith(".json")):  # no manifest outlives its pieces
        step = int(name.partition(".")[0])
        is_old = step < checkpoint.step and step not in kept
        is_replaced = step == checkpoint.step and name.endswith(_SUFFIX) and name not in own
        if is_old or is_replaced:
            files.delete(by_name[name])


def _remove_remains(files: Files, damaged: Iterable[int]) -> None:
    """Remove what killed workers left unfinished, and manifests of damaged checkpoints.

    Otherwise a damaged checkpoint would count as the one before the next, which would then replace the good one.
    """
    for info in [*files.list_unfinished(FOLDER)]:
        files.delete(info.path)
    for step in damaged:
        files.delete(_manifest(step))
