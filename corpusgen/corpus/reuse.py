"""Reuse of what another store has committed: units that would come out the same, and translations.

A unit's id names everything that determines its content except the bytes of models, which corpus.json records. So a
unit that another store has committed under the same id, with the same models, is taken over as it is. Translations go
further: whatever else has changed, a sentence that the same translators have translated is not translated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from corpusgen.config.build import TranslationSettings
from corpusgen.corpus.paraphrases.remembered import OldTranslations
from corpusgen.corpus.paraphrases.stage import RoundTrip
from corpusgen.engine import Pass
from corpusgen.engine.stage import models_used
from corpusgen.errors import CorpusgenError
from corpusgen.store import CommittedTable, PassStore, Store
from corpusgen.store.products import WORDS
from corpusgen.store.store import differences
from corpusgen.tables import PARAPHRASES_TABLE

_COPIERS = 8
_SEVERAL = ("hypotheses", "avoid_target", "others")
_OF_SENTENCES = ("source", "language", "segmenter", "filters", "paragraphs")


class Reuse:
    """A store to take units and translations from, for a corpus with the settings and models of `content`.

    `say` is called with each line about what is taken.
    """

    def __init__(self, root: str, store: Store, content: Mapping[str, Any], say: Callable[[str], None]) -> None:
        self._old = Store.at(root)
        if self._old.url == store.url:
            raise CorpusgenError(f"--reuse {root}: this is the store being built; to resume it, leave out --reuse")
        self._corpora = (self._old.corpus(), content)
        self._say = say

    def check(self, harvest: Pass) -> None:
        """Raise CorpusgenError, naming the settings in the way, if nothing can be taken."""
        of_sentences, of_translations = self.why_no_sentences(harvest), self.why_no_translations()
        if of_sentences and of_translations:
            raise CorpusgenError(
                f"{self._old.url}: nothing can be reused\n"
                f"  its sentences: {of_sentences}\n  its translations: {of_translations}\n"
                "build without --reuse, or with the settings of that store"
            )
        if of_sentences:
            self._say(f"{harvest.name}: nothing reused from {self._old.url}: {of_sentences}")

    def begin(self, pass_: Pass, store: PassStore) -> Pass:
        """Take over the units of a pass that the old store has; return the pass that does the rest."""
        taken, units = self._take_over(pass_, store), len(pass_.slices)
        if taken:
            self._say(f"{pass_.name}: {taken:,} of {units:,} units reused from {self._old.url}")
        if taken == units or not any(isinstance(stage, RoundTrip) for stage in pass_.stages):
            return pass_
        if why_not := self.why_no_translations():
            self._say(f"{pass_.name}: no translations reused from {self._old.url}: {why_not}")
            return pass_
        known, all_ = self._translated(store)
        self._say(f"{pass_.name}: translations of {known:,} of {all_:,} targets reused from {self._old.url}")
        stages = [replace(stage, old=self._old) if isinstance(stage, RoundTrip) else stage for stage in pass_.stages]
        return replace(pass_, stages=stages)

    def _take_over(self, pass_: Pass, store: PassStore) -> int:
        """Copy the units of a pass that the old store has committed; return how many."""
        old, plan = self._old.pass_store(pass_.name), pass_.plan()
        if not old.started() or self._other_models(pass_) or old.plan().tables != plan.tables:
            return 0
        store.ensure_plan(plan)
        there = old.committed() - store.committed()
        units = [unit.id for unit in plan.units if unit.id in there]
        with ThreadPoolExecutor(_COPIERS) as pool:
            for _ in pool.map(lambda unit: store.adopt(unit, self._old), units):
                pass
        return len(units)

    def _translated(self, store: PassStore) -> tuple[int, int]:
        """Return how many of the targets to translate the old store has translated, and how many targets there are."""
        targets = CommittedTable(Store(store.files), "sample", "targets")
        old = OldTranslations(self._old)
        return sum(old.count(batch["text"].to_pylist()) for batch in targets.batches(["text"])), targets.num_rows

    def why_no_sentences(self, harvest: Pass) -> str | None:
        """Return why no unit of the first pass can be taken over; None if some can."""
        old = self._old.pass_store(harvest.name)
        if changed := self._other_models(harvest):
            return changed
        if {unit.id for unit in harvest.plan().units} & old.committed():
            return None
        changed = _changes(*(_sections(corpus, _OF_SENTENCES) for corpus in self._corpora))
        return changed or "its source files have changed, or another version made it"

    def why_no_translations(self) -> str | None:
        """Return why the translations of the old store cannot be used; None if they can."""
        translation = self._corpora[1]["settings"].get("translation")
        roles = TranslationSettings.model_validate(translation).translators if translation else ()
        before, now = (_of_translators(corpus, roles) for corpus in self._corpora)
        if now["generate"]["positives"] != "round_trip":
            return "none are needed"
        if changed := _changes(before, now):
            return changed
        if _has_several(self._corpora[1]):
            return "only the chosen ones of several hypotheses are stored"
        generate = self._old.pass_store(WORDS.pass_name)
        if not generate.committed():
            return "none are committed"
        schema = generate.plan().tables.get(PARAPHRASES_TABLE)
        version = int(schema.metadata[RoundTrip.name.encode()]) if schema else 1  # the first version had no such table
        return None if version == RoundTrip.version else "another version made them"

    def _other_models(self, pass_: Pass) -> str:
        """Return which models of the pass differ in the old store; empty if none do."""
        roles = [model.role for model in models_used(pass_.stages)]
        return _changes(*({"models": _models(corpus, roles)} for corpus in self._corpora))


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return "; ".join(f"{path}: {old} there, {new} now" for path, old, new in differences(before, now))


def _sections(corpus: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    settings = corpus.get("settings", {})
    return {name: settings.get(name) for name in names}


def _models(corpus: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    models = corpus.get("models", {})
    return {name: models.get(name) for name in names}


def _of_translators(corpus: Mapping[str, Any], roles: Iterable[str]) -> dict[str, Any]:
    settings = _sections(corpus, ("generate", "translation"))
    translation = settings["translation"] or {}
    return {
        "generate": {"positives": (settings["generate"] or {}).get("positives")},
        "translation": {name: translation.get(name) for name in ("forward", "back", *_SEVERAL)},
        "models": _models(corpus, roles),
    }


def _has_several(corpus: Mapping[str, Any]) -> bool:
    """Return whether paraphrases were chosen among several: the settings are there only if they are used."""
    return any(name in (corpus["settings"]["translation"] or {}) for name in _SEVERAL)
