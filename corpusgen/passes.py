"""The passes of a build, each over what the one before has committed."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from corpusgen.config import BuildConfig
from corpusgen.engine import Pass, Stage
from corpusgen.engine.parts import PartRecord, grouped, part_records, row_slices
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.errors import ConfigError
from corpusgen.generate import AlignTargets, MakeTriples, ReadTargets
from corpusgen.models import describe_models
from corpusgen.reuse import Reuse
from corpusgen.schemas import SENTENCES, TARGETS
from corpusgen.sources import readers
from corpusgen.store import CommittedTable, Store, Totals
from corpusgen.store.records import Reads, hash_of_parts
from corpusgen.targets.sampling import CANDIDATES
from corpusgen.targets.stages import SELECTION, FetchTargets, MergeCounts, SelectTargets, SketchCandidates
from corpusgen.targets.vocabulary import COUNTS, VOCABULARY, count_words
from corpusgen.text.filters import FilterSentences
from corpusgen.text.language import IdentifyLanguage
from corpusgen.text.segment import SegmentSentences
from corpusgen.translate.fairseq_compat import BEWARE
from corpusgen.translate.stage import RoundTrip
from corpusgen.triples import FAILED, PARAPHRASES, PARAPHRASES_TABLE, TRIPLES, enriched_paraphrases

log = logging.getLogger(__name__)

GROUP_ROWS = 100_000  # sentences a unit when they are read again: a few seconds of work


def harvest(config: BuildConfig, store: Store) -> Pass:
    """Source files → sentences, and the number of their words."""
    slices = readers.slices_of(config.source.kind, config.source.paths, config.source.unit_bytes)
    tables = {"sentences": SENTENCES, "counts": COUNTS}
    return Pass("harvest", _harvest_stages(config), slices, tables, derived={"counts": count_words})


def _harvest_stages(config: BuildConfig) -> list[Stage]:
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
    stages.append(FilterSentences(language.code, **config.filters.model_dump()))
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
    stage = MergeCounts(config.sample.drop_top_share, config.sample.vocabulary, store=store)
    return Pass("vocabulary", [stage], [counts] if counts else [], {"vocabulary": VOCABULARY})


def candidates(config: BuildConfig, store: Store) -> Pass:
    """Sentences → which of them could be sampled for which word: a bounded sketch per unit."""
    slices = _with_whole("candidates", grouped(_parts_for("candidates", store), GROUP_ROWS), store)
    stage = SketchCandidates(config.sample.size, config.seed, store=store)
    return Pass("candidates", [stage], slices, {"candidates": CANDIDATES})


def selection(config: BuildConfig, store: Store) -> Pass:
    """All sketches → the balanced sample. One unit: a merge."""
    sketches = _parts_for("selection", store)
    stage = SelectTargets(config.sample.size, config.seed, store=store)
    return Pass("selection", [stage], [sketches] if sketches else [], {"selection": SELECTION})


def sample(config: BuildConfig, store: Store) -> Pass:
    """The selected sentences with their targets."""
    slices = _with_whole("sample", grouped(_parts_for("sample", store), GROUP_ROWS), store)
    return Pass("sample", [FetchTargets(store=store)], slices, {"targets": TARGETS})


def generate(config: BuildConfig, store: Store) -> Pass:
    """Targets → triples, and the targets that did not become one."""
    stages = _generate_stages(config, store)
    targets = row_slices(_parts_for("generate", store), config.generate.unit_targets)
    slices = _with_whole("generate", targets, store)
    tables = {"triples": TRIPLES, "rejects": FAILED}
    if config.generate.positives != "round_trip" or _was_planned_without(store, "generate", PARAPHRASES_TABLE):
        return Pass("generate", stages, slices, tables)
    tables[PARAPHRASES_TABLE] = PARAPHRASES.with_metadata({RoundTrip.name: str(RoundTrip.version)})
    return Pass("generate", stages, slices, tables, {PARAPHRASES_TABLE: enriched_paraphrases})


def _generate_stages(config: BuildConfig, store: Store) -> list[Stage]:
    assert config.vectors
    assert config.masked
    rules, code, device = config.rules.model_dump(mode="json"), config.language.code, config.generate.device
    vectors = (config.vectors.path, config.vectors.words, config.vectors.max_words, rules, code)
    stages: list[Stage] = [ReadTargets(store=store)]
    if config.generate.positives == "round_trip":
        assert config.translation
        there, back = (side.model_dump(mode="json") for side in (config.translation.forward, config.translation.back))
        identification = (config.translation.identify, config.translation.threshold, config.language.model)
        stages.append(RoundTrip(there, back, config.translation.pivot, code, *identification, device))
        stages.append(AlignTargets(*vectors))
    stages.append(MakeTriples(*vectors, config.masked.model_dump(mode="json"), store, device))
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


def stages_of(config: BuildConfig, store: Store, until: str | None = None) -> list[Stage]:
    """The stages of all passes up to `until`, for what their workers need: no input is looked at."""
    names = passes_of(config)
    names = names[: names.index(until) + 1] if until in names else names
    of_targets = (MergeCounts, SketchCandidates, SelectTargets, FetchTargets)
    stages = _harvest_stages(config) + [kind(store=store) for kind in of_targets[: len(names) - 1]]
    return stages + (_generate_stages(config, store) if "generate" in names else [])


def check_workers(config: BuildConfig) -> None:
    """ConfigError for workers of a stage that there is not: they would be ignored."""
    readers_of_text = (readers.MediaWikiPages, readers.ExtractText)
    of_text = (IdentifyLanguage, SegmentSentences, FilterSentences)
    of_targets = (MergeCounts, SketchCandidates, SelectTargets, FetchTargets)
    of_triples = (RoundTrip, AlignTargets, MakeTriples)
    known = {stage.name for stage in (*readers_of_text, *of_text, *of_targets, *of_triples)}
    for name in config.run.workers:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
            raise ConfigError(f"run.workers.{name}: there is no such stage; {remedy}")


def content_of(config: BuildConfig) -> dict[str, Any]:
    """What determines the corpus, for its corpus.json."""
    return {"passes": passes_of(config), "settings": config.content(), "models": describe_models(config)}


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
    content = content_of(config)
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
