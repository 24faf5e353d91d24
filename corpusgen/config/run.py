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

    cpus: float | None = Field(None, ge=0, description="CPUs that one worker occupies")
    gpus: float | None = Field(None, ge=0, description="GPUs that one worker occupies; fractions share one")
    memory: int | None = Field(None, ge=0, description="bytes of memory that one worker asks the cluster for")
    min_workers: int | None = Field(None, ge=0, description="workers kept as long as there is work to come")
    max_workers: int | None = Field(None, ge=1, description="workers at most")

    def applied_to(self, resources: Resources) -> Resources:
        """Return the stage's own resources, overridden by these settings."""
        return Resources(**{**vars(resources), **self.model_dump(exclude_none=True)})


class RunSettings(Section):
    """Settings of a run that leave the content alone: they may differ from one resumption to the next."""

    failure_limit: float = Field(
        0.05,
        ge=0,
        le=1,
        description="share of a stage's records that may end in quarantine before the run fails",
    )
    max_units_in_flight: int | None = Field(
        None, ge=1, description="units begun and not committed; by default four per worker"
    )
    max_bytes_in_flight: int = Field(
        1 << 30, ge=1, description="bytes of rows waiting between stages before earlier stages pause"
    )
    scale_up_seconds: float = Field(
        2.0, ge=0, description="how long a unit waits for a stage before the stage gets more workers"
    )
    idle_seconds: float = Field(30.0, ge=0, description="how long a worker is idle before it is given back")
    workers: dict[str, WorkerSettings] = Field(default_factory=dict, description="by the name of the stage")

    def resources_of(self, stage: NeedsWorkers) -> Resources:
        """Return the resources that one worker of a stage requests."""
        override = self.workers.get(stage.name)
        return override.applied_to(stage.resources) if override else stage.resources
