"""The recipe `words`: words in context, each with a paraphrase that keeps its meaning and a negative that does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.paraphrases.stage import RoundTrip
from corpusgen.corpus.recipe import PassRecipe, Recipe, parts_of, with_whole
from corpusgen.corpus.triples.stages import AlignTargets, MakeTriples, ReadTargets
from corpusgen.engine import Pass, Stage
from corpusgen.engine.parts import grouped, row_slices
from corpusgen.errors import ConfigError
from corpusgen.sources.kinds import source_kind
from corpusgen.sources.readers import ExtractText, MediaWikiPages
from corpusgen.store import Store
from corpusgen.store.products import WORDS
from corpusgen.store.records import Reads
from corpusgen.tables import (
    CANDIDATES,
    COUNTS,
    ENRICHED,
    PARAPHRASES,
    PARAPHRASES_TABLE,
    SELECTION,
    SENTENCES,
    TARGETS,
    TRIPLE_REJECTS,
    TRIPLES,
    VOCABULARY,
)
from corpusgen.targets.stages import FetchTargets, MergeCounts, SelectTargets, SketchCandidates
from corpusgen.targets.vocabulary import count_words
from corpusgen.text.filters import FilterSentences
from corpusgen.text.language import IdentifyLanguage
from corpusgen.text.segment import SegmentSentences

GROUP_ROWS = 100_000  # sentences per unit when they are read again: a few seconds of work

_VOCABULARY = Reads(("harvest", "counts"))
_CANDIDATES = Reads(("harvest", "sentences"), whole=("vocabulary", "vocabulary"))
_SELECTION = Reads(("candidates", "candidates"))
_SAMPLE = Reads(("harvest", "sentences"), whole=("selection", "selection"))
_GENERATE = Reads(("sample", "targets"), whole=("vocabulary", "vocabulary"))


def _harvest(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass from source files to sentences and word counts."""
    slices = source_kind(config.source.kind).slices(config.source.paths, config.source.unit_bytes)
    tables = {"sentences": SENTENCES, "counts": COUNTS}
    return Pass("harvest", stages, slices, tables, derived={"counts": count_words})


def _harvest_stages(config: BuildConfig, store: Store) -> list[Stage]:
    source, language = config.source, config.language
    stages = source_kind(source.kind).stages(source)
    if language.identify:
        stages.append(IdentifyLanguage(language.code, language.threshold, language.model))
    segmenter = config.segmenter
    stages.append(SegmentSentences(segmenter.kind, language.code, segmenter.model_dir, segmenter.use_gpu))
    stages.append(FilterSentences(language.code, config.filters))
    return stages


def _vocabulary(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass from the word counts of all units to the words that may become targets. One unit: a merge."""
    counts = parts_of(_VOCABULARY, store)
    return Pass("vocabulary", stages, [counts] if counts else [], {"vocabulary": VOCABULARY})


def _vocabulary_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [MergeCounts(config.sample.drop_top_share, config.sample.vocabulary, store=store)]


def _candidates(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass that finds which sentences could be sampled for which word: a bounded sketch per unit."""
    slices = with_whole(_CANDIDATES, grouped(parts_of(_CANDIDATES, store), GROUP_ROWS), store)
    return Pass("candidates", stages, slices, {"candidates": CANDIDATES})


def _candidates_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [SketchCandidates(*_of_sample(config), store=store)]


def _selection(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass from all sketches to the balanced sample. One unit: a merge."""
    sketches = parts_of(_SELECTION, store)
    return Pass("selection", stages, [sketches] if sketches else [], {"selection": SELECTION})


def _selection_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [SelectTargets(*_of_sample(config), store=store)]


def _of_sample(config: BuildConfig) -> tuple[int, int, int, float | None]:
    sample = config.sample
    return sample.size, config.seed, sample.sentences_per_word, sample.max_capital_share


def _sample(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass that fetches the selected sentences with their targets."""
    slices = with_whole(_SAMPLE, grouped(parts_of(_SAMPLE, store), GROUP_ROWS), store)
    return Pass("sample", stages, slices, {"targets": TARGETS})


def _sample_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [FetchTargets(store=store)]


def _generate(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass from targets to triples, and to rejects for the targets that did not become one."""
    name = WORDS.pass_name
    slices = with_whole(_GENERATE, row_slices(parts_of(_GENERATE, store), config.generate.unit_targets), store)
    tables = {WORDS.table: TRIPLES, WORDS.rejects: TRIPLE_REJECTS}
    if config.generate.positives != "round_trip" or _was_planned_without(store, name, PARAPHRASES_TABLE):
        return Pass(name, stages, slices, tables)
    tables[PARAPHRASES_TABLE] = PARAPHRASES.with_metadata({RoundTrip.name: str(RoundTrip.version)})
    return Pass(name, stages, slices, tables, {PARAPHRASES_TABLE: enriched_paraphrases})


def enriched_paraphrases(rows: pa.Table) -> pa.Table:
    """Return the paraphrases of those triples in which another word replaced the aligned one."""
    return rows.filter(pc.equal(rows["positive_rule"], ENRICHED)).select(PARAPHRASES.names)


def _generate_stages(config: BuildConfig, store: Store) -> list[Stage]:
    assert config.vectors
    assert config.masked
    code, device = config.language.code, config.generate.device
    vectors = (config.vectors.path, config.vectors.words, config.vectors.max_words, config.rules, code)
    stages: list[Stage] = [ReadTargets(store=store)]
    if config.generate.positives == "round_trip":
        assert config.translation
        trip = config.translation
        identification = (trip.identify, trip.threshold, config.language.model)
        languages = (trip.forward, trip.back, trip.pivot, code)
        stages.append(
            RoundTrip(
                *languages,
                *identification,
                device,
                hypotheses=trip.hypotheses,
                others=tuple(trip.others),
                avoid_target=trip.avoid_target,
                avoid_max_loss=trip.avoid_max_loss,
            )
        )
        stages.append(AlignTargets(*vectors))
    stages.append(MakeTriples(*vectors, store, device, masked=config.masked))
    return stages


def _was_planned_without(store: Store, pass_name: str, table: str) -> bool:
    """Return whether an earlier version began the pass without this table; then it is finished without it too."""
    return store.files.exists(f"{pass_name}/plan.json") and table not in store.pass_store(pass_name).plan().tables


def _complete_for(config: BuildConfig) -> Sequence[str]:
    """Return all passes or, if the settings name no model, all but the last."""
    needed: dict[str, Any] = {"vectors": config.vectors, "masked": config.masked}
    if config.generate.positives == "round_trip":
        needed["translation"] = config.translation
    missing = [name for name, section in needed.items() if section is None]
    if len(missing) == len(needed):
        return [name for name in RECIPE.passes if name != WORDS.pass_name]
    if missing:
        raise ConfigError(f"{', '.join(missing)}: missing; to make triples, set {', '.join(needed)} (docs/triples.md)")
    return list(RECIPE.passes)


RECIPE = Recipe(
    product=WORDS,
    passes={
        "harvest": PassRecipe(
            _harvest_stages,
            _harvest,
            stage_classes=(MediaWikiPages, ExtractText, IdentifyLanguage, SegmentSentences, FilterSentences),
        ),
        "vocabulary": PassRecipe(_vocabulary_stages, _vocabulary, _VOCABULARY, (MergeCounts,)),
        "candidates": PassRecipe(_candidates_stages, _candidates, _CANDIDATES, (SketchCandidates,)),
        "selection": PassRecipe(_selection_stages, _selection, _SELECTION, (SelectTargets,)),
        "sample": PassRecipe(_sample_stages, _sample, _SAMPLE, (FetchTargets,)),
        WORDS.pass_name: PassRecipe(_generate_stages, _generate, _GENERATE, (RoundTrip, AlignTargets, MakeTriples)),
    },
    complete_for=_complete_for,
)
