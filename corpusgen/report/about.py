"""What a corpus was made of and with, in a few lines out of its corpus.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from corpusgen.rules import RuleSettings

_PATHS_SHOWN = 4
_LETTERS_OF_A_HASH = 12


class Fact(NamedTuple):
    """A line of the header."""

    label: str
    value: str
    fine_print: str = ""


def about(corpus: Mapping[str, Any]) -> Iterator[Fact]:
    """Source, settings that matter most, models. What the file does not tell is left out."""
    settings = corpus.get("settings", {})
    if source := settings.get("source"):
        paths: list[str] = source.get("paths", [])
        more = f" and {len(paths) - _PATHS_SHOWN:,} more" if len(paths) > _PATHS_SHOWN else ""
        yield Fact("source", str(source.get("kind", "")), ", ".join(paths[:_PATHS_SHOWN]) + more)
    if language := settings.get("language"):
        yield Fact("language", str(language.get("code", "")))
    if sample := settings.get("sample"):
        words = f"over {sample.get('vocabulary', 0):,} words, seed {settings.get('seed', 0)}"
        yield Fact("targets asked for", f"{sample.get('size', 0):,}", words)
    if "generate" in corpus.get("passes", []):
        yield from _about_triples(settings)
    for name, model in corpus.get("models", {}).items():
        yield Fact(name, _last_step(str(model.get("id", ""))), _version(model))


def _about_triples(settings: Mapping[str, Any]) -> Iterator[Fact]:
    translation = settings.get("translation") or {}
    if settings.get("generate", {}).get("positives") == "substitution":
        yield Fact("positives", "by substitution")
    elif translation:
        language = settings.get("language", {}).get("code", "")
        backends = dict.fromkeys(translation.get(side, {}).get("backend", "") for side in ("forward", "back"))
        yield Fact("positives", f"{language} → {translation.get('pivot')} → {language}", ", ".join(backends))
    if rules := settings.get("rules"):
        yield Fact("rules", str(rules.get("preset", "")), _changed(rules))


def _changed(rules: Mapping[str, Any]) -> str:
    """What was given beside the preset."""
    preset = rules.get("preset")
    if preset not in ("strict", "paper"):
        return ""
    usual = RuleSettings(preset=preset).model_dump(mode="json")
    return ", ".join(f"{key} {value}" for key, value in rules.items() if key in usual and usual[key] != value)


def _last_step(path: str) -> str:
    """The name of a file or folder; a hub id as it is."""
    return path.rstrip("/").rpartition("/")[2] if path.startswith((".", "/", "~")) or path.count("/") > 1 else path


def _version(model: Mapping[str, Any]) -> str:
    if model.get("sha256"):
        return f"sha256 {model['sha256'][:_LETTERS_OF_A_HASH]}…"
    revision = model.get("revision")
    if not revision:
        return "version unknown"
    is_commit = len(revision) == 40
    return f"revision {revision[:_LETTERS_OF_A_HASH]}…" if is_commit else f"version {revision}"
