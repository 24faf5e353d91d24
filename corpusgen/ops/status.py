"""The status of a build, for `corpusgen status`: how far and how fast it is, from its store alone.

With `--watch`, a terminal shows a table that redraws itself; elsewhere, each change is a line.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from corpusgen.errors import StoreUnavailableError
from corpusgen.io.command_line import as_json as to_json
from corpusgen.io.terminal import visible
from corpusgen.io.units import duration, unit_rate
from corpusgen.ops.report.throughput import Finished, without_breaks
from corpusgen.ops.summary import as_dict, failures, headline, stage_lines
from corpusgen.store import Commit, Store, Totals
from corpusgen.store.status import StoreStatus

LOOK_SECONDS = 5.0
_REST = 10  # reading very many commits takes a while: then wait ten times as long before the next look
_RECENT = 200  # number of latest commits that determine the pace

log = logging.getLogger(__name__)
Say = Callable[[str], None]


class Pace:
    """The pace at which the units of a pass are committed, judged by the latest of them."""

    def __init__(self) -> None:
        self._recent: list[Finished] = []

    def add(self, commits: Iterable[Commit]) -> None:
        """Add commits, in any order: each says when it was made."""
        known = (*self._recent, *map(Finished.of, commits))
        self._recent = sorted((unit for unit in known if unit.time), key=lambda unit: unit.time)[-_RECENT:]

    @property
    def latest(self) -> float | None:
        """Return when the last unit was committed."""
        return self._recent[-1].time if self._recent else None

    def units_per_second(self, now: float) -> float | None:
        """Return the pace since the build was last started, by the latest units; None with fewer than two of them."""
        stretches = without_breaks(self._recent)
        units = stretches[-1][2] if stretches else []
        seconds = max(now, units[-1].time) - units[0].time if units else 0.0
        return (len(units) - 1) / seconds if len(units) > 1 and seconds > 0 else None


class BuildStatus(StoreStatus):
    """The passes of a store with their pace; `look` brings them up to date."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._paces: dict[str, Pace] = {}
        self.url = store.url

    def look(self) -> tuple[list[str], float]:
        """Read what is new; return the passes that have changed or begun, and how many seconds the reading took."""
        started, changed = time.monotonic(), []
        for name, commits in self.refresh().items():
            if commits or name not in self._paces:
                changed.append(name)
            self._paces.setdefault(name, Pace()).add(commits)
        return changed, time.monotonic() - started

    @property
    def begun(self) -> list[str]:
        """Return the passes that have begun."""
        return list(self._paces)

    def totals(self, name: str) -> Totals:
        """Return the totals of a pass that has begun."""
        return self.passes[name].totals

    def pace(self, name: str, now: float) -> tuple[float | None, float | None, float | None]:
        """Return units per second, seconds to go, and seconds since the last commit; None for what is unknown."""
        totals, pace = self.totals(name), self._paces[name]
        rate = None if totals.complete else pace.units_per_second(now)
        to_go = (totals.units - totals.committed) / rate if rate else None
        # The clock of the worker that committed it may be ahead of ours.
        return rate, to_go, None if pace.latest is None else max(0.0, now - pace.latest)

    def line(self, name: str, now: float) -> str:
        """Return a pass as one line."""
        return headline(name, self.totals(name)) + "".join(f", {words}" for words in self._pace_in_words(name, now))

    def _pace_in_words(self, name: str, now: float) -> Iterator[str]:
        rate, to_go, age = self.pace(name, now)
        if rate is not None:
            yield unit_rate(rate)
        if to_go is not None:
            yield f"{duration(to_go)} to go"
        if age is not None and not self.totals(name).complete:
            yield f"last commit {duration(age)} ago"

    def lines(self, now: float) -> Iterator[str]:
        """Yield everything line by line, with the stages and some of the failures."""
        for name, status in self.passes.items():
            yield self.line(name, now)
            yield from stage_lines(status.totals)
            yield from (f"    {line}" for line in failures(status, self.url))

    def as_dict(self, now: float) -> dict[str, Any]:
        """Return everything, for JSON."""
        names = ("units_per_second", "seconds_to_go", "seconds_since_last_commit")
        return {
            name: {**as_dict(self.totals(name)), **dict(zip(names, self.pace(name, now), strict=True))}
            for name in self._paces
        }


def watch(store: Store, say: Say, as_json: bool = False, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the status again and again, until the build is complete."""
    status = BuildStatus(store)
    changed, seconds = status.look()  # a store error now is for the user to see; a later one may pass
    with ExitStack() as stack:
        live: Live | None = None
        if sys.stdout.isatty() and not as_json:
            live = stack.enter_context(Live(get_renderable=lambda: _table(status), auto_refresh=False))
        while True:
            if live:
                live.refresh()
            elif changed:
                _say_what_changed(status, changed, say, as_json)
            if status.complete:
                return
            for _ in range(round(max(LOOK_SECONDS, _REST * seconds))):
                sleep(1.0)
                if live:
                    live.refresh()  # the age of the last commit grows between two looks
            try:
                changed, seconds = status.look()
            except StoreUnavailableError as error:
                log.warning("%s; trying again in %.0f s", error, LOOK_SECONDS)
                changed, seconds = [], 0.0


def _say_what_changed(status: BuildStatus, changed: Iterable[str], say: Say, as_json: bool) -> None:
    now = time.time()
    if as_json:
        say(to_json(status.as_dict(now)))
    else:
        for name in changed:
            say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {status.line(name, now)}")


def _table(status: BuildStatus) -> Group:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("pass")
    for column in ("units", "rows", "rejected", "quarantined", "pace", "to go", "last commit"):
        table.add_column(column, justify="right")
    for name in status.planned:
        table.add_row(
            Text(visible(name)), *(_cells(status, name, time.time()) if name in status.begun else ["not started"])
        )
    return Group(Text(visible(status.url), "bold"), table)


def _cells(status: BuildStatus, name: str, now: float) -> Iterator[str]:
    totals, (rate, to_go, age) = status.totals(name), status.pace(name, now)
    yield f"{totals.committed:,} of {totals.units:,}"
    yield f"{next(iter(totals.rows.values()), 0):,}"
    yield f"{totals.rejected:,}"
    yield f"[red]{totals.quarantined:,}[/red]" if totals.quarantined else "0"
    yield "" if rate is None else unit_rate(rate)
    yield "" if to_go is None else duration(to_go)
    yield "" if age is None else f"{duration(age)} ago"
