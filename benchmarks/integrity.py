"""What it costs to look at every byte: passes over committed parts, a node's copy of features and batches of it.

What checks take is measured while each reader works. It counts in full, though parts are fetched and checked while the
reader works on those before.

python -m benchmarks.integrity [--sentences 100000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import ParamSpec, TypeVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.rows import Found, Row, seconds
from benchmarks.scale_inputs import harvested
from benchmarks.training import settings
from corpusgen.engine.parts import part_records
from corpusgen.store import CommittedTable, Plan, Store
from corpusgen.tables import SELECTION
from corpusgen.targets.stages import FetchTargets, SketchCandidates
from corpusgen.targets.vocabulary import count_words, make_vocabulary, merge_counts
from distiller.training import data
from distiller.training.data import FeatureChunk, MappedFeatures
from distiller.training.loop import Training

LEAST = 0.98  # of the speed without checks
_LAYERS, _DIMENSION = 6, 384

P = ParamSpec("P")
T = TypeVar("T")


def run(sentences: int = 100_000, rounds: int = 5) -> Found:
    """All readers, one after the other; so many sentences are a unit of the passes that read them."""
    with tempfile.TemporaryDirectory() as folder:
        store = _store(folder, sentences)
        table = CommittedTable(store, "harvest", "sentences")
        parts = pa.Table.from_pylist(part_records(table))
        sketch, fetch = SketchCandidates(sentences, seed=0, store=store), FetchTargets(store=store)
        sketch.setup()
        fetch.setup()
        size = sum(part.bytes for part in table.parts) / 1e6
        rows = [
            _compared("sketching candidates", lambda: sketch.process(parts), size, rounds),
            _compared("fetching targets", lambda: fetch.process(parts), size, rounds),
            *_features(folder, rounds),
        ]
    return Found(rows)


def _compared(name: str, work: Callable[[], object], size: float, rounds: int, bar: float | None = LEAST) -> Row:
    """The share of the work that is not spent on checks, as if nothing of them were done while others wait."""
    shares: list[float] = []
    best = float("inf")
    for _ in range(rounds):
        clock = _Clock()
        with ExitStack() as stack:
            stack.enter_context(patch("corpusgen.store.parts.zlib", SimpleNamespace(crc32=clock.timed(zlib.crc32))))
            stack.enter_context(patch("distiller.training.data._checksums", clock.timed(data._checksums)))
            took = seconds(work, time.process_time)
        shares.append(1 - clock.spent / took)
        best = min(best, took)
    ratio = statistics.median(shares)
    return Row(f"{name}, with checks", "without", ratio, bar, f"{size / best:,.0f} MB/s")


class _Clock:
    """The time of a processor that checks take, in whatever thread."""

    def __init__(self) -> None:
        self.spent = 0.0

    def timed(self, check: Callable[P, T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            started = time.thread_time()
            result = check(*args, **kwargs)
            self.spent += time.thread_time() - started
            return result

        return call


def _commit(store: Store, pass_name: str, name: str, table: pa.Table, parts: int = 1) -> None:
    """A pass of so many units with this table."""
    plan = Plan.of(pass_name, [[{"number": number}] for number in range(parts)], {name: table.schema})
    store.pass_store(pass_name).ensure_plan(plan)
    rows = -(-table.num_rows // parts)
    for number, unit in enumerate(plan.units):
        store.pass_store(pass_name).commit(unit.id, "1", {name: table.slice(number * rows, rows)}, [], [])


def _store(folder: str, sentences: int) -> Store:
    """Sentences in parts of 25,000, and a vocabulary and a selection of theirs."""
    found = CommittedTable(harvested(folder), "harvest", "sentences").to_table()
    random = np.random.default_rng(0)
    rows = found.take(random.integers(0, found.num_rows, sentences))
    rows = rows.set_column(0, "id", pa.array(f"{number:024x}" for number in range(sentences)))
    store = Store.at(f"{folder}/parts")
    _commit(store, "harvest", "sentences", rows, max(1, sentences // 25_000))
    _commit(store, "vocabulary", "vocabulary", make_vocabulary(merge_counts([count_words(rows)])))
    chosen = random.permutation(sentences)[: sentences // 65]  # as 1,000,000 targets are of all English
    zeros = np.zeros(len(chosen), np.int32)
    columns = [pa.array([f"{number:024x}" for number in chosen]), pa.array(["word"] * len(chosen)), zeros, zeros, zeros]
    _commit(store, "selection", "selection", pa.table(columns, schema=SELECTION))
    return store


def _features(folder: str, rounds: int, triples: int = 4096, batch: int = 128) -> Iterator[Row]:
    """A node's copy of committed features, training steps on it, and both for one epoch; states as of MiniLM."""
    random = np.random.default_rng(0)
    states = random.standard_normal((triples, 3, _LAYERS, _DIMENSION), np.float32).astype(np.float16)
    kind = pa.binary(states[0].nbytes)
    column = pa.FixedSizeBinaryArray.from_buffers(kind, triples, [None, pa.py_buffer(states)])
    ids = pa.array([f"{number:024x}" for number in range(triples)])
    store = Store.at(f"{folder}/features")
    _commit(store, "features", "features", pa.table({"id": ids, "states": column}), parts=4)
    table = CommittedTable(store, "features", "features")

    def chunks() -> Iterator[FeatureChunk]:
        for some in table.batches(batch_size=1024):
            first = some["states"].offset * states[0].size
            numbers = np.frombuffer(some["states"].buffers()[1], np.float16, len(some) * states[0].size, 2 * first)
            yield FeatureChunk(some["id"].to_pylist(), numbers.reshape(len(some), *states.shape[1:]))

    copies = itertools.count()
    size = states.nbytes / 1e6

    def copied() -> MappedFeatures:
        return MappedFeatures.open(Path(folder) / "cache", f"copy {next(copies)}", chunks)

    def trained() -> None:
        steps = Training(settings(batch), copied()).steps(lambda step: 1e-4)
        for _ in range(triples // batch):
            next(steps)

    yield _compared("a node's copy of features", copied, size, rounds, bar=None)
    yield _compared("a training of one epoch", trained, size, max(2, rounds // 2))


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    for row in run(**vars(parser.parse_args())).rows:
        print(f"{row.name}: {row.ratio:.3f} of the speed without (at least {row.bar}), {row.ours}")


if __name__ == "__main__":
    main()
