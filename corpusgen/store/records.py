"""The records a store is made of: units and their plan, parts and the commits that make them real."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, cast

import pyarrow as pa
from pydantic import ConfigDict, Field, NonNegativeInt, TypeAdapter, ValidationError

from corpusgen.errors import StoreError
from corpusgen.io.hashing import content_hash

FORMAT = 1
_CHECKSUM = b', "checksum": "'  # the last thing in a file: the sha256 of all that is before it

# What version 0.1 wrote, without a checksum, ends with brackets or a short number.
_ENDS_LIKE_SEALED = re.compile(rb"[^\s{}\[\]]{40}.?\Z", re.DOTALL)
_NOTHING_ELSE = ConfigDict(extra="forbid")

T = TypeVar("T")
_Seconds = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]


def to_json(value: Any) -> bytes:
    """JSON that people can read; with escapes only where the text is not valid Unicode."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def from_json(data: bytes, kind: type[T]) -> T:
    """Read JSON as a value of this type; ValueError names the first field that does not fit."""
    try:
        value: T = _adapter(cast(Any, kind)).validate_json(data, strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise ValueError(f"{place}: {problem['msg']}" if place else problem["msg"]) from None
    return value


def sealed(body: bytes) -> bytes:
    """A JSON object with a checksum as its last field."""
    body = body.removesuffix(b"}").rstrip()
    return b'%s%s%s"}' % (body, _CHECKSUM, hashlib.sha256(body).hexdigest().encode())


def is_sealed(data: bytes) -> bool:
    """Whether a JSON object has a checksum. Of a commit it also says that all parts it was made from were undamaged.

    Version 0.1 neither wrote checksums nor looked at the hashes of the parts that it read.
    """
    return _CHECKSUM in data


def unsealed(data: bytes) -> bytes:
    """The object without its checksum, if it has one; ValueError if it is not that of its bytes."""
    body, found, checksum = data.rpartition(_CHECKSUM)
    if not found and not _ENDS_LIKE_SEALED.search(data):
        return data
    if checksum != hashlib.sha256(body).hexdigest().encode() + b'"}':
        raise ValueError("its bytes do not have its checksum")
    return body + b"}"


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


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

    __pydantic_config__: ClassVar[ConfigDict] = _NOTHING_ELSE

    path: str
    sha256: str
    rows: NonNegativeInt
    bytes: NonNegativeInt
    crc32: NonNegativeInt | None = None
    """What readers check: three times as fast as the sha256, which `verify` checks. Version 0.1 did not note it."""


@dataclass(frozen=True)
class StageCount:
    """What one stage did with the rows of a unit."""

    __pydantic_config__: ClassVar[ConfigDict] = _NOTHING_ELSE

    name: str
    rows_in: NonNegativeInt = 0
    rows_out: NonNegativeInt = 0
    rejected: Mapping[str, NonNegativeInt] = field(default_factory=dict)
    quarantined: NonNegativeInt = 0
    expands: bool = False
    seconds: _Seconds = 0.0
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

    __pydantic_config__: ClassVar[ConfigDict] = _NOTHING_ELSE

    unit: str
    attempt: str
    parts: Mapping[str, Part]
    quarantine: Part | None
    stages: Sequence[StageCount]
    worker: str = ""
    committed_at: _Seconds = 0.0

    def files(self) -> list[Part]:
        """All files that it makes real."""
        return [*self.parts.values(), *([self.quarantine] if self.quarantine else [])]

    def encode(self) -> bytes:
        """The bytes of the commit's file, with a checksum of them at the end."""
        values = {
            **vars(self),
            "parts": {name: vars(part) for name, part in self.parts.items()},
            "quarantine": self.quarantine and vars(self.quarantine),
            "stages": [vars(stage) for stage in self.stages],
        }
        return sealed(to_json(values))

    @classmethod
    def decode(cls, data: bytes) -> Commit:
        """Read it back; ValueError if it is not whole."""
        commit = from_json(unsealed(data), cls)
        for folder, parts in (("parts", commit.parts.values()), ("quarantine", [commit.quarantine])):
            for part in parts:
                if part:
                    _check_place(part, folder)
        return commit


def _check_place(part: Part, folder: str) -> None:
    """ValueError if a part lies where none belongs: commits may come from anybody."""
    steps = part.path.split("/")
    if len(steps) != 3 or steps[1] != folder or ".." in steps:
        raise ValueError(f"{part.path!r} is not in the folder {folder!r} of a pass")


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
        return sealed(to_json(plan))

    @classmethod
    def decode(cls, data: bytes) -> Plan:
        """Read it back; ValueError if it is not whole."""
        stored = from_json(unsealed(data), _StoredPlan)
        if stored.format != FORMAT:
            raise StoreError(f"the plan has format {stored.format}, this version reads format {FORMAT}")
        if not stored.tables:
            raise ValueError("it names no table")
        try:
            tables = {
                name: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
                for name, schema in stored.tables.items()
            }
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"the columns of a table cannot be read: {error}") from error
        return cls(stored.fingerprint, [Unit(unit.id, tuple(unit.records)) for unit in stored.units], tables)

    def wrong_units(self) -> list[str]:
        """The units whose id is not that of their records: the plan was changed after it was made."""
        return [unit.id for unit in self.units if unit.id != _unit_id(self.fingerprint, unit.records)]

    @classmethod
    def of(
        cls, fingerprint: str, slices: Sequence[Sequence[Mapping[str, Any]]], tables: Mapping[str, pa.Schema]
    ) -> Plan:
        """One unit a slice; `fingerprint` sums up everything but the slice that determines its result."""
        units = [Unit(_unit_id(fingerprint, records), tuple(records)) for records in slices]
        return cls(fingerprint, units, tables)


def _unit_id(fingerprint: str, records: Sequence[Mapping[str, Any]]) -> str:
    # A part is named by its sha256; how else its bytes are checked makes no other unit of it.
    named = [{name: value for name, value in record.items() if name != "crc32"} for record in records]
    return content_hash([fingerprint, named])


@dataclass(frozen=True)
class _StoredUnit:
    id: str
    records: list[dict[str, Any]]


@dataclass(frozen=True)
class _StoredPlan:
    """What `plan.json` holds."""

    format: int
    fingerprint: str
    tables: dict[str, str]
    units: list[_StoredUnit]


@dataclass(frozen=True)
class Reads:
    """What a pass is planned from: the parts of one table and, if `whole` is given, all of another.

    A unit's records name the parts (`part`, `sha256`); `with` is the hash of the whole table.
    """

    parts: tuple[str, str]
    whole: tuple[str, str] | None = None


def hash_of_parts(parts: Sequence[Part]) -> str:
    """The hash of a table: that of the hashes of its parts."""
    return content_hash([part.sha256 for part in parts])
