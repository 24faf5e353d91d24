"""The recipes that a build can follow, by their names in settings and corpus.json."""

from __future__ import annotations

from corpusgen.config.build import BuildConfig
from corpusgen.config.plugins import find_part
from corpusgen.corpus.recipe import Recipe
from corpusgen.corpus.recipes import words
from corpusgen.errors import StoreError, StoreUnavailableError
from corpusgen.store import Store
from corpusgen.store.products import DEFAULT_RECIPE, recipe_name

RECIPES = {recipe.name: recipe for recipe in (words.RECIPE,)}


def recipe_of(config: BuildConfig) -> Recipe:
    """Return the recipe that the settings name; raise ConfigError if it does not exist."""
    return find_part(config.recipe, RECIPES, Recipe, "recipe")


def recipe_of_store(store: Store) -> Recipe:
    """Return the recipe of a corpus; the default one if corpus.json is missing or damaged, so that it can be mended."""
    try:
        name = recipe_name(store)
    except StoreUnavailableError:
        raise
    except StoreError:
        name = DEFAULT_RECIPE
    return find_part(name, RECIPES, Recipe, f"{store.url}/corpus.json: recipe")
