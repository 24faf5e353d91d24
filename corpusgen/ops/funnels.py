"""The funnels of all recipes: how much of what went in came out, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from corpusgen.ops import funnel, pair_funnel, paragraph_funnel
from corpusgen.ops.funnel import Funnel, FunnelCount
from corpusgen.ops.pair_funnel import PairFunnel, PairFunnelCount
from corpusgen.ops.paragraph_funnel import ParagraphFunnel, ParagraphFunnelCount
from corpusgen.store import Store
from corpusgen.store.products import DISCOURSE, PARAGRAPHS, WORDS, Product

AnyFunnel = Funnel | PairFunnel | ParagraphFunnel
_COUNTS = {WORDS: FunnelCount, DISCOURSE: PairFunnelCount, PARAGRAPHS: ParagraphFunnelCount}
_FUNNELS: Mapping[Product, Callable[[Store], AnyFunnel]] = {
    WORDS: funnel.funnel,
    DISCOURSE: pair_funnel.pair_funnel,
    PARAGRAPHS: paragraph_funnel.paragraph_funnel,
}


def funnel_count(store: Store, product: Product) -> FunnelCount | PairFunnelCount | ParagraphFunnelCount | None:
    """Return what counts the funnel of a product; None for a recipe of another package."""
    return _COUNTS[product](store) if product in _COUNTS else None


def funnel_of(store: Store, product: Product) -> AnyFunnel | None:
    """Return the funnel of what is committed."""
    return _FUNNELS[product](store) if product in _FUNNELS else None


def funnel_lines(found: AnyFunnel) -> Iterable[str]:
    """Return a table for the terminal."""
    if isinstance(found, Funnel):
        return funnel.lines(found)
    return pair_funnel.lines(found) if isinstance(found, PairFunnel) else paragraph_funnel.lines(found)
