"""The facts about a corpus, from its corpus.json: what it was made from and with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from corpusgen.config.rules import RuleSettings
from corpusgen.models.identity import short_name, version_text
from corpusgen.pages.html import Fact
from corpusgen.store.products import BOTH, DEFAULT_RECIPE, DISCOURSE, PARAGRAPHS, WORDS

_PATHS_SHOWN = 4


def facts_of(corpus: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the source, the most important settings, and the models; leaves out what the file does not say."""
    settings = corpus.get("settings", {})
    if source := settings.get("source"):
        paths: list[str] = source.get("paths", [])
        more = f" and {len(paths) - _PATHS_SHOWN:,} more" if len(paths) > _PATHS_SHOWN else ""
        yield Fact("source", str(source.get("kind", "")), ", ".join(paths[:_PATHS_SHOWN]) + more)
    if language := settings.get("language"):
        yield Fact("language", str(language.get("code", "")))
    recipes = str(corpus.get("recipe", DEFAULT_RECIPE)).split(BOTH)
    if sample := settings.get("sample"):
        seed = f", seed {settings['seed']}" if "seed" in settings else ""  # stores that were merged may differ in it
        words = f"over {sample.get('vocabulary', 0):,} words{seed}"
        if WORDS.recipe in recipes:
            yield Fact("targets requested", f"{sample.get('size', 0):,}", words)
        if DISCOURSE.recipe in recipes:
            yield Fact("pairs requested", f"{(settings.get('discourse') or {}).get('size', 0):,}", words)
    if PARAGRAPHS.recipe in recipes and (kept := settings.get("paragraphs")):
        least = f"tokens that occur at least {kept.get('min_count', 0):,} times"
        yield Fact("vocabulary", f"at most {kept.get('vocabulary', 0):,}", least)
    if WORDS.recipe in recipes and WORDS.pass_name in corpus.get("passes", []):
        yield from _about_triples(settings)
    for name, model in corpus.get("models", {}).items():
        yield Fact(name, short_name(str(model.get("id", ""))), version_text(model))


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
    """Return the rules that differ from their preset."""
    preset = rules.get("preset")
    if preset not in ("strict", "paper"):
        return ""
    usual = RuleSettings(preset=preset).model_dump(mode="json")
    return ", ".join(f"{key} {value}" for key, value in rules.items() if key in usual and usual[key] != value)
