"""`distiller static`: check what a method needs, run it, and write its vectors where users find them.

The same command resumes: passes skip what is committed, and a training continues from its last checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

from corpusgen.config.run import RunSettings
from corpusgen.engine.passes import Executor
from corpusgen.io.lock import held
from corpusgen.store import Store
from distiller.evaluation.static import find_static_tasks
from distiller.static.files import Format
from distiller.static.inputs import Inputs, read_inputs
from distiller.static.output import Made, Output
from distiller.static.settings import StaticSettings

Say = Callable[[str], None]


class Method(Protocol):
    """A method with its settings and inputs, checked, before any work is done.

    Each kind has a module `job` with a function `prepare(settings, inputs)` that returns one.
    """

    @property
    def content(self) -> Mapping[str, Any]:
        """Return what determines the result beside the settings and the inputs, such as the model's hash."""

    def costs(self) -> list[str]:
        """Return lines that tell a user how much there is to do and to store."""

    def run_settings(self, gpus: int) -> RunSettings:
        """Return the resources of the workers, on a cluster with this many GPUs."""

    def make(self, store: Store, executor: Executor, run: RunSettings, say: Say) -> Made:
        """Do the work, or resume it, in a store of its own."""


def prepare(settings: StaticSettings) -> tuple[Method, Inputs]:
    """Check everything that is cheap to check; raise an error for what cannot work."""
    path = os.path.expanduser(settings.backbone.model)
    if os.path.isdir(path):  # workers have their own working directory
        backbone = settings.backbone.model_copy(update={"model": os.path.abspath(path)})
        settings = settings.model_copy(update={"backbone": backbone})
    inputs = read_inputs(settings)
    return _prepare(settings, inputs), inputs


def _prepare(settings: StaticSettings, inputs: Inputs) -> Method:
    method: Method = import_module(f"distiller.static.{settings.kind}.job").prepare(settings, inputs)
    return method


def run(
    settings: StaticSettings,
    executor_for: Callable[[Method], tuple[Executor, RunSettings]],
    form: Format = "text",
    say: Say = print,
    data: str | None = None,
) -> dict[str, Any]:
    """Make static vectors, or resume making them.

    Args:
        settings: What to make.
        executor_for: Returns the executor for a method that is ready to start, and the settings of its run.
        form: The format of the files.
        say: Receives lines for the user.
        data: A folder of benchmarks to score the vectors on; cards and the page have the scores.

    Returns:
        The content of `result.json`: the files and what there is to say about them.

    Raises:
        ConfigError: If something in the settings cannot work, or `output` belongs to others.
        StoreError: If the corpus or the work so far cannot be used.
    """
    if data is not None:
        find_static_tasks(data)  # so that a wrong folder is noticed before hours of work
    output = Output(settings.output)
    method, inputs = prepare(settings)
    content = {**inputs.content, **method.content}
    output.check(settings, content)
    for line in method.costs():
        say(line)
    with held(output.files, "static", "a run of distiller static", say):
        output.begin(settings, content)
        output.store.ensure_corpus(content)
        made = method.make(output.store, *executor_for(method), say)
        return output.write(made, form, settings, data)
