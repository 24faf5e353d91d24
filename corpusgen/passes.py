"""The passes of a build, each over what the one before has committed."""

from __future__ import annotations

from collections.abc import Callable

from corpusgen.config import BuildConfig
from corpusgen.engine import Pass, Stage
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.schemas import SENTENCES, TARGETS
from corpusgen.sources import readers
from corpusgen.store import CommittedTable, Store, Totals
from corpusgen.store.records import content_hash
from corpusgen.targets.sampling import CANDIDATES
from corpusgen.targets.stages import (
    SELECTION,
    FetchTargets,
    MergeCounts,
    PartRecord,
    SelectTargets,
    SketchCandidates,
    grouped,
    part_records,
)
from corpusgen.targets.vocabulary import COUNTS, VOCABULARY, count_words
from corpusgen.text.filters import FilterSentences
from corpusgen.text.language import IdentifyLanguage
from corpusgen.text.segment import SegmentSentences

_GROUP_ROWS = 100_000  # sentences a unit when they are read again: a few seconds of work


def harvest(config: BuildConfig, store: Store) -> Pass:
    """Source files → sentences, and the number of their words."""
    source, language = config.source, config.language
    stages: list[Stage]
    match source.kind:
        case "mediawiki":
            slices = readers.mediawiki_slices(source.paths, source.unit_bytes)
            stages = [readers.MediaWikiPages(), readers.ExtractText()]
        case "parquet":
            slices = readers.parquet_slices(source.paths, source.unit_bytes)
            stages = [readers.ParquetRows(source.text_field)]
        case "wikiextractor":
            slices = readers.range_slices(source.paths, source.unit_bytes)
            stages = [readers.WikiExtractor()]
        case "jsonl":
            slices = readers.range_slices(source.paths, source.unit_bytes)
            stages = [readers.JsonLines(source.text_field)]
        case "text":
            slices = readers.range_slices(source.paths, source.unit_bytes)
            stages = [readers.PlainText()]
    if language.identify:
        stages.append(IdentifyLanguage(language.code, language.threshold, language.model))
    segmenter = config.segmenter
    stages.append(SegmentSentences(segmenter.kind, language.code, segmenter.model_dir, segmenter.use_gpu))
    stages.append(FilterSentences(language.code, **config.filters.model_dump()))
    return Pass("harvest", stages, slices, {"sentences": SENTENCES, "counts": COUNTS}, derived={"counts": count_words})


def vocabulary(config: BuildConfig, store: Store) -> Pass:
    """The counts of all units → the words that may become targets. One unit: a merge."""
    counts = part_records(CommittedTable(store, "harvest", "counts"))
    stage = MergeCounts(config.sample.drop_top_share, config.sample.vocabulary, store=store)
    return Pass("vocabulary", [stage], [counts] if counts else [], {"vocabulary": VOCABULARY})


def candidates(config: BuildConfig, store: Store) -> Pass:
    """Sentences → which of them could be sampled for which word: a bounded sketch per unit."""
    words = CommittedTable(store, "vocabulary", "vocabulary")
    sentences = part_records(CommittedTable(store, "harvest", "sentences"))
    stage = SketchCandidates(config.sample.size, config.seed, store=store)
    return Pass("candidates", [stage], _with_hash(grouped(sentences, _GROUP_ROWS), words), {"candidates": CANDIDATES})


def selection(config: BuildConfig, store: Store) -> Pass:
    """All sketches → the balanced sample. One unit: a merge."""
    sketches = part_records(CommittedTable(store, "candidates", "candidates"))
    stage = SelectTargets(config.sample.size, config.seed, store=store)
    return Pass("selection", [stage], [sketches] if sketches else [], {"selection": SELECTION})


def sample(config: BuildConfig, store: Store) -> Pass:
    """The selected sentences with their targets."""
    chosen = CommittedTable(store, "selection", "selection")
    sentences = part_records(CommittedTable(store, "harvest", "sentences"))
    stage = FetchTargets(store=store)
    return Pass("sample", [stage], _with_hash(grouped(sentences, _GROUP_ROWS), chosen), {"targets": TARGETS})


def _with_hash(groups: list[list[PartRecord]], *read_too: CommittedTable) -> list[list[PartRecord]]:
    """Let the units' ids depend on a table that each of them reads as a whole."""
    together = content_hash([part.sha256 for table in read_too for part in table.parts])
    return [[{**record, "with": together} for record in group] for group in groups]


PASSES: dict[str, Callable[[BuildConfig, Store], Pass]] = {
    "harvest": harvest,
    "vocabulary": vocabulary,
    "candidates": candidates,
    "selection": selection,
    "sample": sample,
}


def build(
    config: BuildConfig,
    executor: Executor,
    until: str | None = None,
    on_pass: Callable[[str, Totals], None] = lambda name, totals: None,
) -> Store:
    """Run, or go on with, the passes of a build up to and including `until`; `on_pass` hears of each when done."""
    store = Store.at(config.store)
    for name, make in PASSES.items():
        pass_ = make(config, store)
        # Only now that the settings have proved usable do they become those of the corpus.
        store.ensure_corpus({"passes": list(PASSES), "settings": config.content()})
        on_pass(name, run_pass(pass_, store.pass_store(name), executor, config.run))
        if name == until:
            break
    return store
