"""The report of a training as one HTML page: its progress, its losses and what it was made from."""

from __future__ import annotations

import logging
from pathlib import Path

from corpusgen.pages.html import RELOAD_SECONDS, to_bytes, write_page
from distiller.training.report.facts import RunFacts
from distiller.training.report.page import to_html
from distiller.training.run_folder import RunFolder

PAGE = "report.html"
"""The name of the page in the folder of its run."""

__all__ = ["PAGE", "RunFacts", "refresh_report", "to_html", "write_report"]

log = logging.getLogger(__name__)


def write_report(output: str, path: Path | None = None) -> str:
    """Write the page of a run in its current state, to `path` or to the run's folder, and return its address."""
    run = RunFolder(output)
    text = to_html(RunFacts.read(run))
    if path is None:
        run.files.write(PAGE, to_bytes(text))
        return f"{run.url}/{PAGE}"
    write_page(path, text)
    return str(path)


def refresh_report(run: RunFolder) -> None:
    """Write the page of a training in progress, which reloads itself."""
    try:
        run.files.write(PAGE, to_bytes(to_html(RunFacts.read(run), RELOAD_SECONDS)))
    except Exception:  # a page is not worth a failure
        log.warning("cannot write %s/%s", run.url, PAGE, exc_info=True)
