"""Translations that another store has committed, to look up instead of translating again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpusgen.models.translate import Translator
from corpusgen.store import Commit, CommittedTable, Store
from corpusgen.store.products import WORDS
from corpusgen.tables import ENRICHED, PARAPHRASES, PARAPHRASES_TABLE

_PASS = WORDS.pass_name
_KEY_BYTES = 16  # for each sentence in memory
_UNITS_KEPT = 8  # the last unit and its neighbours: both stores have their targets in the order of the source


class Remembered(NamedTuple):
    """The translations of a text; `paraphrase` is None if the store does not have it."""

    pivot: str
    paraphrase: str | None


class OldTranslations:
    """The translations in a store at the time this object was made.

    Memory holds a few bytes per sentence, and the translations of the units last asked about.
    """

    def __init__(self, store: Store) -> None:
        self._tables = {name: CommittedTable(store, _PASS, name) for name in (WORDS.table, WORDS.rejects)}
        pass_store = store.pass_store(_PASS)
        if PARAPHRASES_TABLE in pass_store.plan().tables:
            self._tables[PARAPHRASES_TABLE] = CommittedTable(store, _PASS, PARAPHRASES_TABLE)
        self._commits = list(pass_store.commits())
        keys = [_keys(list(self._texts(commit))) for commit in self._commits]
        units = np.repeat(np.arange(len(keys)), [len(some) for some in keys])
        together = np.concatenate([np.zeros(0, f"S{_KEY_BYTES}"), *keys])
        order = np.argsort(together, kind="stable")
        self._sorted, self._units = together[order], units[order]
        self._recent: OrderedDict[int, Mapping[str, Remembered]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sorted)

    def of(self, texts: Sequence[str]) -> dict[str, Remembered]:
        """Return the translations of those texts that the store has translated."""
        found: dict[str, Remembered] = {}
        for unit in np.unique(self._units[self._positions(texts)]).tolist():
            found |= self._of_unit(unit)
        return {text: found[text] for text in texts if text in found}

    def count(self, texts: Sequence[str]) -> int:
        """Return how many of the texts are targets in the store, without reading from it."""
        return len(self._positions(texts))

    def _positions(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the positions of the known texts among the sorted keys."""
        if not len(self):
            return np.zeros(0, np.int64)
        keys = _keys(texts)
        positions = np.minimum(np.searchsorted(self._sorted, keys), len(self) - 1)
        known: npt.NDArray[np.int64] = positions[self._sorted[positions] == keys]
        return known

    def _of_unit(self, unit: int) -> Mapping[str, Remembered]:
        if unit not in self._recent:
            self._recent[unit] = dict(self._read(self._commits[unit]))
            if len(self._recent) > _UNITS_KEPT:
                self._recent.popitem(last=False)
        self._recent.move_to_end(unit)
        return self._recent[unit]

    def _read(self, commit: Commit) -> Iterator[tuple[str, Remembered]]:
        before = dict(self._rows(commit, PARAPHRASES_TABLE, PARAPHRASES.names))
        columns = ("id", "text", "pivot", "positive", "positive_rule")
        for id_, text, pivot, positive, rule in self._rows(commit, WORDS.table, columns):
            yield text, Remembered(pivot, before.get(id_) if rule == ENRICHED else positive)
        for text, pivot, paraphrase in self._rows(commit, WORDS.rejects, ("text", "pivot", "paraphrase")):
            if pivot is not None:
                yield text, Remembered(pivot, paraphrase)

    def _texts(self, commit: Commit) -> Iterator[str]:
        for table in (WORDS.table, WORDS.rejects):
            yield from (text for (text,) in self._rows(commit, table, ("text",)))

    def _rows(self, commit: Commit, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        if table in self._tables and table in commit.parts:
            for batch in self._tables[table].part_batches(commit.parts[table], columns):
                yield from zip(*(batch[name].to_pylist() for name in columns), strict=True)


class OnDemand:
    """A translator that loads its model on first use."""

    def __init__(self, load: Callable[[], Translator]) -> None:
        self._load = load
        self._translator: Translator | None = None

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate the texts, as the translator does."""
        if not texts:
            return []
        return self._loaded().translate(texts)

    def hypotheses(self, texts: Sequence[str], number: int) -> list[list[str]]:
        """Translate the texts in several ways, as the translator does."""
        return self._loaded().hypotheses(texts, number) if texts else []

    def _loaded(self) -> Translator:
        self._translator = self._translator or self._load()
        return self._translator


def _keys(texts: Sequence[str]) -> npt.NDArray[np.bytes_]:
    digests = (hashlib.blake2b(text.encode(), digest_size=_KEY_BYTES).digest() for text in texts)
    return np.array(list(digests), f"S{_KEY_BYTES}")
