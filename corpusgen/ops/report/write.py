"""Writing of the page, once or repeatedly while a build runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from corpusgen.errors import StoreUnavailableError
from corpusgen.ops.report.collect import Collector
from corpusgen.ops.report.page import to_html
from corpusgen.pages.html import RELOAD_SECONDS, write_page

log = logging.getLogger(__name__)


def write_report(root: str, path: Path, table: str | None = None) -> int:
    """Write the report of a store as it is now, of all products or of one; return its size in bytes."""
    return write_page(path, to_html(Collector(root, table).refresh()))


def watch_report(
    root: str,
    path: Path,
    on_written: Callable[[int], None] = lambda size: None,
    sleep: Callable[[float], None] = time.sleep,
    table: str | None = None,
) -> None:
    """Write the report every few seconds, until the build is complete; call `on_written` with its size each time."""
    collector: Collector | None = None
    while True:
        try:
            collector = collector or Collector(root, table)
            facts = collector.refresh()
        except StoreUnavailableError as error:
            log.warning("%s; trying again in %d s", error, RELOAD_SECONDS)
            collector = None  # the old one may have counted half of a unit
        else:
            on_written(write_page(path, to_html(facts, None if facts.complete else RELOAD_SECONDS)))
            if facts.complete:
                return
        sleep(RELOAD_SECONDS)
