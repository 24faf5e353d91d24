"""The command `corpusgen quickstart`, which needs both packages; corpusgen finds it by its entry point."""

from __future__ import annotations

from typing import Annotated

import typer

from corpusgen.extras import require
from corpusgen.io.command_line import say


def quickstart(
    folder: Annotated[str, typer.Option(help="Folder for everything that is made.")] = "quickstart",
    targets: Annotated[
        int | None, typer.Option(help="Number of targets to start with; fewer are faster.", min=50)
    ] = None,
) -> None:
    """Try everything in minutes on this machine: corpus, training, evaluation. Run it again to resume.

    Example: corpusgen quickstart
    """
    require("corpusgen quickstart", extra="quickstart")
    from distiller.quickstart import quickstart as run_quickstart

    run_quickstart(folder, say, targets)
