"""The rows and rejects that a report shows: a few, the same ones in whatever order the units were done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from corpusgen.ops.inspect.stats import labels_of, numeric_columns
from corpusgen.store import CommittedTable, Part
from corpusgen.store.products import Product
from corpusgen.tables import PROVENANCE

ROWS_SHOWN = 2000
REJECTS_SHOWN = 4  # for each reason
_MOST_OF_A_TEXT = 1000  # characters of a paragraph
_MOST_CHARACTERS = 300  # on either side of a word: the page stays small, whatever the filters let through


class Spanned(NamedTuple):
    """A sentence cut at its word. It is cut here because scripts in a page count characters differently."""

    before: str
    word: str
    after: str

    @classmethod
    def of(cls, text: str | None, start: int | None, end: int | None) -> Spanned | None:
        """Cut a text at its word, leaving out what is far from the word; None if there is no word."""
        if text is None or start is None or end is None:
            return None
        before, after = text[:start], text[end:]
        if len(before) > _MOST_CHARACTERS:
            before = f"…{before[-_MOST_CHARACTERS:]}"
        return cls(before, text[start:end], shortened(after))


def shortened(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Return the text, or its beginning if it is too long."""
    return f"{text[:most]}…" if len(text) > most else text


@dataclass(frozen=True)
class Columns:
    """The columns that the page shows besides the members of a row; numbers and notes with their labels."""

    product: Product
    numbers: Mapping[str, str]
    notes: Mapping[str, str]
    origin: Sequence[str]

    @classmethod
    def of(cls, product: Product, schema: pa.Schema) -> Columns:
        """Return the columns of a product: its numbers, and texts that are neither members nor tell its origin."""
        shown = {"id", "unit", product.kind, product.text, *(name for name, _ in PROVENANCE)}
        shown |= {name for member in product.members for name in (*member.columns, member.word)}
        notes = [field.name for field in schema if pa.types.is_string(field.type) and field.name not in shown]
        return cls(
            product,
            labels_of(schema, numeric_columns(product, schema)),
            labels_of(schema, notes),
            [name for name in ("title", "source") if name in schema.names],
        )

    def row(self, values: Mapping[str, Any]) -> Shown:
        """Return what the page shows of a row."""
        numbers = [values[name] for name in self.numbers]
        notes = [(label, values[name]) for name, label in self.notes.items() if values[name]]
        return Shown(
            str(values[self.product.kind]) if self.product.kind else None,
            self._members(values),
            [round(value, 4) if isinstance(value, float) else value for value in numbers],
            [(label, shortened(text, 2 * _MOST_CHARACTERS)) for label, text in notes],
            shortened(next((values[name] for name in self.origin if values[name]), "")),
        )

    def _members(self, values: Mapping[str, Any]) -> list[Spanned | None]:
        if self.product.text:
            return [Spanned(shortened(values[self.product.text], _MOST_OF_A_TEXT), "", "")]
        return [Spanned.of(*(values[name] for name in member.columns)) for member in self.product.members]


@dataclass(frozen=True)
class Shown:
    """The parts of a row that the page shows."""

    kind: str | None
    members: Sequence[Spanned | None]
    numbers: Sequence[float | None]
    notes: Sequence[tuple[str, str]]
    origin: str


class RowSample:
    """The rows with the lowest ids. Ids are hashes, so these are a fair sample of all.

    Of an id with a hyphen the part behind it counts: the one before is that of the document, which rows share.
    """

    def __init__(self, columns: Columns, most: int = ROWS_SHOWN) -> None:
        self._columns, self._most = columns, most
        self._chosen: list[tuple[str, str, int]] = []  # id, path of the part, row in it
        self._parts: dict[str, Part] = {}
        self._shown: dict[tuple[str, str, int], Shown] = {}

    def offer(self, part: Part, first: int, ids: pa.Array) -> None:
        """Consider the rows of a part from `first` on."""
        ids = pc.replace_substring_regex(ids, "^.*-", "")
        if len(self._chosen) == self._most:
            rows = pc.indices_nonzero(pc.less(ids, self._chosen[-1][0]))
        else:
            rows = pa.array(range(len(ids)))
        found = zip(ids.take(rows).to_pylist(), rows.to_pylist(), strict=True)
        self._chosen = sorted([*self._chosen, *((id_, part.path, first + row) for id_, row in found)])[: self._most]
        self._parts[part.path] = part

    def rows(self, table: CommittedTable) -> list[Shown]:
        """Return the rows chosen so far; reads only parts with newly chosen ones."""
        missing = defaultdict(list)
        for key in self._chosen:
            if key not in self._shown:
                missing[key[1]].append(key)
        for path, keys in missing.items():
            rows = _rows_at(table, self._parts[path], [row for _, _, row in keys])
            self._shown |= {key: self._columns.row(row) for key, row in zip(keys, rows, strict=True)}
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

    original: Spanned | None
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
