"""The passes of a build, each over what the one before has committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.paraphrases.stage import RoundTrip
from corpusgen.corpus.reuse import Reuse
from corpusgen.corpus.triples.stages import AlignTargets, MakeTriples, ReadTargets
from corpusgen.engine import Pass, Stage
from corpusgen.engine.parts import PartRecord, grouped, part_records, row_slices
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.engine.stage import models_used
from corpusgen.errors import ConfigError, did_you_mean
from corpusgen.models.translate.fairseq_compat import BEWARE
from corpusgen.sources import readers
from corpusgen.store import CommittedTable, Store, Totals
from corpusgen.store.records import Reads, hash_of_parts
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

log = logging.getLogger(__name__)

GROUP_ROWS = 100_000  # sentences a unit when they are read again: a few seconds of work


def harvest(config: BuildConfig, store: Store) -> Pass:
    """Source files → sentences, and the number of their words."""
    slices = readers.slices_of(config.source.kind, config.source.paths, config.source.unit_bytes)
    tables = {"sentences": SENTENCES, "counts": COUNTS}
    return Pass("harvest", _harvest_stages(config, store), slices, tables, derived={"counts": count_words})


def _harvest_stages(config: BuildConfig, store: Store) -> list[Stage]:
    source, language = config.source, config.language
    stages: list[Stage]
    match source.kind:
        case "mediawiki":
            stages = [readers.MediaWikiPages(), readers.ExtractText()]
        case "parquet":
            stages = [readers.ParquetRows(source.text_field)]
        case "wikiextractor":
            stages = [readers.WikiExtractor()]
        case "jsonl":
            stages = [readers.JsonLines(source.text_field)]
        case "text":
            stages = [readers.PlainText()]
    if language.identify:
        stages.append(IdentifyLanguage(language.code, language.threshold, language.model))
    segmenter = config.segmenter
    stages.append(SegmentSentences(segmenter.kind, language.code, segmenter.model_dir, segmenter.use_gpu))
    stages.append(FilterSentences(language.code, config.filters))
    return stages


READS = {
    "vocabulary": Reads(("harvest", "counts")),
    "candidates": Reads(("harvest", "sentences"), whole=("vocabulary", "vocabulary")),
    "selection": Reads(("candidates", "candidates")),
    "sample": Reads(("harvest", "sentences"), whole=("selection", "selection")),
    "generate": Reads(("sample", "targets"), whole=("vocabulary", "vocabulary")),
}
"""What each pass but the first is planned from."""


def _parts_for(name: str, store: Store) -> list[PartRecord]:
    """The parts that a pass reads."""
    return part_records(CommittedTable(store, *READS[name].parts, finished=True))


def _with_whole(name: str, groups: list[list[PartRecord]], store: Store) -> list[list[PartRecord]]:
    """Let the units' ids depend on a table that each of them reads as a whole."""
    whole = READS[name].whole
    assert whole
    together = hash_of_parts(CommittedTable(store, *whole, finished=True).parts)
    return [[{**record, "with": together} for record in group] for group in groups]


def vocabulary(config: BuildConfig, store: Store) -> Pass:
    """The counts of all units → the words that may become targets. One unit: a merge."""
    counts = _parts_for("vocabulary", store)
    stages = _vocabulary_stages(config, store)
    return Pass("vocabulary", stages, [counts] if counts else [], {"vocabulary": VOCABULARY})


def _vocabulary_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [MergeCounts(config.sample.drop_top_share, config.sample.vocabulary, store=store)]


def candidates(config: BuildConfig, store: Store) -> Pass:
    """Sentences → which of them could be sampled for which word: a bounded sketch per unit."""
    slices = _with_whole("candidates", grouped(_parts_for("candidates", store), GROUP_ROWS), store)
    return Pass("candidates", _candidates_stages(config, store), slices, {"candidates": CANDIDATES})


def _candidates_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [SketchCandidates(config.sample.size, config.seed, store=store)]


def selection(config: BuildConfig, store: Store) -> Pass:
    """All sketches → the balanced sample. One unit: a merge."""
    sketches = _parts_for("selection", store)
    stages = _selection_stages(config, store)
    return Pass("selection", stages, [sketches] if sketches else [], {"selection": SELECTION})


def _selection_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [SelectTargets(config.sample.size, config.seed, store=store)]


def sample(config: BuildConfig, store: Store) -> Pass:
    """The selected sentences with their targets."""
    slices = _with_whole("sample", grouped(_parts_for("sample", store), GROUP_ROWS), store)
    return Pass("sample", _sample_stages(config, store), slices, {"targets": TARGETS})


def _sample_stages(config: BuildConfig, store: Store) -> list[Stage]:
    return [FetchTargets(store=store)]


def generate(config: BuildConfig, store: Store) -> Pass:
    """Targets → triples, and the targets that did not become one."""
    stages = _generate_stages(config, store)
    targets = row_slices(_parts_for("generate", store), config.generate.unit_targets)
    slices = _with_whole("generate", targets, store)
    tables = {"triples": TRIPLES, "rejects": TRIPLE_REJECTS}
    if config.generate.positives != "round_trip" or _was_planned_without(store, "generate", PARAPHRASES_TABLE):
        return Pass("generate", stages, slices, tables)
    tables[PARAPHRASES_TABLE] = PARAPHRASES.with_metadata({RoundTrip.name: str(RoundTrip.version)})
    return Pass("generate", stages, slices, tables, {PARAPHRASES_TABLE: enriched_paraphrases})


def enriched_paraphrases(rows: pa.Table) -> pa.Table:
    """Of the rows that became triples, the paraphrases in which another word took the place of the aligned one."""
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
        stages.append(RoundTrip(trip.forward, trip.back, trip.pivot, code, *identification, device))
        stages.append(AlignTargets(*vectors))
    stages.append(MakeTriples(*vectors, store, device, masked=config.masked))
    return stages


def _was_planned_without(store: Store, pass_name: str, table: str) -> bool:
    """Whether an earlier version began the pass, when there was no such table: then it is finished as it was begun."""
    return store.files.exists(f"{pass_name}/plan.json") and table not in store.pass_store(pass_name).plan().tables


def passes_of(config: BuildConfig) -> list[str]:
    """The passes that the settings are complete for: all or, without any model named, those before `generate`.

    ConfigError if only some of what `generate` needs is there: before any hour was spent.
    """
    needed: dict[str, Any] = {"vectors": config.vectors, "masked": config.masked}
    if config.generate.positives == "round_trip":
        needed["translation"] = config.translation
    missing = [name for name, section in needed.items() if section is None]
    if len(missing) == len(needed):
        return [name for name in PASSES if name != "generate"]
    if missing:
        raise ConfigError(f"{', '.join(missing)}: missing; to make triples, give {', '.join(needed)} (docs/triples.md)")
    return list(PASSES)


PASSES: dict[str, Callable[[BuildConfig, Store], Pass]] = {
    "harvest": harvest,
    "vocabulary": vocabulary,
    "candidates": candidates,
    "selection": selection,
    "sample": sample,
    "generate": generate,
}


STAGES: dict[str, Callable[[BuildConfig, Store], list[Stage]]] = {
    "harvest": _harvest_stages,
    "vocabulary": _vocabulary_stages,
    "candidates": _candidates_stages,
    "selection": _selection_stages,
    "sample": _sample_stages,
    "generate": _generate_stages,
}


def stages_of(config: BuildConfig, store: Store, until: str | None = None) -> list[Stage]:
    """The stages of all passes up to `until`, for what their workers need: no input is looked at."""
    names = passes_of(config)
    names = names[: names.index(until) + 1] if until in names else names
    return [stage for name in names for stage in STAGES[name](config, store)]


def check_workers(config: BuildConfig) -> None:
    """ConfigError for workers of a stage that there is not: they would be ignored."""
    readers_of_text = (readers.MediaWikiPages, readers.ExtractText)
    of_text = (IdentifyLanguage, SegmentSentences, FilterSentences)
    of_targets = (MergeCounts, SketchCandidates, SelectTargets, FetchTargets)
    of_triples = (RoundTrip, AlignTargets, MakeTriples)
    known = {stage.name for stage in (*readers_of_text, *of_text, *of_targets, *of_triples)}
    for name in config.run.workers:
        if name not in known:
            raise ConfigError(f"run.workers.{name}: there is no such stage; {did_you_mean(name, sorted(known))}")


def content_of(config: BuildConfig, store: Store) -> dict[str, Any]:
    """Return what determines the corpus, for its corpus.json."""
    used = models_used(stages_of(config, store))
    begun = _begun(store)
    if begun is not None and "language" not in begun.get("models", {}):
        # Version 0.1 did not record the one that only translators use: what it began goes on without.
        used = [model for model in used if model.role != "language"]
    models = {model.role: model.describe() for model in used}
    return {"passes": passes_of(config), "settings": config.content(), "models": models}


def _begun(store: Store) -> Mapping[str, Any] | None:
    """What a store that was begun says of itself; None of a new one."""
    try:
        # Not `exists`: to that, an object store that refuses a key does not say why.
        store.files.read("corpus.json")
    except FileNotFoundError:
        return None
    return store.corpus()


def _warn(config: BuildConfig, models: Mapping[str, Mapping[str, Any]]) -> None:
    """Of models that are not to be trusted blindly, and of those that cannot be checked."""
    if config.translation and "fairseq" in (config.translation.forward.backend, config.translation.back.backend):
        log.warning("translation: %s", BEWARE)
    for role, model in models.items():
        if not (model.get("sha256") or model.get("revision")):
            log.warning(
                "%s: %s is not on this machine: nobody checks that all workers have the same", role, model["id"]
            )


def build(
    config: BuildConfig,
    executor: Executor,
    until: str | None = None,
    on_pass: Callable[[str, Totals], None] = lambda name, totals: None,
    reuse: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Store:
    """Run, or go on with, the passes of a build up to and including `until`; `on_pass` hears of each when done.

    `reuse` is the root of a store to take from what would come out the same; `say` hears what that is.
    """
    check_workers(config)
    names = passes_of(config)
    if until is not None and until not in names:
        raise ConfigError(f"the pass {until!r} needs more settings; there are enough for {', '.join(names)}")
    store = Store.at(config.store)
    content = content_of(config, store)
    _warn(config, content["models"])
    reused = Reuse(reuse, store, content, say) if reuse else None
    for name in names:
        pass_ = PASSES[name](config, store)
        for stage in pass_.stages:
            stage.models = content["models"]
        if reused and name == "harvest":
            reused.check(pass_)
        # Only now that the settings have proved usable do they become those of the corpus.
        store.ensure_corpus(content)
        if reused:
            pass_ = reused.begin(pass_, store.pass_store(name))
        on_pass(name, run_pass(pass_, store.pass_store(name), executor, config.run))
        if name == until:
            break
    return store
