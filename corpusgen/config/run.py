"""Settings for how a pass runs; none of them changes what is in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from corpusgen.config.section import Section


@dataclass(frozen=True)
class Resources:
    """The resources that one worker of a stage requests, and how many workers there may be.

    `max_workers` None means as many as the cluster has room for, as nodes come and go.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int = 0
    min_workers: int = 1
    max_workers: int | None = None


class NeedsWorkers(Protocol):
    """The part of a stage's interface that concerns its workers."""

    @property
    def name(self) -> str:
        """Return the name that settings use for the stage."""

    @property
    def resources(self) -> Resources:
        """Return what one worker requests unless the settings say otherwise."""


class WorkerSettings(Section):
    """What one worker of a stage asks for and how many there may be; what is not given stays the stage's own."""

    cpus: float | None = Field(None, ge=0, description="CPUs per worker")
    gpus: float | None = Field(None, ge=0, description="GPUs per worker; with a fraction, workers share a GPU")
    memory: int | None = Field(None, ge=0, description="bytes of memory that each worker requests from the cluster")
    min_workers: int | None = Field(None, ge=0, description="minimum number of workers while there is work left")
    max_workers: int | None = Field(None, ge=1, description="maximum number of workers")

    def applied_to(self, resources: Resources) -> Resources:
        """Return the stage's own resources, overridden by these settings."""
        return Resources(**{**vars(resources), **self.model_dump(exclude_none=True)})


class RunSettings(Section):
    """Settings of a run that leave the content alone: they may differ from one resumption to the next."""

    failure_limit: float = Field(
        0.05,
        ge=0,
        le=1,
        description="fraction of a stage's records that may be quarantined before the run fails",
    )
    max_units_in_flight: int | None = Field(
        None, ge=1, description="maximum number of units in progress; default: four per worker"
    )
    max_bytes_in_flight: int = Field(
        1 << 30, ge=1, description="bytes of rows that may wait between stages before earlier stages pause"
    )
    scale_up_seconds: float = Field(
        2.0, ge=0, description="how long units wait for a stage before it gets more workers"
    )
    idle_seconds: float = Field(30.0, ge=0, description="how long a worker may be idle before it is released")
    workers: dict[str, WorkerSettings] = Field(default_factory=dict, description="resources of the workers, by stage")

    def resources_of(self, stage: NeedsWorkers) -> Resources:
        """Return the resources that one worker of a stage requests."""
        override = self.workers.get(stage.name)
        return override.applied_to(stage.resources) if override else stage.resources
