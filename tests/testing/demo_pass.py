"""A pass that is not about language: numbers in, squares out.

Some numbers are special: `raises` makes the stage raise, `kills` makes it kill its own process.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.engine import Pass, Resources, Result, Stage, split_by_reason

SQUARES = pa.schema([("number", pa.int64()), ("square", pa.int64()), ("text", pa.string())])
REJECTS = pa.schema([("number", pa.int64()), ("reason", pa.string())])


@dataclass
class Count(Stage):
    """A record {start, stop} becomes the numbers from start to stop, each with so many bytes of ballast."""

    name: ClassVar[str] = "count"
    needs: ClassVar[tuple[str, ...]] = ("start", "stop")
    adds: ClassVar[tuple[str, ...]] = ("number",)
    expands: ClassVar[bool] = True

    ballast: int = 0

    def process(self, rows: pa.Table) -> pa.Table:
        ranges = zip(rows["start"].to_pylist(), rows["stop"].to_pylist(), strict=True)
        numbers = pa.array([n for a, b in ranges for n in range(a, b)], pa.int64())
        if not self.ballast:
            return pa.table({"number": numbers})
        return pa.table({"number": numbers, "ballast": pa.array([os.urandom(self.ballast) for _ in numbers])})


@dataclass
class Square(Stage):
    """Adds the square. Multiples of `reject_multiples_of` are rejected."""

    name: ClassVar[str] = "square"
    needs: ClassVar[tuple[str, ...]] = ("number",)
    adds: ClassVar[tuple[str, ...]] = ("square",)

    raises: tuple[int, ...] = ()
    kills: tuple[int, ...] = ()
    most_rows: int | None = None
    """More rows at once do not fit into memory."""
    reject_multiples_of: int = 7

    def process(self, rows: pa.Table) -> Result:
        numbers = rows["number"].to_pylist()
        if set(self.kills) & set(numbers):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.most_rows and len(numbers) > self.most_rows:
            raise MemoryError(f"{len(numbers)} rows do not fit")
        for number in numbers:
            if number in self.raises:
                raise ValueError(f"I cannot square {number}")
        squares = rows.append_column("square", pc.multiply(rows["number"], rows["number"]))
        return split_by_reason(squares, ["multiple" if n % self.reject_multiples_of == 0 else None for n in numbers])


@dataclass
class Spell(Stage):
    """Adds a text; can be made slow, or unable to start."""

    name: ClassVar[str] = "spell"
    needs: ClassVar[tuple[str, ...]] = ("number", "square")
    adds: ClassVar[tuple[str, ...]] = ("text",)

    seconds: float = field(default=0.0, metadata={"content": False})
    slow_until: str = field(default="", metadata={"content": False})
    """A file: once it exists, no time is wasted any more."""
    broken: bool = False

    def setup(self) -> None:
        if self.broken:
            raise RuntimeError("the speller's dictionary is missing")

    def process(self, rows: pa.Table) -> pa.Table:
        if not (self.slow_until and os.path.exists(self.slow_until)):
            time.sleep(self.seconds)
        text = [str(n) for n in rows["number"].to_pylist()]
        return rows.append_column("text", pa.array(text, pa.string()))


def slices(units: int, numbers_each: int) -> list[list[dict[str, int]]]:
    return [[{"start": i * numbers_each, "stop": (i + 1) * numbers_each}] for i in range(units)]


def demo_pass(units: int = 12, numbers_each: int = 50, workers: int | None = 1, **settings) -> Pass:
    """`workers` None leaves the number to the engine; `settings` go to the stages that have a field of that name."""
    resources = Resources(min_workers=workers, max_workers=workers) if workers else Resources()

    def make(stage: type[Stage]) -> Stage:
        fields = {k: v for k, v in settings.items() if k in stage.__dataclass_fields__}
        return stage(**{"resources": resources, **fields})

    return Pass(
        "demo",
        [make(Count), make(Square), make(Spell)],
        slices(units, numbers_each),
        {"squares": SQUARES, "rejects": REJECTS},
    )
