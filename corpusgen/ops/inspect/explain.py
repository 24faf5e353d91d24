"""Explanations of why a triple is what it is, or why there is none: its sentence goes through its stages again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpusgen.corpus.triples.choose import judge_alignment
from corpusgen.corpus.triples.stages import AlignTargets, MakeTriples
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.ops.inspect.judgements import AlignedWord, Choice, alignment_of, choices_of
from corpusgen.ops.inspect.matrix import Matrix, matrix_of
from corpusgen.ops.inspect.remake import Workshop
from corpusgen.ops.inspect.replay import Difference, Remade, compare
from corpusgen.ops.inspect.stored import Stored
from corpusgen.store import Store
from corpusgen.store.products import WORDS
from corpusgen.store.rows import Row

_PLACE = ("source", "article", "title", "revision", "paragraph", "sentence")


@dataclass
class Explanation:
    """Everything known about one target, up to where it ended. `stored` is its row in the store."""

    store: str
    outcome: str
    stored: Row
    unit: Mapping[str, Any]
    models: Mapping[str, Any]
    rules: Mapping[str, Any]
    same_code: bool
    note: str | None = None
    pivot: str | None = None
    paraphrase: str | None = None
    alignment: Sequence[AlignedWord] | None = None
    matrix: Matrix | None = None
    positive: Choice | None = None
    negative: Choice | None = None
    now: Remade | None = None
    differences: Sequence[Difference] = field(default_factory=list)

    @property
    def place(self) -> dict[str, Any]:
        """Return where the sentence comes from."""
        return {name: self.stored[name] for name in _PLACE}


def explain(stored: Stored, workshop: Workshop) -> Explanation:
    """Explain a triple or a reject by the stages that made it."""
    found = Explanation(
        store=stored.store.url,
        outcome="triple" if stored.is_triple else "reject",
        stored=stored.row,
        unit=unit_facts(stored.store, stored.row["unit"]),
        models=workshop.models,
        rules=workshop.config.rules.model_dump(mode="json"),
        same_code=workshop.same_code,
        note=workshop.note,
    )
    batch = Batch(workshop.targets([stored.row]))
    for stage in workshop.stages:
        before = batch.rows
        batch = run_stage(stage, batch)
        if before is None or batch.quarantined:
            break
        rows = batch.rows if batch.num_rows else batch.rejects
        assert rows is not None
        after = rows.to_pylist()[0]
        found.pivot, found.paraphrase = after.get("pivot"), after.get("paraphrase")
        if isinstance(stage, AlignTargets):
            pairs = stage.pairs(before)
            (judged,) = judge_alignment(pairs, stage.criteria)
            found.alignment, found.matrix = alignment_of(pairs, judged), matrix_of(pairs, judged)
        elif isinstance(stage, MakeTriples):
            found.positive, found.negative = choices_of(stage, before)
    found.now = Remade.of(batch)[stored.row["id"]]
    found.differences = compare(stored, found.now)
    return found


def unit_facts(store: Store, unit: str) -> dict[str, Any]:
    """Return who did a unit, when and how fast: from its commit, and from its event if one was written."""
    pass_store = store.pass_store(WORDS.pass_name)
    commit = pass_store.read_commit(unit)
    return {
        "id": unit,
        "attempt": commit.attempt,
        "worker": commit.worker,
        "committed_at": commit.committed_at,
        "seconds": {stage.name: stage.seconds for stage in commit.stages},
        "event": _event(store, unit, commit.attempt),
    }


def _event(store: Store, unit: str, attempt: str) -> dict[str, Any] | None:
    """Return the line that the winning run wrote about the unit; reads only files of that run."""
    run = attempt.rpartition("-")[0]
    for info in store.files.list(f"{WORDS.pass_name}/events"):
        if info.path.rpartition("/")[2].startswith(f"{run}-"):
            for line in store.files.read(info.path).splitlines():
                event: dict[str, Any] = json.loads(line)
                if event.get("unit") == unit and event.get("won"):
                    return event
    return None
