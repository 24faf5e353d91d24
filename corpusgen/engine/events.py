"""The event log: JSON lines, one per finished unit, in files that no two runs share."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from corpusgen.errors import StoreUnavailableError
from corpusgen.store import PassStore, StageCount

_FLUSH_LINES = 5000
_FLUSH_SECONDS = 30.0  # object stores cannot append: each flush is a file of its own


class EventLog:
    """A log that collects lines and writes them in batches.

    Losing the last ones in a crash is harmless: every fact that counts is in the commits.
    """

    def __init__(self, store: PassStore, run: str) -> None:
        self._store = store
        self._run = run
        self._lines: list[str] = []
        self._files = 0
        self._flushed = time.monotonic()

    def add(self, event: str, **fields: Any) -> None:
        """Add an event to the log."""
        line = {"time": round(time.time(), 3), "run": self._run, "event": event, **fields}
        self._lines.append(json.dumps(line, ensure_ascii=False))

    def unit_done(self, unit: str, attempt: int, won: bool, counts: Sequence[StageCount]) -> None:
        """Log that a unit is committed; `won` says whether by this run."""
        stages = [{"stage": c.name, "rows_in": c.rows_in, "rows_out": c.rows_out, "seconds": c.seconds} for c in counts]
        self.add("done", unit=unit, attempt=attempt, won=won, stages=stages)

    def flush(self, force: bool = False) -> None:
        """Write the collected lines if there are enough of them, or if the last write is long ago."""
        due = len(self._lines) >= _FLUSH_LINES or time.monotonic() - self._flushed > _FLUSH_SECONDS
        if not self._lines or not (force or due):
            return
        path = f"{self._store.name}/events/{self._run}-{self._files:06d}.jsonl"
        try:
            self._store.files.write(path, ("\n".join(self._lines) + "\n").encode())
        except StoreUnavailableError:
            return  # the lines stay for the next try
        finally:
            self._flushed = time.monotonic()
        self._files += 1
        self._lines.clear()
