"""The checks that start every build: they load nothing, write nothing, and contact no cluster.

What a build finds out by itself in its first second, such as whether it can write to the store, is not checked here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import check_workers, passes_of, stages_of
from corpusgen.corpus.recipes import recipe_of
from corpusgen.engine.stage import Stage
from corpusgen.errors import ConfigError
from corpusgen.models.encoders import choose_device, choose_dtype
from corpusgen.ops.doctor import models
from corpusgen.ops.doctor import source_and_store as places
from corpusgen.ops.doctor.findings import Line
from corpusgen.ops.doctor.packages import packages
from corpusgen.store import Store

log = logging.getLogger(__name__)


def before_build(config: BuildConfig, until: str | None, *, on_ray: bool, here: bool) -> list[Stage]:
    """Check a build: warn about yellow findings, and raise ConfigError for red ones.

    `here` means that the workers will be on this machine. Returns the stages of all passes, so that a cluster can be
    checked as soon as there is a connection to it.
    """
    stages = stages_of(config, Store.at(config.store), until)
    lines = list(_cheap(config, until, stages, on_ray, here))
    red = [line for line in lines if line.status == "red"]
    if red:
        problems = "\n".join(f"  {line.what}: {line.finding}{line.remedy and f'; {line.remedy}'}" for line in red)
        raise ConfigError(f"this build cannot come to its end:\n{problems}")
    for line in lines:
        if line.status == "yellow":
            log.warning("%s: %s; %s", line.what, line.finding, line.remedy)
    return stages


def _cheap(config: BuildConfig, until: str | None, stages: Sequence[Stage], on_ray: bool, here: bool) -> Iterator[Line]:
    check_workers(config)
    last = recipe_of(config).product.pass_name
    triples = last in passes_of(config) and until in (None, last)
    yield from places.sources(config)
    yield from places.disk(config)
    yield from packages(config, stages, here)
    if here:  # elsewhere, the build itself reports what it cannot check
        yield from models.present(stages, here)
    if not on_ray and triples and config.masked:
        choose_dtype(config.masked.dtype, choose_device(config.generate.device))
    elif on_ray:
        from corpusgen.ops.doctor import cluster_room as room  # Ray takes most of a second to import

        requests = [(stage, config.run.resources_of(stage)) for stage in stages]
        yield from room.devices(requests)
        if here:
            yield from room.schedulable(requests, [room.this_node()], growing=False)
