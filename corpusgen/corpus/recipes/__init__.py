"""The recipes that a build can follow, by their names in settings and corpus.json."""

from __future__ import annotations

from corpusgen.config.build import BuildConfig
from corpusgen.config.plugins import find_part
from corpusgen.corpus.recipe import Recipe, together
from corpusgen.corpus.recipes import discourse, paragraphs, words
from corpusgen.errors import ConfigError, StoreError, StoreUnavailableError
from corpusgen.store import Store
from corpusgen.store.products import BOTH, DEFAULT_RECIPE, recipe_name

RECIPES = {recipe.name: recipe for recipe in (words.RECIPE, discourse.RECIPE, paragraphs.RECIPE)}


def recipe_of(config: BuildConfig) -> Recipe:
    """Return the recipe that the settings name; raise ConfigError if it does not exist."""
    return _find(config.recipe, "recipe")


def recipe_of_store(store: Store) -> Recipe:
    """Return the recipe of a corpus; the default one if corpus.json is missing or damaged, so that it can be mended."""
    try:
        name = recipe_name(store)
    except StoreUnavailableError:
        raise
    except StoreError:
        name = DEFAULT_RECIPE
    return _find(name, f"{store.url}/corpus.json: recipe")


def _find(name: str, setting: str) -> Recipe:
    names = name.split(BOTH)
    if len(set(names)) < len(names):
        raise ConfigError(f"{setting}: {name!r} names a recipe twice; name each once")
    return together([find_part(one, RECIPES, Recipe, setting) for one in names])
