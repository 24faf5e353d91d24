"""What the command lines of both packages share: options, and how a command ends."""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import Annotated, Any, TextIO

import typer

from corpusgen.errors import CorpusgenError

Config = Annotated[str, typer.Argument(help="YAML file with the settings.", metavar="CONFIG")]
Address = Annotated[str | None, typer.Option(help="A Ray cluster; without one, Ray is started on this machine.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set KEY.PATH=VALUE.")]
Root = Annotated[str, typer.Argument(help="Root of the store: a folder or s3://bucket/prefix.", metavar="ROOT")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ShowConfig = Annotated[bool, typer.Option("--show-config", help="Print all settings and stop.")]


def new_app(purpose: str) -> typer.Typer:
    """A command line with commands still to be added."""
    return typer.Typer(help=purpose, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def run(app: typer.Typer, name: str) -> None:
    """Run a command; errors that the user can put right are one message and an exit code."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    if isinstance(sys.stdout, io.TextIOWrapper):  # an arrow that a terminal cannot show is no reason to stop
        sys.stdout.reconfigure(errors="replace")
    try:
        app()
    except CorpusgenError as error:
        sys.stderr.write(f"{name}: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def as_json(value: Any, stream: TextIO | None = None) -> str:
    """A line of JSON for a stream, by default standard output: what it has no letters for is escaped, not lost."""
    encoding = (stream or sys.stdout).encoding or ""
    return json.dumps(value, ensure_ascii=encoding.lower() not in ("utf-8", "utf8"))
