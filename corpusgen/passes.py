"""The passes of a build, each over what the one before has committed."""

from __future__ import annotations

from collections.abc import Callable

from corpusgen.config import BuildConfig
from corpusgen.engine import Pass
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.sources.text import PARAGRAPHS, ReadText, text_slices
from corpusgen.store import Store, Totals


def harvest(config: BuildConfig, store: Store) -> Pass:
    """Source files → paragraphs."""
    slices = text_slices(config.source.paths, config.source.unit_bytes)
    return Pass("harvest", [ReadText()], slices, {"paragraphs": PARAGRAPHS})


PASSES: dict[str, Callable[[BuildConfig, Store], Pass]] = {"harvest": harvest}


def build(
    config: BuildConfig,
    executor: Executor,
    until: str | None = None,
    on_pass: Callable[[str, Totals], None] = lambda name, totals: None,
) -> Store:
    """Run, or go on with, the passes of a build up to and including `until`; `on_pass` hears of each when done."""
    store = Store.at(config.store)
    for name, make in PASSES.items():
        pass_ = make(config, store)
        # Only now that the settings have proved usable do they become those of the corpus.
        store.ensure_corpus({"passes": list(PASSES), "settings": config.content()})
        on_pass(name, run_pass(pass_, store.pass_store(name), executor, config.run))
        if name == until:
            break
    return store
