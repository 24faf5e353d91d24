"""The records a store is made of: units and their plan, parts and the commits that make them real."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from corpusgen.errors import StoreError

FORMAT = 1


def content_hash(value: Any) -> str:
    """A short name for a JSON-able value: equal values, equal names, on any machine and in any process."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:20]


def to_json(value: Any) -> bytes:
    """JSON that people can read; with escapes only where the text is not valid Unicode."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


@dataclass(frozen=True, slots=True)
class Unit:
    """The slice of work that is done, written and committed as a whole.

    `records` describe its input (a byte range of a file, some rows of a table): the first stage turns them into
    rows. `id` names everything that determines the content of the result, and nothing else.
    """

    id: str
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Part:
    """A file that a commit makes real."""

    path: str
    sha256: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class StageCount:
    """What one stage did with the rows of a unit."""

    name: str
    rows_in: int = 0
    rows_out: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    quarantined: int = 0
    expands: bool = False
    seconds: float = 0.0
    used: int | None = None
    """Of a stage that expands, if it tells: how many of the rows that entered became others."""

    @property
    def seen(self) -> int:
        """How many records the stage dealt with: of one that expands, those that came out of its rows."""
        return max(self.rows_in, self.rows_out + sum(self.rejected.values()) + self.quarantined)

    def __add__(self, other: StageCount) -> StageCount:
        rejected = dict(self.rejected)
        for reason, count in other.rejected.items():
            rejected[reason] = rejected.get(reason, 0) + count
        return StageCount(
            self.name,
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            rejected,
            self.quarantined + other.quarantined,
            self.expands,
            self.seconds + other.seconds,
            None if self.used is None and other.used is None else (self.used or 0) + (other.used or 0),
        )


@dataclass(frozen=True)
class Commit:
    """The record that makes the result of a unit real."""

    unit: str
    attempt: str
    parts: Mapping[str, Part]
    quarantine: Part | None
    stages: Sequence[StageCount]
    worker: str = ""
    committed_at: float = 0.0

    def files(self) -> list[Part]:
        """All files that it makes real."""
        return [*self.parts.values(), *([self.quarantine] if self.quarantine else [])]

    def encode(self) -> bytes:
        """The bytes of the commit's file."""
        fields = {
            **vars(self),
            "parts": {name: vars(part) for name, part in self.parts.items()},
            "quarantine": self.quarantine and vars(self.quarantine),
            "stages": [vars(stage) for stage in self.stages],
        }
        return to_json(fields)

    @classmethod
    def decode(cls, data: bytes) -> Commit:
        """Read it back; ValueError if it is not whole."""
        try:
            fields = json.loads(data)
            return cls(
                unit=fields["unit"],
                attempt=fields["attempt"],
                parts={name: _part_in("parts", part) for name, part in fields["parts"].items()},
                quarantine=fields["quarantine"] and _part_in("quarantine", fields["quarantine"]),
                stages=[StageCount(**stage) for stage in fields["stages"]],
                worker=fields["worker"],
                committed_at=fields["committed_at"],
            )
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"not a commit: {error}") from error


def _part_in(folder: str, fields: Mapping[str, Any]) -> Part:
    """A part that a commit names; ValueError if it lies where no part belongs: commits may come from anybody."""
    part = Part(**fields)
    steps = part.path.split("/")
    if len(steps) != 3 or steps[1] != folder or ".." in steps:
        raise ValueError(f"{part.path!r} is not in the folder {folder!r} of a pass")
    return part


@dataclass
class Totals:
    """What the commits of a pass add up to."""

    units: int
    committed: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    stages: dict[str, StageCount] = field(default_factory=dict)

    def add(self, commit: Commit) -> None:
        """Count one more unit."""
        self.committed += 1
        for name, part in commit.parts.items():
            self.rows[name] = self.rows.get(name, 0) + part.rows
        for stage in commit.stages:
            self.stages[stage.name] = self.stages[stage.name] + stage if stage.name in self.stages else stage

    @property
    def complete(self) -> bool:
        """Whether every planned unit was committed."""
        return self.committed == self.units

    @property
    def rejected(self) -> int:
        """Rows that ended on purpose."""
        return sum(sum(stage.rejected.values()) for stage in self.stages.values())

    @property
    def quarantined(self) -> int:
        """Records that could not be processed."""
        return sum(stage.quarantined for stage in self.stages.values())


@dataclass(frozen=True)
class Plan:
    """The units of a pass, in the order in which readers see their rows, and the tables they yield."""

    fingerprint: str
    units: Sequence[Unit]
    tables: Mapping[str, pa.Schema]

    def encode(self) -> bytes:
        """The bytes of `plan.json`: deterministic, so that two drivers can compare theirs."""
        tables = {name: base64.b64encode(schema.serialize()).decode() for name, schema in self.tables.items()}
        units = [{"id": unit.id, "records": list(unit.records)} for unit in self.units]
        plan = {"format": FORMAT, "fingerprint": self.fingerprint, "tables": tables, "units": units}
        return to_json(plan)

    @classmethod
    def decode(cls, data: bytes) -> Plan:
        """Read it back."""
        fields = json.loads(data)
        if fields["format"] != FORMAT:
            raise StoreError(f"the plan has format {fields['format']}, this version reads format {FORMAT}")
        tables = {
            name: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
            for name, schema in fields["tables"].items()
        }
        return cls(fields["fingerprint"], [Unit(u["id"], tuple(u["records"])) for u in fields["units"]], tables)

    @classmethod
    def of(
        cls, fingerprint: str, slices: Sequence[Sequence[Mapping[str, Any]]], tables: Mapping[str, pa.Schema]
    ) -> Plan:
        """One unit a slice; `fingerprint` sums up everything but the slice that determines its result."""
        units = [Unit(content_hash([fingerprint, list(records)]), tuple(records)) for records in slices]
        return cls(fingerprint, units, tables)
