"""Packages: those that are required, the extras, and which of them some settings need."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator, Sequence

from packaging.requirements import Requirement

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.paraphrases.stage import RoundTrip
from corpusgen.engine.stage import Stage, models_used
from corpusgen.errors import StageError
from corpusgen.models.translate.fairseq_compat import INSTALL
from corpusgen.ops.doctor.findings import Line, Status
from corpusgen.text.language import bundled_model

PACKAGE = "wicdistil"
_FAIRSEQ = f"{INSTALL}, or make setup EXTRAS=fairseq"


def version_of(name: str) -> str | None:
    """Of a package; None if it is missing."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed() -> Iterator[Line]:
    """What is installed of what the package asks for, and of its extras."""
    if not version_of(PACKAGE):
        yield Line("yellow", "packages", f"{PACKAGE} is not installed but run from a folder", "make setup")
        return
    requirements = [Requirement(text) for text in importlib.metadata.requires(PACKAGE) or []]
    required = [one for one in requirements if one.marker is None]
    if problems := _unmet(required):
        yield Line("red", "packages", ", ".join(problems), f"pip install --upgrade {PACKAGE}, or make setup")
    else:
        yield Line("green", "packages", f"all {len(required)} that are required")
    extras = importlib.metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    for extra in (extra for extra in extras if extra != "dev"):
        some = [one for one in requirements if one.marker and one.marker.evaluate({"extra": extra})]
        problems = _unmet(some)
        if extra == "fairseq" and importlib.util.find_spec("fairseq") is None:
            problems.append("fairseq (missing)")
        remedy = _FAIRSEQ if extra == "fairseq" else f"pip install '{PACKAGE}[{extra}]'"
        if problems:
            yield Line("grey", f"extra {extra}", ", ".join(problems), f"if you need it: {remedy}")
        else:
            yield Line("green", f"extra {extra}", "installed")


def _unmet(requirements: Sequence[Requirement]) -> list[str]:
    problems = []
    for one in requirements:
        version = version_of(one.name)
        if version is None:
            problems.append(f"{one.name} (missing)")
        elif not one.specifier.contains(version, prereleases=True):
            problems.append(f"{one.name}{one.specifier} ({version} is installed)")
    return problems


def packages(config: BuildConfig, stages: Sequence[Stage], here: bool) -> Iterator[Line]:
    """Packages beyond the required ones that these settings need and that are missing.

    Unless `here`, it is other machines that need them.
    """
    status: Status = "red" if here else "yellow"
    for because, module, remedy in _needed(config, stages):
        if importlib.util.find_spec(module) is None:
            yield Line(status, because, f"the package {module} is missing", remedy)
    if config.language.identify and not config.language.model:
        try:
            bundled_model()
        except StageError as error:
            yield Line(status, "language.identify", str(error))


def _needed(config: BuildConfig, stages: Sequence[Stage]) -> Iterator[tuple[str, str, str]]:
    """Why, which module, and how to install it."""
    names = [config.store, *config.source.paths, *(model.id for model in models_used(stages))]
    if any(name.startswith("s3://") for name in names):
        yield "s3://", "boto3", f"pip install '{PACKAGE}[s3]'"
    if config.segmenter.kind == "stanza":
        yield "segmenter.kind: stanza", "stanza", f"pip install '{PACKAGE}[stanza]'"
    translators = [side for stage in stages if isinstance(stage, RoundTrip) for side in (stage.forward, stage.back)]
    if any(side.tokenizer == "moses" for side in translators):
        yield "tokenizer: moses", "sacremoses", "pip install sacremoses"
    if any(side.backend == "fairseq" for side in translators):
        yield "backend: fairseq", "fairseq", _FAIRSEQ
