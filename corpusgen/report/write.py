"""Putting the page in its place, once or again and again while a build goes on."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from corpusgen.errors import CorpusgenError, StoreUnavailableError
from corpusgen.report.collect import Collector
from corpusgen.report.page import to_html

WATCH_SECONDS = 15

log = logging.getLogger(__name__)


def write_report(root: str, path: Path) -> int:
    """The report of a store as it is now; how many bytes it has."""
    return _put(path, to_html(Collector(root).refresh()))


def watch_report(
    root: str,
    path: Path,
    on_written: Callable[[int], None] = lambda size: None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Write it again every few seconds, until the build is complete; `on_written` hears of each time."""
    collector: Collector | None = None
    while True:
        try:
            collector = collector or Collector(root)
            facts = collector.refresh()
        except StoreUnavailableError as error:
            log.warning("%s; looking again in %d s", error, WATCH_SECONDS)
            collector = None  # it may have counted half of a unit
        else:
            on_written(_put(path, to_html(facts, None if facts.complete else WATCH_SECONDS)))
            if facts.complete:
                return
        sleep(WATCH_SECONDS)


def _put(path: Path, text: str) -> int:
    """Whoever opens the page meanwhile sees the old one or the new one, never half of one."""
    data = text.encode("utf-8", "replace")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError as error:
        raise CorpusgenError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    return len(data)
