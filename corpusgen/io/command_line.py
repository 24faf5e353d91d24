"""Options, output and error handling that the command lines of both packages share."""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import Annotated, Any, TextIO

import typer

from corpusgen.errors import CorpusgenError
from corpusgen.io.terminal import visible_json, visible_lines

Config = Annotated[str, typer.Argument(help="YAML file with the settings.", metavar="CONFIG")]
Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster; default: start Ray on this machine.")]
Overrides = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set KEY.PATH=VALUE.")]
Root = Annotated[str, typer.Argument(help="Root of the store: a folder or s3://bucket/prefix.", metavar="ROOT")]
TableOption = Annotated[
    str | None,
    typer.Option("--table", help="Which table, if the corpus has several, such as pairs.", metavar="TABLE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
ShowConfig = Annotated[bool, typer.Option("--show-config", help="Print all settings and exit.")]


def new_app(purpose: str) -> typer.Typer:
    """Return a command line without commands."""
    return typer.Typer(help=purpose, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


def run(app: typer.Typer, name: str) -> None:
    """Run a command; an error that the user can fix becomes one message and an exit code."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Visible("%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a character the terminal cannot show must not stop the run
        sys.stdout.reconfigure(errors="replace")
    try:
        app()
    except CorpusgenError as error:
        say(f"{name}: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def say(text: str = "", err: bool = False) -> None:
    """Print text for people, with invisible characters shown as escapes."""
    stream = sys.stderr if err else sys.stdout
    stream.write(visible_lines(text) + "\n")
    stream.flush()  # readers of a pipe should see the line at once


def as_json(value: Any, stream: TextIO | None = None, indent: int | None = None) -> str:
    """Return JSON for a stream (default: standard output), escaping characters its encoding lacks.

    For a terminal, invisible characters are escaped too; a file gets them as they are.
    """
    encoding = (stream or sys.stdout).encoding or ""
    text = json.dumps(value, ensure_ascii=encoding.lower() not in ("utf-8", "utf8"), indent=indent)
    return visible_json(text) if stream is None or stream.isatty() else text


class _Visible(logging.Formatter):
    """A log formatter that escapes invisible characters, since log records quote names and errors too."""

    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record))
