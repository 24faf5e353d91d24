"""ASE as passes in a store of its own.

**priorities** and **thresholds** draw the contexts of each word, **sums** reads them and adds up their vectors by unit,
and **vectors** merges the sums. A sentence is read once, whichever of its words it is a context of, and no text is
stored a second time. With all contexts, the first two passes have nothing to do; with none, the first three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from corpusgen.config.run import RunSettings, WorkerSettings
from corpusgen.engine import Pass, Stage
from corpusgen.engine.parts import PartRecord, part_records, row_slices
from corpusgen.engine.passes import Executor, run_pass
from corpusgen.store import CommittedTable, Store, Totals
from corpusgen.store.records import hash_of_parts
from distiller.static.ase.drawing import (
    PRIORITIES,
    THRESHOLDS,
    FindContexts,
    LowestPriorities,
    MergePriorities,
    ReadParagraphs,
    Words,
)
from distiller.static.ase.reading import SUMS, VECTORS, ListWords, MergeSums, ReadAlone, SumVectors, binary, unpacked
from distiller.static.ase.readout import ReadOut, read_out
from distiller.static.ase.sampling import kept_per_word
from distiller.static.inputs import Inputs
from distiller.static.output import Made
from distiller.static.room import check_room
from distiller.static.settings import StaticSettings
from distiller.static.vectors import StaticVectors

Say = Callable[[str], None]

_MERGED_ROWS = 10_000_000  # priorities in memory when thresholds are merged
_MERGED_BYTES = 500_000_000  # of sums in memory when vectors are merged
_PRIORITY = pa.schema([("word", pa.int32()), ("priority", pa.uint64())])


def prepare(settings: StaticSettings, inputs: Inputs) -> Ase:
    """Check the settings against the models' configurations; raise ConfigError for what cannot work."""
    return Ase(settings, inputs, read_out(settings))


@dataclass(frozen=True)
class Ase:
    """The method with its settings and inputs, checked."""

    settings: StaticSettings
    inputs: Inputs
    read: ReadOut

    @property
    def content(self) -> dict[str, Any]:
        """Return what determines the vectors beside the settings and the inputs: the models."""
        return {"passes": self._passes, **self.read.content}

    @property
    def _passes(self) -> list[str]:
        match self.settings.ase.contexts_per_word:
            case 0:
                return [VECTORS]
            case None:
                return [SUMS, VECTORS]
        return [PRIORITIES, THRESHOLDS, SUMS, VECTORS]

    def run_settings(self, gpus: int) -> RunSettings:
        """Return the resources of the workers that run the model: a GPU each, if there are any."""
        at_most = self.settings.workers
        if gpus:
            workers = WorkerSettings(gpus=1, max_workers=min(gpus, at_most or gpus))
        else:
            workers = WorkerSettings(max_workers=at_most)
        return RunSettings(workers={SumVectors.name: workers, ReadAlone.name: workers})

    # ------------------------------------------------------------------- costs

    @property
    def _contexts(self) -> npt.NDArray[np.int64]:
        """Return how many contexts each word has at most."""
        limit = self.settings.ase.contexts_per_word
        return self.inputs.counts if limit is None else np.minimum(self.inputs.counts, limit)

    @property
    def _bytes_per_word(self) -> int:
        return int(binary(len(self.read.tables), self.read.dimension).byte_width)

    def _bytes_of_sums(self) -> int:
        """Return how many bytes of sums all units write at most: a vector for each word that a unit has seen."""
        return int(np.minimum(self._contexts, len(self._slices())).sum()) * self._bytes_per_word

    def costs(self) -> list[str]:
        """Return how much there is to read, and to store."""
        words, contexts, layers = len(self.inputs.words), int(self._contexts.sum()), self.read.content["layers"]
        read = f"{contexts:,} contexts to read" if contexts else "each to be read alone"
        lines = [
            f"{words:,} words, {read}, in {self.inputs.paragraphs.num_rows:,} paragraphs ({len(self._slices()):,} "
            f"units); layers {layers[0]}–{layers[-1]}, dimension {self.read.dimension}"
        ]
        stored = words * self._bytes_per_word
        work = f"at most {self._bytes_of_sums() / 1e9:,.2f} GB of sums, " if contexts else ""
        return [*lines, f"to store: {work}{stored / 1e9:,.2f} GB of vectors"]

    def _check_room(self, store: Store) -> None:
        """Raise StoreError if the local disk is too small for the sums that are not there yet."""
        left = 1 - len(store.pass_store(SUMS).committed()) / max(1, len(self._slices()))
        remedy = "use fewer words, contexts_per_word or layers, or larger unit_paragraphs"
        check_room(store.url, self._bytes_of_sums() * left, "sums", remedy)

    # ------------------------------------------------------------------- passes

    def make(self, store: Store, executor: Executor, run: RunSettings, say: Say) -> Made:
        """Run the passes that are not done yet, and return the tables."""
        self._check_room(store)
        totals: dict[str, Totals] = {}
        for name in self._passes:
            totals[name] = run_pass(self._pass(name, store), store.pass_store(name), executor, run)
        unread = {reason: n for stage in totals[VECTORS].stages.values() for reason, n in stage.rejected.items()}
        for reason, count in unread.items():
            say(f"{count:,} {'word has' if count == 1 else 'words have'} no vector: {reason}")
        tables = {name: partial(self._table, store, number) for number, name in enumerate(self.read.tables)}
        return Made(tables, self._title, self._facts(store, totals))

    def _pass(self, name: str, store: Store) -> Pass:
        if name == PRIORITIES:
            return self._priorities()
        if name == THRESHOLDS:
            return self._thresholds(store)
        return self._sums(store) if name == SUMS else self._vectors(store)

    @property
    def _words(self) -> Words:
        return Words(self.inputs.corpus, len(self.inputs.words))

    @property
    def _vocabulary(self) -> str:
        return str(self.inputs.content["vocabulary"])

    def _slices(self) -> list[list[PartRecord]]:
        return row_slices(part_records(self.inputs.paragraphs), self.settings.ase.unit_paragraphs)

    def _reading(self, columns: Sequence[str]) -> Stage:
        return ReadParagraphs(store=self.inputs.corpus, columns=tuple(columns))

    def _priorities(self) -> Pass:
        contexts = self.settings.ase.contexts_per_word
        assert contexts
        find = LowestPriorities(contexts, self.settings.seed, self._vocabulary, self._words)
        return Pass(PRIORITIES, [self._reading(find.needs), find], self._slices(), {PRIORITIES: _PRIORITY})

    def _thresholds(self, store: Store) -> Pass:
        contexts = self.settings.ase.contexts_per_word
        assert contexts
        merge = MergePriorities(contexts, self._vocabulary, self._words, store=store)
        words = int(_MERGED_ROWS / kept_per_word(contexts))
        return Pass(THRESHOLDS, [merge], self._ranges(store, PRIORITIES, words), {THRESHOLDS: _PRIORITY})

    def _sums(self, store: Store) -> Pass:
        slices, drawn = self._slices(), None
        if THRESHOLDS in self._passes:
            drawn = store
            together = hash_of_parts(CommittedTable(store, THRESHOLDS, THRESHOLDS, finished=True).parts)
            slices = [[{**record, "with": together} for record in unit] for unit in slices]
        find = FindContexts(self.settings.seed, self._vocabulary, self._words, drawn)
        encode = SumVectors(self._made_with, self.read, self.settings.device)
        schema = pa.schema([("word", pa.int32()), ("contexts", pa.int64()), ("sums", self._binary)])
        return Pass(SUMS, [self._reading(find.needs), find, encode], slices, {SUMS: schema})

    def _vectors(self, store: Store) -> Pass:
        words = _MERGED_BYTES // (2 * self._bytes_per_word)  # the sums of a merge have twice as many bytes
        own = (self._vocabulary, self._words, self.read)
        if SUMS in self._passes:
            first: Stage = MergeSums(*own, store=store)
            slices: list[list[dict[str, Any]]] = self._ranges(store, SUMS, words)
        else:
            first, slices = ListWords(*own), [[record] for record in self._word_ranges(words)]
        alone = ReadAlone(self._made_with, self.read, self.settings.device)
        schema = pa.schema(
            [("word", pa.string()), ("count", pa.int64()), ("contexts", pa.int64()), ("vectors", self._binary)]
        )
        return Pass(VECTORS, [first, alone], slices, {VECTORS: schema})

    @property
    def _binary(self) -> pa.DataType:
        return binary(len(self.read.tables), self.read.dimension)

    @property
    def _made_with(self) -> dict[str, Any]:
        own = self.settings.ase
        how = {"tables": self.read.tables, "pieces": own.pieces, "of": own.of}
        return {**self.read.content, **how, "batch_tokens": self.settings.backbone.batch_tokens}

    def _word_ranges(self, words: int) -> Iterator[dict[str, int]]:
        """Yield ranges of at most so many words."""
        size, step = len(self.inputs.words), max(1, words)
        return ({"first_word": first, "words": min(step, size - first)} for first in range(0, size, step))

    def _ranges(self, store: Store, pass_name: str, words: int) -> list[list[dict[str, Any]]]:
        """Return a unit for each range of words; each reads all parts of a pass."""
        parts = part_records(CommittedTable(store, pass_name, pass_name, finished=True))
        return [[{**part, **range_} for part in parts] for range_ in self._word_ranges(words)]

    # ------------------------------------------------------------------- result

    def _table(self, store: Store, number: int) -> StaticVectors:
        """Load one of the tables."""
        rows = CommittedTable(store, VECTORS, VECTORS, finished=True)
        words: list[str] = []
        counts, matrix = np.zeros(rows.num_rows, np.int64), np.zeros((rows.num_rows, self.read.dimension), np.float32)
        for batch in rows.batches(["word", "count", "vectors"]):
            own = slice(len(words), len(words) + batch.num_rows)
            words += batch["word"].to_pylist()
            counts[own] = batch["count"].to_numpy()
            matrix[own] = unpacked(batch["vectors"], self.read.dimension)[:, number]
        return StaticVectors.of(words, matrix, counts)

    @property
    def _title(self) -> str:
        kinds = {"frozen": "word vectors", "meaning": "meaning vectors", "context": "context vectors"}
        return f"static {kinds[self.settings.ase.of]} by ASE"

    def _facts(self, store: Store, totals: dict[str, Totals]) -> dict[str, Any]:
        """Return what cards say."""
        own, content = self.settings.ase, self.read.content
        contexts = CommittedTable(store, VECTORS, VECTORS, finished=True).to_table(["contexts"])["contexts"].to_numpy()
        facts: dict[str, Any] = {"method": "mean over contexts (ASE, Bommasani et al. 2020)"}
        if own.model is not None:
            facts["word model"] = Path(own.model).name
        facts |= {"frozen model": content["backbone"]["id"], "layers": content["layers"], "pieces": own.pieces}
        limit = "all" if own.contexts_per_word is None else own.contexts_per_word
        facts |= {"contexts per word": limit, "contexts": int(contexts.sum()), "seed": self.settings.seed}
        facts["words read alone"] = int((contexts == 0).sum())
        if SUMS in totals:
            rejected = totals[SUMS].stages[SumVectors.name].rejected
            facts |= {f"contexts left out: {reason}": count for reason, count in rejected.items()}
        return {**facts, **self.inputs.facts}
