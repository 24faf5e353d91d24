"""A corpus in three passes, small enough for thousands of builds, made by the project's own engine and store.

`lines` reads ranges of a text, `words` merges what all of them counted, `rows` reads the lines again with the words.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from corpusgen.engine import Pass, RunSettings
from corpusgen.engine.counters import Tally
from corpusgen.engine.isolate import run_stage
from corpusgen.engine.parts import OverParts, part_records, row_slices
from corpusgen.engine.passes import Sink, first_batch, run_pass
from corpusgen.errors import StoreUnavailableError
from corpusgen.sources import readers, streams
from corpusgen.store import CommittedTable, PassStore, Store, Unit
from corpusgen.store.records import Reads, hash_of_parts
from corpusgen.tables import PARAGRAPHS
from tests.simulation.world import Process, SimulatedFiles, World

WORDS = pa.schema([("word", pa.string()), ("count", pa.int64())])
ROWS = pa.schema([("article", pa.string()), ("count", pa.int64())])
PASSES = ("lines", "words", "rows")
TABLES = {"lines": "lines", "words": "words", "rows": "rows"}
READS = {
    "words": Reads(("lines", "lines")),
    "rows": Reads(("lines", "lines"), whole=("words", "words")),
}
UNIT_BYTES = 40
# The same for everybody: a unit's id follows from the path and the time of its file, and a seed must do the same again.
_FOLDER = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()) / "wicdistil-simulation"
_TEXTS = 25


@cache
def text(number: int) -> str:
    """A file whose lines are from empty to several units long."""
    dice = random.Random(number)
    lines = [" ".join(f"w{dice.randrange(6)}" for _ in range(dice.choice((0, 1, 3, 5, 30)))) for _ in range(9)]
    _FOLDER.mkdir(exist_ok=True)
    path = _FOLDER / f"{number}.txt"
    mine = path.with_suffix(f".{os.getpid()}")
    mine.write_text("\n".join(lines) + dice.choice(("", "\n")))
    os.utime(mine, (1, 1))
    mine.replace(path)
    return str(path)


@dataclass
class CountWords(OverParts):
    """The lines of all parts → how often each word is there."""

    name: ClassVar[str] = "count"
    whole: ClassVar[bool] = True
    adds: ClassVar[tuple[str, ...]] = tuple(WORDS.names)

    def process(self, rows: pa.Table) -> pa.Table:
        texts = (text for table in self._tables(rows) for text in table["text"].to_pylist())
        counts = Counter(word for text in texts for word in text.split())
        words = sorted(counts)
        return pa.table([words, [counts[word] for word in words]], schema=WORDS)


@dataclass
class WeighLines(OverParts):
    """Lines, and how often all of their words are in the corpus."""

    name: ClassVar[str] = "weigh"
    needs: ClassVar[tuple[str, ...]] = ("part", "sha256", "first", "rows")
    adds: ClassVar[tuple[str, ...]] = tuple(ROWS.names)

    def process(self, rows: pa.Table) -> pa.Table:
        words = self._committed("words", "words")
        counts = dict(zip(words["word"].to_pylist(), words["count"].to_pylist(), strict=True))
        found: list[tuple[str, int]] = []
        ranges = zip(rows["first"].to_pylist(), rows["rows"].to_pylist(), strict=True)
        for table, (first, count) in zip(self._tables(rows), ranges, strict=True):
            lines = table.slice(first, count)
            weights = [sum(counts.get(word, 0) for word in line.split()) for line in lines["text"].to_pylist()]
            found += zip(lines["article"].to_pylist(), weights, strict=True)
        return pa.table([[row[0] for row in found], [row[1] for row in found]], schema=ROWS)


def passes(store: Store, number: int) -> list:
    """Functions that plan the passes, each when the one before is complete."""

    def lines() -> Pass:
        slices = readers.range_slices([text(number)], UNIT_BYTES)
        return Pass("lines", [readers.PlainText()], slices, {"lines": PARAGRAPHS})

    def words() -> Pass:
        parts = part_records(CommittedTable(store, "lines", "lines", finished=True))
        return Pass("words", [CountWords(store=store)], [parts] if parts else [], {"words": WORDS})

    def rows() -> Pass:
        together = hash_of_parts(CommittedTable(store, "words", "words", finished=True).parts)
        slices = row_slices(part_records(CommittedTable(store, "lines", "lines", finished=True)), 3)
        slices = [[{**record, "with": together} for record in group] for group in slices]
        return Pass("rows", [WeighLines(store=store)], slices, {"rows": ROWS})

    return [lines, words, rows]


def build(world: World, number: int, workers: int) -> Store:
    """What a driver does, from beginning to end."""
    store = Store(SimulatedFiles(world))
    store.ensure_corpus({"passes": list(PASSES), "text": number})
    for plan in passes(store, number):
        pass_ = plan()
        run_pass(pass_, store.pass_store(pass_.name), Workers(world, workers), RunSettings())
    return store


class Workers:
    """The protocol of `RayExecutor`: workers take units; a unit whose worker dies is done again as another attempt."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number

    def run(self, pass_: Pass, store: PassStore, units: Sequence[Unit], tally: Tally) -> None:
        """Do and commit the units."""
        driver = self._world.current
        waiting = list(units)
        self._world.random.shuffle(waiting)
        failures = 0
        kept: dict[int, list] = {worker: [] for worker in range(self._number)}
        running: dict[int, tuple[Process, Unit]] = {}
        while waiting or running:
            for worker in range(self._number):
                if worker in running or not waiting:
                    continue
                unit = waiting.pop()
                attempt = f"{self._world.random.getrandbits(32):x}"
                name = f"{driver.name if driver else 'driver'}-worker{worker}"
                code = lambda unit=unit, attempt=attempt, kept=kept[worker]: do(pass_, store, unit, attempt, kept)  # noqa: E731
                running[worker] = self._world.start(name, code, driver), unit
            self._world.sleep(0.02)
            for worker, (process, unit) in list(running.items()):
                if process.alive:
                    continue
                del running[worker]
                if process.error and not isinstance(process.error, StoreUnavailableError):
                    raise process.error
                if process.killed or process.error:
                    kept[worker] = []  # another process
                    failures += 1
                    if failures > 50:
                        raise StoreUnavailableError("too much fails")
                    if not store.is_committed(unit.id):
                        waiting.append(unit)


def do(pass_: Pass, store: PassStore, unit: Unit, attempt: str, kept: list) -> bool:
    """What a worker does with a unit; `kept` is the stream that its process has open."""
    batch = first_batch(unit.records)
    streams._kept[:] = kept
    try:
        for stage in pass_.stages:
            batch = run_stage(stage, batch)
    finally:
        kept[:] = streams._kept
        streams._kept.clear()
    return Sink(store, pass_.tables).commit(unit.id, attempt, batch)


@cache
def expected(number: int) -> dict[str, list[dict]]:
    """The rows of each pass when one process reads the file from end to end."""
    lines, position = [], 0
    for line in Path(text(number)).read_bytes().splitlines(keepends=True):
        if line.strip():
            lines.append((str(position), line.decode().strip()))
        position += len(line)
    counts = Counter(word for _, line in lines for word in line.split())
    return {
        "lines": [{"article": article, "text": line} for article, line in lines],
        "words": [{"word": word, "count": counts[word]} for word in sorted(counts)],
        "rows": [{"article": article, "count": sum(counts[w] for w in line.split())} for article, line in lines],
    }


def found(store: Store) -> dict[str, list[dict]]:
    """The rows that a reader gets."""
    tables = {name: CommittedTable(store, name, TABLES[name]).to_table() for name in PASSES}
    tables["lines"] = tables["lines"].select(["article", "text"])
    return {name: table.to_pylist() for name, table in tables.items()}
