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
from corpusgen.ops.doctor import models, source_and_store
from corpusgen.ops.doctor.findings import Finding
from corpusgen.ops.doctor.packages import packages
from corpusgen.store import Store
from corpusgen.store.products import WORDS

log = logging.getLogger(__name__)


def before_build(config: BuildConfig, until: str | None, *, on_ray: bool, here: bool) -> list[Stage]:
    """Check a build: warn about yellow findings, and raise ConfigError for red ones.

    `here` means that the workers will be on this machine. Returns the stages of all passes, so that a cluster can be
    checked as soon as there is a connection to it.
    """
    stages = stages_of(config, Store.at(config.store), until)
    lines = list(_quick_checks(config, until, stages, on_ray, here))
    red = [line for line in lines if line.status == "red"]
    if red:
        problems = "\n".join(f"  {line.what}: {line.finding}{line.remedy and f'; {line.remedy}'}" for line in red)
        raise ConfigError(f"this build cannot finish:\n{problems}")
    for line in lines:
        if line.status == "yellow":
            log.warning("%s: %s; %s", line.what, line.finding, line.remedy)
    return stages


def _quick_checks(
    config: BuildConfig, until: str | None, stages: Sequence[Stage], on_ray: bool, here: bool
) -> Iterator[Finding]:
    check_workers(config)
    names = passes_of(config)
    names = names[: names.index(until) + 1] if until in names else names
    triples = WORDS in recipe_of(config).products and WORDS.pass_name in names
    yield from source_and_store.sources(config)
    yield from source_and_store.disk(config)
    yield from packages(config, stages, here)
    if here:  # elsewhere, the build itself reports what it cannot check
        yield from models.present(stages, here)
    if not on_ray and triples and config.masked:
        choose_dtype(config.masked.dtype, choose_device(config.generate.device))
    elif on_ray:
        from corpusgen.ops.doctor import capacity  # Ray takes most of a second to import

        requests = [(stage, config.run.resources_of(stage)) for stage in stages]
        yield from capacity.devices(requests)
        if here:
            yield from capacity.schedulable(requests, [capacity.this_node()], growing=False)
