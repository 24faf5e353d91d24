"""The command line of the word models."""

from __future__ import annotations

import typer

from distiller import __version__

app = typer.Typer(
    help="Train and use word models made from a store of triples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _root() -> None:
    """Train and use word models made from a store of triples."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run a command."""
    app()


if __name__ == "__main__":
    main()
