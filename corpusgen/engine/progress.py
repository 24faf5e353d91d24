"""Progress displays: a live table in a terminal, or a line now and then without one."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from corpusgen.engine.counters import Tally
from corpusgen.io.units import duration

_LIVE_SECONDS = 0.5
_LINE_SECONDS = 15.0


class Progress(Protocol):
    """A display of a tally. It is called often and decides when to draw."""

    def update(self, tally: Tally, final: bool = False) -> None:
        """Draw the tally if it is due."""


class Silent:
    """A display that shows nothing, for tests and libraries."""

    def update(self, tally: Tally, final: bool = False) -> None:
        """Draw nothing."""


def terminal_progress() -> Progress:
    """Return the display that suits standard error."""
    return LiveTable() if sys.stderr.isatty() else Lines()


class Lines:
    """A display for logs: a plain line every few seconds and one at the end."""

    def __init__(self) -> None:
        self._drawn = time.monotonic()

    def update(self, tally: Tally, final: bool = False) -> None:
        """Write a line if it is due."""
        if not final and time.monotonic() - self._drawn < _LINE_SECONDS:
            return
        self._drawn = time.monotonic()
        stages = "; ".join(
            f"{stage.count.name} {stage.count.rows_out:,} rows"
            + (f", {rejected:,} rejected" if (rejected := sum(stage.count.rejected.values())) else "")
            + (f", {stage.count.quarantined:,} quarantined" if stage.count.quarantined else "")
            for stage in tally.stages
        )
        sys.stderr.write(f"{headline(tally)} | {stages}\n")
        sys.stderr.flush()


class LiveTable:
    """A table that redraws itself."""

    def __init__(self) -> None:
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)
        self._drawn = 0.0

    def update(self, tally: Tally, final: bool = False) -> None:
        """Redraw the table if it is due."""
        if not final and time.monotonic() - self._drawn < _LIVE_SECONDS:
            return
        if not self._live.is_started:
            self._live.start()
        self._drawn = time.monotonic()
        self._live.update(_table(tally), refresh=True)
        if final:
            self._live.stop()


def headline(tally: Tally) -> str:
    """Return one line that sums up the pass."""
    done = tally.committed
    text = f"{tally.pass_name}: {done:,}/{tally.total_units:,} units, {duration(tally.seconds)}"
    if tally.eta_seconds and done < tally.total_units:
        text += f", {duration(tally.eta_seconds)} to go"
    if tally.retries:
        text += f", {tally.retries:,} retries"
    return text


def _table(tally: Tally) -> Table:
    table = Table(title=headline(tally), title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    table.add_column("stage")
    for column in ("rows in", "rows out", "rows/s", "rejected", "quarantined", "workers", "waiting"):
        table.add_column(column, justify="right")
    for stage in tally.stages:
        count = stage.count
        table.add_row(
            count.name,
            f"{count.rows_in:,}",
            f"{count.rows_out:,}",
            f"{count.rows_in / max(tally.seconds, 1e-9):,.0f}",
            f"{sum(count.rejected.values()):,}",
            f"[red]{count.quarantined:,}[/red]" if count.quarantined else "0",
            str(stage.workers),
            f"{stage.queued} ({stage.queue_age:.0f} s)" if stage.queued else "0",
        )
    return table
