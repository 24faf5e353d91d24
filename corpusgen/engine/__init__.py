"""The engine: stages over units, on this process or on Ray."""

from corpusgen.engine.local import LocalExecutor
from corpusgen.engine.passes import Pass
from corpusgen.engine.settings import RunSettings, WorkerSettings
from corpusgen.engine.stage import Resources, Result, Stage, split_by_reason

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
