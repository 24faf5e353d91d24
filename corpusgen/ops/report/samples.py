"""The triples and rejects that a report shows: a few, the same ones in whatever order the units were done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.store import CommittedTable, Part

TRIPLES_SHOWN = 2000
REJECTS_SHOWN = 4  # for each reason
_MOST_CHARACTERS = 300  # on either side of a word: the page stays small, whatever the filters let through


class Spanned(NamedTuple):
    """A sentence cut at its word. It is cut here because scripts in a page count characters differently."""

    before: str
    word: str
    after: str

    @classmethod
    def of(cls, text: str, start: int, end: int) -> Spanned:
        """Cut a text at its word, leaving out what is far from the word."""
        before, after = text[:start], text[end:]
        if len(before) > _MOST_CHARACTERS:
            before = f"…{before[-_MOST_CHARACTERS:]}"
        return cls(before, text[start:end], shortened(after))


def shortened(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Return the text, or its beginning if it is too long."""
    return f"{text[:most]}…" if len(text) > most else text


@dataclass(frozen=True)
class Triple:
    """The parts of a triple that the page shows."""

    rule: str
    edit_distance: int
    original: Spanned
    positive: Spanned
    negative: Spanned
    pivot: str | None
    alignment: float | None
    positive_cosine: float | None
    positive_probability: float | None
    negative_cosine: float | None
    negative_probability: float | None
    place: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Triple:
        """Make a triple from a row of the table."""
        scores = ("alignment", "positive_cosine", "positive_probability", "negative_cosine", "negative_probability")
        return cls(
            row["positive_rule"],
            row["edit_distance"],
            Spanned.of(row["text"], row["target_start"], row["target_end"]),
            Spanned.of(row["positive"], row["positive_start"], row["positive_end"]),
            Spanned.of(row["negative"], row["negative_start"], row["negative_end"]),
            row["pivot"] and shortened(row["pivot"], 2 * _MOST_CHARACTERS),
            place=shortened(row["title"] or row["source"] or ""),
            **{name: None if row[name] is None else round(row[name], 4) for name in scores},
        )


class TripleSample:
    """The triples with the lowest ids. Ids are hashes, so these are a fair sample of all."""

    def __init__(self, most: int = TRIPLES_SHOWN) -> None:
        self._most = most
        self._chosen: list[tuple[str, str, int]] = []  # id, path of the part, row in it
        self._parts: dict[str, Part] = {}
        self._shown: dict[tuple[str, str, int], Triple] = {}

    def offer(self, part: Part, first: int, ids: pa.Array) -> None:
        """Consider the rows of a part from `first` on."""
        if len(self._chosen) == self._most:
            rows = pc.indices_nonzero(pc.less(ids, self._chosen[-1][0]))
        else:
            rows = pa.array(range(len(ids)))
        found = zip(ids.take(rows).to_pylist(), rows.to_pylist(), strict=True)
        self._chosen = sorted([*self._chosen, *((id_, part.path, first + row) for id_, row in found)])[: self._most]
        self._parts[part.path] = part

    def triples(self, table: CommittedTable) -> list[Triple]:
        """Return the triples chosen so far; reads only parts with newly chosen ones."""
        missing = defaultdict(list)
        for key in self._chosen:
            if key not in self._shown:
                missing[key[1]].append(key)
        for path, keys in missing.items():
            rows = _rows_at(table, self._parts[path], [row for _, _, row in keys])
            self._shown |= {key: Triple.of(row) for key, row in zip(keys, rows, strict=True)}
        self._shown = {key: self._shown[key] for key in self._chosen}
        used = {path for _, path, _ in self._chosen}
        self._parts = {path: part for path, part in self._parts.items() if path in used}
        return list(self._shown.values())


def _rows_at(table: CommittedTable, part: Part, rows: Iterable[int]) -> list[dict[str, Any]]:
    whole = pa.Table.from_batches(list(table.part_batches(part)), table.schema)
    found: list[dict[str, Any]] = whole.take(list(rows)).to_pylist()
    return found


@dataclass(frozen=True)
class Reject:
    """The parts of a rejected target that the page shows: as much as it had when it ended."""

    original: Spanned
    pivot: str | None
    paraphrase: Spanned | None
    """The paraphrase cut at the aligned word; without one, all of it is in `before`."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Reject:
        """Make a reject from a row of the table."""
        pivot, paraphrase, start = row["pivot"], row["paraphrase"], row["aligned_start"]
        if paraphrase is None:
            cut = None
        elif start is None:
            cut = Spanned(shortened(paraphrase, 2 * _MOST_CHARACTERS), "", "")
        else:
            cut = Spanned.of(paraphrase, start, row["aligned_end"])
        original = Spanned.of(row["text"], row["target_start"], row["target_end"])
        return cls(original, pivot and shortened(pivot, 2 * _MOST_CHARACTERS), cut)


class RejectSample:
    """Some rejects for each reason. The commits tell which units have any, so few parts are ever opened."""

    COLUMNS = (
        *("id", "text", "target_start", "target_end", "reason"),
        *("pivot", "paraphrase", "aligned_start", "aligned_end"),
    )

    def __init__(self, most: int = REJECTS_SHOWN) -> None:
        self._most = most
        self._units: dict[str, list[tuple[str, Part]]] = defaultdict(list)
        self._shown: dict[str, tuple[list[str], list[Reject]]] = {}

    def offer(self, unit: str, part: Part, reasons: Iterable[str]) -> None:
        """Consider a unit with rejects for these reasons. Unit ids are hashes, so the lowest ones are a fair choice."""
        for reason in reasons:
            units = [*self._units[reason], (unit, part)]
            self._units[reason] = sorted(units, key=lambda found: found[0])[: self._most]

    def rejects(self, table: CommittedTable) -> dict[str, list[Reject]]:
        """Return some rejects for each reason; reads only when the chosen units have changed."""
        for reason, units in self._units.items():
            names = [unit for unit, _ in units]
            if reason not in self._shown or self._shown[reason][0] != names:
                self._shown[reason] = names, self._read(table, reason, [part for _, part in units])
        return {reason: rejects for reason, (_, rejects) in self._shown.items()}

    def _read(self, table: CommittedTable, reason: str, parts: Iterable[Part]) -> list[Reject]:
        found: list[tuple[str, Reject]] = []
        for part in parts:
            for batch in table.part_batches(part, self.COLUMNS):
                rows = batch.filter(pc.equal(batch["reason"], reason))
                lowest = rows.sort_by("id").slice(0, self._most).to_pylist()
                found += ((row["id"], Reject.of(row)) for row in lowest)
        return [reject for _, reject in sorted(found, key=lambda pair: pair[0])[: self._most]]
