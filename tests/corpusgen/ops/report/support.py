"""A hand-made store of a build: a few sentences, triples and rejects that were never generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from corpusgen.store import PassStore, Plan, StageCount, Store
from corpusgen.tables import SENTENCES, TRIPLE_REJECTS, TRIPLES

BEGUN = 1_700_000_000.0
SETTINGS = {
    "seed": 7,
    "source": {"kind": "text", "paths": ["data/*.txt"]},
    "language": {"code": "en"},
    "sample": {"size": 100, "vocabulary": 20},
    "generate": {"positives": "round_trip"},
    "translation": {"pivot": "de", "forward": {"backend": "fairseq"}, "back": {"backend": "fairseq"}},
    "rules": {
        **{"preset": "strict", "aligner": "cosine", "align_min_cosine": 0.6, "negatives": "threshold"},
        **{"negative_max_cosine": 0.4, "negative_min_probability": 0.01},
    },
}
MODELS = {
    "vectors": {"id": "../models/some-vectors.bin", "sha256": "ab" * 32},
    "masked": {"id": "bert-large-cased", "revision": "c" * 40},
}
PROVENANCE = {"source": "data/a.txt", "title": "An article"}


def spanned(name: str, before: str, word: str, after: str) -> dict[str, Any]:
    """The columns of a sentence and of its word."""
    start = len(before)
    text, target = ("text", "target") if name == "target" else (name, f"{name}_word")
    return {
        text: f"{before}{word}{after}",
        target: word,
        f"{name}_start": start,
        f"{name}_end": start + len(word),
    }


def triple(
    number: int,
    words: tuple[str, str, str] = ("bank", "shore", "money"),
    before: str = "They sat on the ",
    after: str = " of the river.",
    **others: Any,
) -> dict[str, Any]:
    row = {
        "id": f"{number:024x}",
        **spanned("target", before, words[0], after),
        **spanned("positive", f"On the whole: {before}", words[1], after),
        **spanned("negative", before, words[2], after),
        **{"positive_rule": "aligned", "alignment": 0.75, "positive_cosine": 0.75, "edit_distance": 4},
        **{"negative_cosine": 0.25, "negative_probability": 0.125, "pivot": f"Sie saßen am Ufer, {number}."},
        **PROVENANCE,
    }
    return {**row, **others}


def reject(number: int, reason: str = "no aligned word", word: str = "bank", **others: Any) -> dict[str, Any]:
    row = {"id": f"{number:024x}", **spanned("target", "We left the ", word, " at noon."), "reason": reason}
    return {**row, **PROVENANCE, **others}


def table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict.fromkeys(schema.names) | dict(row) for row in rows], schema)


def start(root: str, passes: Sequence[str] = ("harvest", "generate"), **content: Any) -> Store:
    """A store with a harvest that is done: two units, three sentences, rejects that are only counted."""
    store = Store.at(root)
    store.ensure_corpus({"passes": list(passes), "settings": SETTINGS, "models": MODELS, **content})
    harvest = store.pass_store("harvest")
    plan = Plan.of("harvest", [[{"file": "a"}], [{"file": "b"}]], {"sentences": SENTENCES})
    harvest.ensure_plan(plan)
    for number, unit in enumerate(plan.units):
        stages = [
            StageCount("read", 1, 9, expands=True, seconds=1.0),
            StageCount("filter", 9, 2 - number, {"too short": 6, "numbers": 1 + number}, seconds=0.5),
        ]
        sentences = table([{"id": str(number), "text": "A sentence."}] * (2 - number), SENTENCES)
        harvest.commit(unit.id, "run1-1", {"sentences": sentences}, [], stages, now=BEGUN + number)
    return store


def plan_generate(store: Store, units: int) -> PassStore:
    generate = store.pass_store("generate")
    slices = [[{"unit": number}] for number in range(units)]
    generate.ensure_plan(Plan.of("generate", slices, {"triples": TRIPLES, "rejects": TRIPLE_REJECTS}))
    return generate


def commit_unit(
    generate: PassStore,
    number: int,
    triples: Sequence[Mapping[str, Any]],
    rejects: Sequence[Mapping[str, Any]] = (),
    quarantined: Sequence[Mapping[str, Any]] = (),
    now: float | None = None,
    run: str = "run2",
) -> None:
    unit = generate.plan().units[number]
    reasons: dict[str, int] = {}
    for row in rejects:
        reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
    targets = len(triples) + len(rejects) + len(quarantined)
    stages = [
        StageCount("read", 1, targets, expands=True, seconds=0.1),
        StageCount("mask", targets, len(triples), reasons, len(quarantined), seconds=10.0),
    ]
    tables = {"triples": table(triples, TRIPLES), "rejects": table(rejects, TRIPLE_REJECTS)}
    when = BEGUN + 60 * (number + 1) if now is None else now
    assert generate.commit(unit.id, f"{run}-1", tables, quarantined, stages, now=when)


def small_store(root: str) -> Store:
    """Complete: two units with four triples, three of them of `bank`, and two rejects."""
    store = start(root)
    generate = plan_generate(store, 2)
    aligned = {"paraphrase": "We went from the shore at noon.", "aligned_start": 17, "aligned_end": 22}
    commit_unit(
        generate,
        0,
        [triple(1), triple(2, ("Spring", "Fountain", "Winter"), edit_distance=7)],
        [reject(3), reject(4, "no negative word", **aligned)],
    )
    enriched = {"positive_rule": "enriched", "positive_probability": 0.5, "edit_distance": 2}
    commit_unit(generate, 1, [triple(5, alignment=1.0, positive_cosine=1.0), triple(6, **enriched)])
    return store
