"""The command line of the word models. Commands import what they need themselves, so that `--help` answers at once."""

from __future__ import annotations

from typing import Annotated

import typer

from corpusgen.commands import Address, Config, Overrides, ShowConfig, new_app, run
from distiller import __version__

app = new_app("Train and use word models made from a store of triples.")


@app.callback()
def _root() -> None:
    """Train and use word models made from a store of triples."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@app.command()
def train(
    config: Config,
    address: Address = None,
    find_lr: Annotated[
        bool, typer.Option("--find-lr", help="Only look for a good learning rate: raise it until the loss soars.")
    ] = False,
    overrides: Overrides = None,
    show_config: ShowConfig = False,
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
    from distiller.train import find_learning_rate
    from distiller.train import train as run_training

    (find_learning_rate if find_lr else run_training)(settings, address, typer.echo)


def main() -> None:
    """The entry point."""
    run(app, "distiller")


if __name__ == "__main__":
    main()
