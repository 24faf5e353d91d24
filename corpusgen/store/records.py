"""The records of a store: units and their plan, parts and the commits that make them valid."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import ConfigDict, Field, NonNegativeInt

from corpusgen.errors import StoreError
from corpusgen.io.hashing import content_hash
from corpusgen.io.strict_json import from_json, to_json

FORMAT = 1
_CHECKSUM = b', "checksum": "'  # the last field in a file: the sha256 of everything before it

# Files of version 0.1 have no checksum; they end with brackets or a short number.
_ENDS_LIKE_SEALED = re.compile(rb"[^\s{}\[\]]{40}.?\Z", re.DOTALL)
_NOTHING_ELSE = ConfigDict(extra="forbid")

_Seconds = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]


def sealed(body: bytes) -> bytes:
    """Return a JSON object with a checksum added as its last field."""
    body = body.removesuffix(b"}").rstrip()
    return b'%s%s%s"}' % (body, _CHECKSUM, hashlib.sha256(body).hexdigest().encode())


def is_sealed(data: bytes) -> bool:
    """Return whether a JSON object has a checksum.

    A commit with one also vouches that all parts it was made from were undamaged: version 0.1 neither wrote checksums
    nor checked the hashes of the parts it read.
    """
    return _CHECKSUM in data


def unsealed(data: bytes) -> bytes:
    """Return the object without its checksum, if it has one; raise ValueError if the checksum does not match."""
    body, found, checksum = data.rpartition(_CHECKSUM)
    if not found and not _ENDS_LIKE_SEALED.search(data):
        return data
    if checksum != hashlib.sha256(body).hexdigest().encode() + b'"}':
        raise ValueError("its checksum is wrong")
    return body + b"}"


@dataclass(frozen=True, slots=True)
class Unit:
    """A slice of work that is done, written and committed as a whole.

    `records` describe its input (a byte range of a file, some rows of a table); the first stage turns them into
    rows. `id` is a hash of everything that determines the result, and of nothing else.
    """

    id: str
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Part:
    """A file that a commit makes valid."""

    __pydantic_config__: ClassVar[ConfigDict] = _NOTHING_ELSE

    path: str
    sha256: str
    rows: NonNegativeInt
    bytes: NonNegativeInt
    crc32: NonNegativeInt | None = None
    """The checksum that readers check, three times as fast as the sha256 that `verify` checks. None in version 0.1."""


@dataclass(frozen=True)
class StageCount:
    """The counts of what one stage did with the rows of a unit."""

    __pydantic_config__: ClassVar[ConfigDict] = _NOTHING_ELSE

    name: str
    rows_in: NonNegativeInt = 0
    rows_out: NonNegativeInt = 0
    rejected: Mapping[str, NonNegativeInt] = field(default_factory=dict)
    quarantined: NonNegativeInt = 0
    expands: bool = False
    seconds: _Seconds = 0.0
    used: int | None = None
    """For a stage that expands, if it reports this: how many of the rows that entered became new rows."""

    @property
    def seen(self) -> int:
        """Return how many records the stage handled; for one that expands, the records made from its rows."""
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
    """The record that makes the result of a unit valid."""

    __pydantic_config__: ClassVar[ConfigDict] = _NOTHING_ELSE

    unit: str
    attempt: str
    parts: Mapping[str, Part]
    quarantine: Part | None
    stages: Sequence[StageCount]
    worker: str = ""
    committed_at: _Seconds = 0.0

    def files(self) -> list[Part]:
        """Return all files that the commit makes valid."""
        return [*self.parts.values(), *([self.quarantine] if self.quarantine else [])]

    def encode(self) -> bytes:
        """Return the bytes of the commit's file, which end with a checksum."""
        values = {
            **vars(self),
            "parts": {name: vars(part) for name, part in self.parts.items()},
            "quarantine": self.quarantine and vars(self.quarantine),
            "stages": [vars(stage) for stage in self.stages],
        }
        return sealed(to_json(values))

    @classmethod
    def decode(cls, data: bytes) -> Commit:
        """Read a commit from its bytes; raise ValueError if they are damaged."""
        commit = from_json(unsealed(data), cls)
        for folder, parts in (("parts", commit.parts.values()), ("quarantine", [commit.quarantine])):
            for part in parts:
                if part:
                    _check_folder(part, folder)
        return commit


def _check_folder(part: Part, folder: str) -> None:
    """Raise ValueError if a part lies outside its folder: commits are not trusted."""
    steps = part.path.split("/")
    if len(steps) != 3 or steps[1] != folder or ".." in steps:
        raise ValueError(f"{part.path!r} is not in the folder {folder!r} of a pass")


@dataclass
class Totals:
    """The sums over the commits of a pass."""

    units: int
    committed: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    stages: dict[str, StageCount] = field(default_factory=dict)

    def add(self, commit: Commit) -> None:
        """Add the commit of one more unit."""
        self.committed += 1
        for name, part in commit.parts.items():
            self.rows[name] = self.rows.get(name, 0) + part.rows
        for stage in commit.stages:
            self.stages[stage.name] = self.stages[stage.name] + stage if stage.name in self.stages else stage

    @property
    def complete(self) -> bool:
        """Return whether every planned unit is committed."""
        return self.committed == self.units

    @property
    def rejected(self) -> int:
        """Return how many rows were rejected on purpose."""
        return sum(sum(stage.rejected.values()) for stage in self.stages.values())

    @property
    def quarantined(self) -> int:
        """Return how many records could not be processed."""
        return sum(stage.quarantined for stage in self.stages.values())


@dataclass(frozen=True)
class Plan:
    """The units of a pass, in the order in which readers see their rows, and the tables they yield."""

    fingerprint: str
    units: Sequence[Unit]
    tables: Mapping[str, pa.Schema]

    def encode(self) -> bytes:
        """Return the bytes of `plan.json`: deterministic, so that two drivers can compare theirs."""
        tables = {name: base64.b64encode(schema.serialize()).decode() for name, schema in self.tables.items()}
        units = [{"id": unit.id, "records": list(unit.records)} for unit in self.units]
        plan = {"format": FORMAT, "fingerprint": self.fingerprint, "tables": tables, "units": units}
        return sealed(to_json(plan))

    @classmethod
    def decode(cls, data: bytes) -> Plan:
        """Read a plan from its bytes; raise ValueError if they are damaged."""
        stored = from_json(unsealed(data), _StoredPlan)
        if stored.format != FORMAT:
            raise StoreError(f"the plan has format {stored.format}, but this version reads format {FORMAT}")
        if not stored.tables:
            raise ValueError("it does not name any table")
        try:
            tables = {
                name: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
                for name, schema in stored.tables.items()
            }
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"cannot read the columns of a table: {error}") from error
        return cls(stored.fingerprint, [Unit(unit.id, tuple(unit.records)) for unit in stored.units], tables)

    def is_same(self, other: Plan) -> bool:
        """Return whether both plans have the same units and tables. A unit's id covers all of its input.

        The bytes may differ: a part that version 0.1 committed has no crc32, while the same part made again has one.
        """
        ours, theirs = ([unit.id for unit in plan.units] for plan in (self, other))
        return (self.fingerprint, self.tables, ours) == (other.fingerprint, other.tables, theirs)

    def wrong_units(self) -> list[str]:
        """Return the units whose id does not match their records, because the plan was changed after it was made."""
        return [unit.id for unit in self.units if unit.id != _unit_id(self.fingerprint, unit.records)]

    @classmethod
    def of(
        cls, fingerprint: str, slices: Sequence[Sequence[Mapping[str, Any]]], tables: Mapping[str, pa.Schema]
    ) -> Plan:
        """Make a plan with one unit per slice; `fingerprint` covers all that determines a result besides its slice."""
        units = [Unit(_unit_id(fingerprint, records), tuple(records)) for records in slices]
        return cls(fingerprint, units, tables)


def _unit_id(fingerprint: str, records: Sequence[Mapping[str, Any]]) -> str:
    # A part is identified by its sha256; whether it also has a crc32 must not change the id of the unit.
    named = [{name: value for name, value in record.items() if name != "crc32"} for record in records]
    return content_hash([fingerprint, named])


@dataclass(frozen=True)
class _StoredUnit:
    id: str
    records: list[dict[str, Any]]


@dataclass(frozen=True)
class _StoredPlan:
    """The content of `plan.json`."""

    format: int
    fingerprint: str
    tables: dict[str, str]
    units: list[_StoredUnit]


@dataclass(frozen=True)
class Reads:
    """The tables that a pass is planned from: the parts of one and, if `whole` is given, all of another.

    A unit's records name the parts (`part`, `sha256`); `with` is the hash of the whole table.
    """

    parts: tuple[str, str]
    whole: tuple[str, str] | None = None


def hash_of_parts(parts: Sequence[Part]) -> str:
    """Return the hash of a table, computed from the hashes of its parts."""
    return content_hash([part.sha256 for part in parts])
