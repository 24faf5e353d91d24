"""The funnels of all recipes: how much of what went in came out, step by step."""

from __future__ import annotations

from collections.abc import Iterable

from corpusgen.ops import funnel, pair_funnel
from corpusgen.ops.funnel import Funnel, FunnelCount
from corpusgen.ops.pair_funnel import PairFunnel, PairFunnelCount
from corpusgen.store import Store
from corpusgen.store.products import DISCOURSE, WORDS, Product


def funnel_count(store: Store, product: Product) -> FunnelCount | PairFunnelCount | None:
    """Return what counts the funnel of a product; None for a recipe of another package."""
    if product == WORDS:
        return FunnelCount(store)
    return PairFunnelCount(store) if product == DISCOURSE else None


def funnel_of(store: Store, product: Product) -> Funnel | PairFunnel | None:
    """Return the funnel of what is committed."""
    if product == WORDS:
        return funnel.funnel(store)
    return pair_funnel.pair_funnel(store) if product == DISCOURSE else None


def funnel_lines(found: Funnel | PairFunnel) -> Iterable[str]:
    """Return a table for the terminal."""
    return funnel.lines(found) if isinstance(found, Funnel) else pair_funnel.lines(found)
