"""Explanations of why a triple is what it is, or why there is none: its sentence goes through its stages again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpusgen.corpus.triples.choose import judge_alignment
from corpusgen.corpus.triples.stages import AlignTargets, MakeTriples, ScoredWord
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.ops.inspect.judgements import AlignedWord, Choice, alignment_of, choices_of
from corpusgen.ops.inspect.matrix import Matrix, matrix_of
from corpusgen.ops.inspect.remake import Workshop
from corpusgen.ops.inspect.replay import ChangedColumn, Remade, compare
from corpusgen.ops.inspect.stored import Stored
from corpusgen.ops.inspect.units import unit_facts
from corpusgen.store.rows import Row
from corpusgen.tables import HYPOTHESES

_PROVENANCE = ("source", "article", "title", "revision", "paragraph", "sentence")


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
    hypotheses: Sequence[str] | None = None
    """All paraphrases that there were to choose from, if there were several."""
    unknown: Sequence[str] = ()
    """The words of the paraphrase that are probably damaged."""
    new_words: Sequence[ScoredWord] = ()
    """The words of the paraphrase that the original does not account for, if the masked LM was asked about them."""
    alignment: Sequence[AlignedWord] | None = None
    matrix: Matrix | None = None
    positive: Choice | None = None
    negative: Choice | None = None
    now: Remade | None = None
    differences: Sequence[ChangedColumn] = field(default_factory=list)

    @property
    def provenance(self) -> dict[str, Any]:
        """Return where the sentence comes from."""
        return {name: self.stored[name] for name in _PROVENANCE}


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
            found.hypotheses = [one["paraphrase"] for one in before.to_pylist()[0].get(HYPOTHESES.name, ())] or None
            pairs = stage.pairs(rows)  # after the choice among hypotheses
            (found.unknown,) = stage.unknown(pairs)
            (judged,) = judge_alignment(pairs, stage.criteria)
            found.alignment, found.matrix = alignment_of(pairs, judged), matrix_of(pairs, judged)
        elif isinstance(stage, MakeTriples):
            found.positive, found.negative = choices_of(stage, before)
            (found.new_words,) = stage.new_words(before)
    found.now = Remade.of(batch)[stored.row["id"]]
    found.differences = compare(stored, found.now)
    return found
