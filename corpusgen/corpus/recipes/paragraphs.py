"""The recipe `paragraphs`: whole paragraphs with their sentences and tokens, and a vocabulary, for static vectors."""

from __future__ import annotations

from collections.abc import Sequence

from corpusgen.config.build import BuildConfig, ParagraphSettings
from corpusgen.corpus.recipe import PassRecipe, Recipe, parts_of
from corpusgen.engine import Pass, Stage
from corpusgen.sources.kinds import source_kind
from corpusgen.sources.readers import ExtractText, MediaWikiPages
from corpusgen.store import Store
from corpusgen.store.products import PARAGRAPHS, TOKEN_VOCABULARY
from corpusgen.store.records import Reads
from corpusgen.tables import COUNTS, KEPT_PARAGRAPHS
from corpusgen.tables import TOKEN_VOCABULARY as VOCABULARY_SCHEMA
from corpusgen.targets.stages import MergeTokens
from corpusgen.targets.vocabulary import count_tokens
from corpusgen.text.language import IdentifyLanguage
from corpusgen.text.paragraphs import SegmentParagraphs

_TOKENS = Reads((PARAGRAPHS.pass_name, "counts"))


def _paragraphs(config: BuildConfig, store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass from source files to paragraphs and the counts of their tokens."""
    slices = source_kind(config.source.kind).slices(config.source.paths, config.source.unit_bytes)
    tables = {PARAGRAPHS.table: KEPT_PARAGRAPHS, "counts": COUNTS}
    return Pass(PARAGRAPHS.pass_name, stages, slices, tables, derived={"counts": count_tokens})


def _paragraphs_stages(config: BuildConfig, store: Store) -> list[Stage]:
    source, language, segmenter, kept = config.source, config.language, config.segmenter, config.paragraphs
    stages = source_kind(source.kind).stages(source)
    if language.identify:
        stages.append(IdentifyLanguage(language.code, language.threshold, language.model))
    of_segmenter = (segmenter.kind, language.code, segmenter.model_dir, segmenter.use_gpu)
    stages.append(SegmentParagraphs(*of_segmenter, kept.min_sentences, kept.min_characters))
    return stages


def vocabulary_pass(store: Store, stages: list[Stage]) -> Pass:
    """Plan the pass from the counts of all units to the vocabulary. One unit: a merge."""
    counts = parts_of(_TOKENS, store)
    name, table = TOKEN_VOCABULARY
    return Pass(name, stages, [counts] if counts else [], {table: VOCABULARY_SCHEMA})


def vocabulary_stages(settings: ParagraphSettings, store: Store) -> list[Stage]:
    """Return the stages of the pass that makes the vocabulary."""
    return [MergeTokens(settings.min_count, settings.vocabulary, store=store)]


def _complete_for(config: BuildConfig) -> Sequence[str]:
    """Return all passes: no model is needed."""
    return list(RECIPE.passes)


RECIPE = Recipe(
    product=PARAGRAPHS,
    passes={
        PARAGRAPHS.pass_name: PassRecipe(
            _paragraphs_stages,
            _paragraphs,
            stage_classes=(MediaWikiPages, ExtractText, IdentifyLanguage, SegmentParagraphs),
        ),
        TOKEN_VOCABULARY[0]: PassRecipe(
            lambda config, store: vocabulary_stages(config.paragraphs, store),
            lambda config, store, stages: vocabulary_pass(store, stages),
            _TOKENS,
            (MergeTokens,),
        ),
    },
    complete_for=_complete_for,
)
