"""The command `static`, which makes static vectors out of a frozen model and a corpus of paragraphs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from corpusgen.extras import require
from corpusgen.io.command_line import Address, Config, Overrides, ShowConfig, say

if TYPE_CHECKING:
    from corpusgen.config.run import RunSettings
    from corpusgen.engine.passes import Executor
    from distiller.static.job import Method


def static(
    config: Config,
    executor: Annotated[
        Literal["ray", "local"], typer.Option(help="Run on Ray, or in a plain loop in this process.")
    ] = "ray",
    address: Address = None,
    form: Annotated[
        Literal["text", "binary", "npy", "model2vec"],
        typer.Option("--format", help="Format of the vectors. Run again with another one to have both."),
    ] = "text",
    data: Annotated[
        str | None,
        typer.Option(help="Folder of benchmarks: cards and report.html get scores.", metavar="FOLDER"),
    ] = None,
    overrides: Overrides = None,
    show_config: ShowConfig = False,
) -> None:
    """Make static word vectors out of a frozen model and a corpus of paragraphs. Run the same command again to resume.

    Example: distiller static configs/static_ase.yaml --set output=vectors/mine
    """
    import yaml

    from corpusgen.config.loading import load_settings
    from distiller.static.settings import StaticSettings

    settings = load_settings(StaticSettings, config, overrides or [])
    if show_config:
        say(yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True).rstrip())
        return
    require("distiller static", *(["ray"] if executor == "ray" else []), extra="static")
    from distiller.static.job import run

    with ExitStack() as stack:
        result = run(settings, lambda method: _executor(method, executor, address, stack), form, say, data)
    files = [f"{settings.output.rstrip('/')}/{name}" for name in result["files"]]
    for path, facts in zip(files, result["files"].values(), strict=True):
        left_out = f" ({facts['left out']:,} that files cannot hold are left out)" if facts["left out"] else ""
        say(f"{facts['words']:,} words, {facts['dimension']} dimensions{left_out}: {path}")
    say(f'in Python: from distiller import StaticVectors; StaticVectors.load("{files[0]}").nearest("river")')
    say(f"how they were made, and some words with their neighbours: {settings.output.rstrip('/')}/report.html")
    if data is None:
        say(f"to score them: distiller evaluate --static {files[0]} --data eval")


def _executor(method: Method, name: str, address: str | None, stack: ExitStack) -> tuple[Executor, RunSettings]:
    """Start what runs the passes: Ray, on a cluster or here, or a loop in this process."""
    from corpusgen.engine.progress import terminal_progress

    if name == "local":
        from corpusgen.engine.local import LocalExecutor

        settings = method.run_settings(0)
        return LocalExecutor(settings, terminal_progress()), settings
    import ray

    from corpusgen.engine.cluster import ray_cluster
    from corpusgen.engine.ray_executor import RayExecutor

    stack.enter_context(ray_cluster(address))
    settings = method.run_settings(int(ray.cluster_resources().get("GPU", 0)))
    return stack.enter_context(RayExecutor(settings, terminal_progress(), address)), settings
