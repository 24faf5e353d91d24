"""Building a corpus: run the passes of its recipe, each on the committed output of the one before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.recipes import recipe_of
from corpusgen.corpus.reuse import Reuse
from corpusgen.engine import Stage
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.engine.stage import models_used
from corpusgen.errors import ConfigError, did_you_mean
from corpusgen.models.translate.fairseq_compat import BEWARE
from corpusgen.sources.kinds import source_kind
from corpusgen.store import Store, Totals
from corpusgen.store.products import DEFAULT_RECIPE

log = logging.getLogger(__name__)


def passes_of(config: BuildConfig) -> list[str]:
    """Return the passes that the settings are complete for; raise ConfigError if one has only half of its settings."""
    return list(recipe_of(config).complete_for(config))


def stages_of(config: BuildConfig, store: Store, until: str | None = None) -> list[Stage]:
    """Return the stages of all passes up to `until`, to ask what their workers need; reads no input."""
    names = passes_of(config)
    names = names[: names.index(until) + 1] if until in names else names
    passes = recipe_of(config).passes
    return [stage for name in names for stage in passes[name].stages(config, store)]


def check_workers(config: BuildConfig) -> None:
    """Raise ConfigError if `run.workers` names an unknown stage, which would otherwise be ignored."""
    known = {stage.name for found in recipe_of(config).passes.values() for stage in found.stage_classes}
    known |= {stage.name for stage in source_kind(config.source.kind).stages(config.source)}
    for name in config.run.workers:
        if name not in known:
            raise ConfigError(f"run.workers.{name}: no such stage; {did_you_mean(name, sorted(known))}")


def content_of(config: BuildConfig, store: Store) -> dict[str, Any]:
    """Return everything that determines the corpus, as written to its corpus.json."""
    used = models_used(stages_of(config, store))
    recipe = {"recipe": config.recipe}
    begun = _begun(store)
    if begun is not None:  # version 0.1 did not record all of this: a corpus that it began continues without
        if "language" not in begun.get("models", {}):
            used = [model for model in used if model.role != "language"]
        if "recipe" not in begun and config.recipe == DEFAULT_RECIPE:
            recipe = {}
    models = {model.role: model.describe() for model in used}
    return {**recipe, "passes": passes_of(config), "settings": config.content(), "models": models}


def _begun(store: Store) -> Mapping[str, Any] | None:
    """Return what an existing store says about itself; None for a new store."""
    try:
        # Not `exists`, which does not say why an object store refuses a key.
        store.files.read("corpus.json")
    except FileNotFoundError:
        return None
    return store.corpus()


def _warn(config: BuildConfig, models: Mapping[str, Mapping[str, Any]]) -> None:
    """Warn about models that should not be trusted blindly, and about models that cannot be checked."""
    translators = config.translation.translators.values() if config.translation else ()
    if any(translator.backend == "fairseq" for translator in translators):
        log.warning("translation: %s", BEWARE)
    for role, model in models.items():
        if not (model.get("sha256") or model.get("revision")):
            log.warning(
                "%s: %s is not on this machine, so cannot check that all workers use the same files", role, model["id"]
            )


def build(
    config: BuildConfig,
    executor: Executor,
    until: str | None = None,
    on_pass: Callable[[str, Totals], None] = lambda name, totals: None,
    reuse: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Store:
    """Build a corpus, or resume a build: run its passes and commit their tables to the store.

    A unit that is already committed is not done again.

    Args:
        config: The settings of the build; `config.store` is the store to write to.
        executor: What runs the units of each pass, such as `LocalExecutor` or `RayExecutor`.
        until: The last pass to run; None for all passes that the settings are complete for.
        on_pass: Called with the name and the totals of each pass when it is done.
        reuse: The root of another store, to take over units and translations that would come out the same.
        say: Called with each line about what is reused.

    Returns:
        The store with the corpus.

    Raises:
        ConfigError: The settings are wrong, or not complete for `until`.
        StoreError: The store holds a corpus with other settings or models, or cannot be read or written.
        CorpusgenError: Nothing in `reuse` can be reused, or a pass fails; the subclass says why.
    """
    check_workers(config)
    names, passes = passes_of(config), recipe_of(config).passes
    if until is not None and until not in names:
        raise ConfigError(f"the pass {until!r} needs more settings; the given ones are enough for {', '.join(names)}")
    store = Store.at(config.store)
    content = content_of(config, store)
    _warn(config, content["models"])
    reused = Reuse(reuse, store, content, say) if reuse else None
    for name in names:
        pass_ = passes[name].make(config, store)
        for stage in pass_.stages:
            stage.models = content["models"]
        if reused and name == names[0]:
            reused.check(pass_)
        # The settings have proved usable: only now do they become those of the corpus.
        store.ensure_corpus(content)
        if reused:
            pass_ = reused.begin(pass_, store.pass_store(name))
        on_pass(name, run_pass(pass_, store.pass_store(name), executor, config.run))
        if name == until:
            break
    return store
