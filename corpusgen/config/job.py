"""Commands that can run as jobs on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points

from corpusgen.config.section import Section
from corpusgen.errors import ConfigError

_GROUP = "corpusgen.jobs"


@dataclass(frozen=True)
class Job:
    """A command that `corpusgen submit` can run.

    `settings` is the type of its YAML file, `results` are the settings that say where results go, and `command` is
    what `python -m` runs. Packages declare their jobs as entry points in the group `corpusgen.jobs`.
    """

    settings: type[Section]
    results: tuple[str, ...]
    command: tuple[str, ...]


def find_job(name: str) -> Job:
    """Return the job that an installed package declares under this name; raise ConfigError if none does."""
    for entry in entry_points(group=_GROUP, name=name):
        job: Job = entry.load()
        return job
    raise ConfigError(f"no installed package provides the job {name!r}; reinstall wicdistil (pip install wicdistil)")
