"""The command `corpusgen doctor`."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from corpusgen.extras import require
from corpusgen.io.command_line import Address, AsJson, Overrides

_COLOURS = {"green": typer.colors.GREEN, "yellow": typer.colors.YELLOW, "red": typer.colors.RED, "grey": "bright_black"}


def doctor(
    config: Annotated[str | None, typer.Argument(help="YAML file with the settings.", metavar="[CONFIG]")] = None,
    address: Address = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Check this machine and, with CONFIG, everything that its build needs, before you pay for any compute.

    Exits with 1 if anything is red. Leaves nothing in the store, and is safe while a build runs.
    Example: corpusgen doctor configs/quickstart.yaml --set store=corpora/mine
    """
    if overrides and config is None:
        raise typer.BadParameter("--set needs a CONFIG whose settings it changes")
    from corpusgen.config.build import load_config

    settings = load_config(config, overrides or []) if config else None
    require("corpusgen doctor", "packaging", "ray", extra="corpus")
    from corpusgen.ops.doctor.examine import examine

    lines = []
    for line in examine(settings, address):
        lines.append(line)
        if not as_json:
            typer.echo(typer.style(line.status_word(), fg=_COLOURS[line.status]) + line.text())
    count = {status: sum(line.status == status for line in lines) for status in _COLOURS}
    if as_json:
        typer.echo(json.dumps({"ok": not count["red"], **count, "lines": [dataclasses.asdict(line) for line in lines]}))
    else:
        typer.echo(f"{count['red']} red, {count['yellow']} yellow, {count['green']} green")
    if count["red"]:
        raise typer.Exit(1)
