"""The command line of the word models."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from corpusgen.errors import CorpusgenError
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


@app.command()
def train(
    config: Annotated[str, typer.Argument(help="YAML file with the settings.", metavar="CONFIG")],
    address: Annotated[
        str | None, typer.Option(help="A Ray cluster; without one, Ray is started on this machine.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting, for example --set workers=2.")
    ] = None,
    show_config: Annotated[bool, typer.Option("--show-config", help="Print all settings and stop.")] = False,
) -> None:
    """Train a word model on a corpus of triples, or go on with it: the same command resumes.

    Example: distiller train configs/distill_dev_real.yaml --set output=runs/mine
    """
    import yaml

    from corpusgen.config import load_settings
    from distiller.settings import TrainSettings

    settings = load_settings(TrainSettings, config, overrides or [])
    if show_config:
        typer.echo(yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False).rstrip())
        return
    from distiller.train import train as run_training

    run_training(settings, address, typer.echo)


def main() -> None:
    """Run a command; errors that the user can put right are one message and an exit code."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        app()
    except CorpusgenError as error:
        sys.stderr.write(f"distiller: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
