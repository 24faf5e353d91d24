"""What static vectors are made from: the paragraphs of a corpus and the words of its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusgen.errors import ConfigError, StoreError
from corpusgen.io.hashing import content_hash
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import PARAGRAPHS, open_product, read_vocabulary
from corpusgen.store.records import hash_of_parts
from distiller.static.settings import StaticSettings


@dataclass(frozen=True)
class Inputs:
    """The paragraphs and the words that get a vector, the most frequent first."""

    corpus: Store
    paragraphs: CommittedTable
    words: list[str]
    counts: npt.NDArray[np.int64]

    @property
    def content(self) -> dict[str, Any]:
        """Return hashes that identify the exact paragraphs and words, wherever the corpus is."""
        return {
            "paragraphs": hash_of_parts(self.paragraphs.parts),
            "words": len(self.words),
            "vocabulary": content_hash([self.words, self.counts.tolist()]),
        }

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return what a card says about them."""
        return {"paragraphs": f"{self.paragraphs.num_rows:,}", "occurrences of the words": f"{self.counts.sum():,}"}


def read_inputs(settings: StaticSettings) -> Inputs:
    """Open the corpus and choose the words; raise an error that says what is missing.

    Raises:
        StoreError: If there is no corpus, or it is not built to its end.
        ConfigError: If it does not hold paragraphs, or no word is left.
    """
    corpus = Store.at(settings.corpus)
    paragraphs = open_product(corpus, PARAGRAPHS.table)
    if not paragraphs.num_rows or not paragraphs.complete:
        state = "is still being built" if paragraphs.num_rows else "has no paragraphs yet"
        raise StoreError(f"{corpus.url} {state}; run `corpusgen build` to its end first")
    words, counts = read_vocabulary(corpus)
    if not words:
        raise ConfigError(f"{corpus.url}: its vocabulary is empty; build it with a smaller paragraphs.min_count")
    kept = len(words) if settings.words is None else min(settings.words, len(words))
    if settings.min_count is not None:
        kept = min(kept, int((counts >= settings.min_count).sum()))
    if not kept:
        raise ConfigError(
            f"min_count: {settings.min_count}, but the most frequent word of {corpus.url} occurs {counts[0]:,} times; "
            "choose a smaller one"
        )
    return Inputs(corpus, paragraphs, words[:kept], counts[:kept])
