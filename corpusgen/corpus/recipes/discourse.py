"""The recipe `discourse`: pairs of one word in two sentences of a document, where it mostly means the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

from corpusgen.config.build import BuildConfig, DiscourseSettings
from corpusgen.corpus.pairs.stages import (
    CHOSEN,
    PAIRING,
    ChoosePairs,
    FetchSentences,
    FindRepeats,
    JoinSentences,
    ReadChoice,
)
from corpusgen.corpus.recipe import PassRecipe, Recipe, parts_of, with_whole
from corpusgen.corpus.recipes import words
from corpusgen.engine import Pass, Stage
from corpusgen.engine.parts import grouped, row_slices
from corpusgen.errors import ConfigError
from corpusgen.store import Store
from corpusgen.store.products import DISCOURSE
from corpusgen.store.records import Reads
from corpusgen.tables import CHOICE, CHOSEN_SENTENCES, PAIRS, REPEATS
from corpusgen.targets.names import capital_share_limit

_REPEATS = Reads(("harvest", "sentences"), whole=("vocabulary", "vocabulary"))
_PAIRING = Reads(("repeats", "repeats"))
_FETCH = Reads(("harvest", "sentences"), whole=PAIRING)
_PAIRS = Reads(PAIRING, whole=CHOSEN)
_MOST_PAIRS_UNITS = 100  # each looks through all chosen sentences: more units would make the work quadratic


def _repeats(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass that finds what the documents repeat."""
    slices = with_whole(_REPEATS, grouped(parts_of(_REPEATS, store), words.GROUP_ROWS), store)
    return Pass("repeats", stages, slices, {"repeats": REPEATS})


def _repeats_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [FindRepeats(_resolved(config), config.language.code, config.seed, store=store)]


def _resolved(config: BuildConfig) -> DiscourseSettings:
    """Return the settings with the limit that a null stands for, so that the ids of units depend on it."""
    limit = capital_share_limit(config.discourse.max_capital_share, config.language.code)
    return config.discourse.model_copy(update={"max_capital_share": limit})


def _pairing(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass from all repeats to the chosen pairs. One unit: a merge."""
    repeats = parts_of(_PAIRING, store)
    return Pass("pairing", stages, [repeats] if repeats else [], {"choice": CHOICE})


def _pairing_stages(config: BuildConfig, store: Store) -> list[Stage]:
    found = _resolved(config)
    return [ChoosePairs(found.size, found.max_capital_share, config.language.code, config.seed, store=store)]


def _fetch(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass that fetches the sentences of the chosen pairs."""
    slices = with_whole(_FETCH, grouped(parts_of(_FETCH, store), words.GROUP_ROWS), store)
    return Pass("fetch", stages, slices, {"sentences": CHOSEN_SENTENCES})


def _fetch_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [FetchSentences(store=store)]


def _pairs(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass that writes the pairs, with their sentences."""
    choice = parts_of(_PAIRS, store)
    per_unit = max(config.discourse.unit_pairs, math.ceil(sum(part["rows"] for part in choice) / _MOST_PAIRS_UNITS))
    slices = with_whole(_PAIRS, row_slices(choice, per_unit), store)
    return Pass(DISCOURSE.pass_name, stages, slices, {DISCOURSE.table: PAIRS})


def _pairs_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [ReadChoice(store=store), JoinSentences(store=store)]


def _complete_for(config: BuildConfig) -> Sequence[str]:
    """Return all passes: no model is needed."""
    if config.discourse.document_bytes is not None and config.source.kind != "text":
        raise ConfigError(
            f"discourse.document_bytes: only for source.kind text; {config.source.kind} has documents of its own"
        )
    return list(RECIPE.passes)


RECIPE = Recipe(
    product=DISCOURSE,
    passes={
        **{name: words.RECIPE.passes[name] for name in ("harvest", "vocabulary")},
        "repeats": PassRecipe(_repeats_stages, _repeats, _REPEATS, (FindRepeats,)),
        "pairing": PassRecipe(_pairing_stages, _pairing, _PAIRING, (ChoosePairs,)),
        "fetch": PassRecipe(_fetch_stages, _fetch, _FETCH, (FetchSentences,)),
        DISCOURSE.pass_name: PassRecipe(_pairs_stages, _pairs, _PAIRS, (ReadChoice, JoinSentences)),
    },
    complete_for=_complete_for,
)
