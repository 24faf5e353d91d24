"""A training as one HTML page: how far it is, how its losses went, what it was made of."""

from __future__ import annotations

import logging
from pathlib import Path

from corpusgen.pages.html import RELOAD_SECONDS, to_bytes, write_page
from distiller.training.report.facts import RunFacts
from distiller.training.report.page import to_html
from distiller.training.run_folder import RunFolder

PAGE = "report.html"
"""The page in the folder of its run."""

__all__ = ["PAGE", "RunFacts", "refresh_report", "to_html", "write_report"]

log = logging.getLogger(__name__)


def write_report(output: str, path: Path | None = None) -> str:
    """The page of a run as it is now, in a file or in the folder of the run; where it is."""
    run = RunFolder(output)
    text = to_html(RunFacts.read(run))
    if path is None:
        run.files.write(PAGE, to_bytes(text))
        return f"{run.url}/{PAGE}"
    write_page(path, text)
    return str(path)


def refresh_report(run: RunFolder) -> None:
    """Write the page of a training that goes on, which loads itself again and again."""
    try:
        run.files.write(PAGE, to_bytes(to_html(RunFacts.read(run), RELOAD_SECONDS)))
    except Exception:  # a page is not worth a failure
        log.warning("%s/%s cannot be written", run.url, PAGE, exc_info=True)
