"""The engine, which runs stages over units in this process or on Ray."""

from corpusgen.config.run import Resources, RunSettings, WorkerSettings
from corpusgen.engine.local import LocalExecutor
from corpusgen.engine.passes import Pass
from corpusgen.engine.stage import Result, Stage, split_by_reason

__all__ = [
    "LocalExecutor",
    "Pass",
    "Resources",
    "Result",
    "RunSettings",
    "Stage",
    "WorkerSettings",
    "split_by_reason",
]
