"""The command `corpusgen estimate`."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any

import typer

from corpusgen.extras import require
from corpusgen.io.command_line import AsJson, Config, Overrides


def estimate(
    config: Config,
    targets: Annotated[int, typer.Option("--sample", help="Number of targets to make triples of.", min=20)] = 500,
    price: Annotated[
        list[str] | None, typer.Option(help="Price of an hour: --price gpu=2.50/h,cpu=0.04/h.", metavar="KIND=PRICE/h")
    ] = None,
    workers: Annotated[
        list[str] | None,
        typer.Option(
            help="Also estimate the time with these workers: --workers translate=8,mask=4.", metavar="STAGE=N"
        ),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the rows, hours, bytes and cost of a build by running a sample of its source on this machine.

    Does not touch any store. Example: corpusgen estimate my.yaml --price gpu=2.50/h --workers translate=8,mask=4
    """
    require("corpusgen estimate", extra="corpus")
    from corpusgen.config.build import load_config
    from corpusgen.ops.estimate.workers import parse_prices

    settings, prices = load_config(config, overrides or []), parse_prices(price or [])
    from corpusgen.ops.estimate.estimate import estimate as estimate_build
    from corpusgen.ops.estimate.render import lines

    found = estimate_build(settings, targets, prices, workers or [], lambda line: typer.echo(line, err=True))
    typer.echo(json.dumps(_plain(dataclasses.asdict(found))) if as_json else "\n".join(lines(found)))


def _plain(value: Any) -> Any:
    """Turn named tuples into objects, which JSON would otherwise show as lists."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
