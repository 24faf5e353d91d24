"""The exactly-once store: a plan of units, the parts that attempts wrote, the commits that make them real.

    <root>/corpus.json             what determines the content of the corpus
    <root>/<pass>/plan.json        the units of a pass and the schemas of its tables
    <root>/<pass>/parts/           Parquet files, named by unit, table and content
    <root>/<pass>/commits/         one JSON file a unit, created once and never changed
    <root>/<pass>/quarantine/      JSON lines of the records that could not be processed
    <root>/<pass>/events/          JSON lines, one a finished unit

An attempt first writes its parts, then creates its commit. Whoever creates the commit first wins; the parts of a
late twin are garbage unless they hold the same bytes, in which case they are the same files. Readers follow commits
and never list the parts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from corpusgen.errors import StoreError
from corpusgen.store.files import Files, open_files
from corpusgen.store.records import FORMAT, Commit, Part, Plan, StageCount, content_hash, to_json


class PassStore:
    """One pass of a store. It pickles: workers write parts and commits through their own copy."""

    def __init__(self, files: Files, name: str) -> None:
        self.files = files
        self.name = name

    def _path(self, *below: str) -> str:
        return "/".join((self.name, *below))

    # ------------------------------------------------------------------ plan

    def started(self) -> bool:
        """Whether this pass was ever begun."""
        return self.files.exists(self._path("plan.json")) or bool(self.committed())

    def plan(self) -> Plan:
        """The plan; StoreError if there is none yet."""
        try:
            return Plan.decode(self.files.read(self._path("plan.json")))
        except FileNotFoundError:
            if self.committed():
                raise StoreError(
                    f"{self.files.url}/{self._path('plan.json')} is missing, though units were committed; "
                    "build again with the same settings to write it anew"
                ) from None
            raise StoreError(f"{self.files.url}: the pass {self.name!r} has not been started") from None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise StoreError(f"{self.files.url}/{self._path('plan.json')} is damaged: {error}") from error

    def ensure_plan(self, plan: Plan) -> None:
        """Write the plan, or see that the one that is there is the same."""
        if len({unit.id for unit in plan.units}) != len(plan.units):
            raise StoreError(f"the plan of the pass {self.name!r} names a unit twice")
        data = plan.encode()
        if self.files.create(self._path("plan.json"), data):
            return
        stored = self.files.read(self._path("plan.json"))
        if stored != data:
            raise StoreError(
                f"{self.files.url}: the pass {self.name!r} was planned for other input or by another version "
                f"({_plan_difference(self.plan(), plan)}); use a new store, or remove this one to start over"
            )

    # --------------------------------------------------------------- commits

    def committed(self) -> set[str]:
        """The ids of the units that are done."""
        listing = self.files.list(self._path("commits"))
        return {PurePosixPath(info.path).stem for info in listing if info.path.endswith(".json")}

    def is_committed(self, unit: str) -> bool:
        """Whether this unit is done."""
        return self.files.exists(self._commit_path(unit))

    def _commit_path(self, unit: str) -> str:
        return self._path("commits", f"{unit}.json")

    def read_commit(self, unit: str) -> Commit:
        """The commit of a unit; StoreError if it is damaged."""
        return self._parse_commit(unit, self.files.read(self._commit_path(unit)))

    def _parse_commit(self, unit: str, data: bytes) -> Commit:
        try:
            return Commit.decode(data)
        except ValueError as error:
            raise StoreError(
                f"{self.files.url}/{self._commit_path(unit)} is damaged ({error}); "
                f"`corpusgen verify --repair {self.files.url}` removes it, then build again"
            ) from error

    def commits(self, units: Iterable[str] | None = None) -> Iterator[Commit]:
        """The commits, by default all there are, in the order of the plan."""
        if units is None:
            done = self.committed()
            units = [unit.id for unit in self.plan().units if unit.id in done]
        units = list(units)
        yield from map(self._parse_commit, units, self.files.read_many(map(self._commit_path, units)))

    def commit(
        self,
        unit: str,
        attempt: str,
        tables: Mapping[str, pa.Table],
        quarantined: Sequence[Mapping[str, Any]],
        stages: Sequence[StageCount],
        worker: str = "",
        now: float = 0.0,
    ) -> bool:
        """Write the parts of an attempt, then its commit. False if the unit had been committed before."""
        parts = {name: self._write_table(unit, name, table) for name, table in tables.items() if table.num_rows}
        quarantine = self._write_quarantine(unit, quarantined) if quarantined else None
        commit = Commit(unit, attempt, parts, quarantine, stages, worker, now)
        if self.files.create(self._commit_path(unit), commit.encode()):
            return True
        # The answer to our own first try may have been lost on the way, and a retry then finds our own commit.
        return self.read_commit(unit).attempt == attempt

    def adopt(self, unit: str, other: Store) -> None:
        """Take over a unit that another store has committed: its very parts and commit, unless we have one."""
        commit = other.pass_store(self.name).read_commit(unit)
        for part in commit.files():
            self.files.write(part.path, other.read_part(part))
        self.files.create(self._commit_path(unit), commit.encode())

    def _write_table(self, unit: str, name: str, table: pa.Table) -> Part:
        return self._write_part("parts", f"{unit}-{name}", "parquet", encoded(table), table.num_rows)

    def _write_quarantine(self, unit: str, records: Sequence[Mapping[str, Any]]) -> Part:
        lines = b"".join(to_json(record) + b"\n" for record in records)
        return self._write_part("quarantine", unit, "jsonl", pa.py_buffer(lines), len(records))

    def _write_part(self, folder: str, stem: str, suffix: str, data: pa.Buffer, rows: int) -> Part:
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(folder, f"{stem}-{digest[:16]}.{suffix}")
        self.files.write(path, data)
        return Part(path, digest, rows, data.size)

    # --------------------------------------------------------------- reading

    def read_quarantine(self, units: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """The quarantined records, unit by unit."""
        for commit in self.commits(units):
            if commit.quarantine:
                for line in self.files.read(commit.quarantine.path).splitlines():
                    yield json.loads(line)


class Store:
    """The root of a corpus."""

    def __init__(self, files: Files) -> None:
        self.files = files

    @classmethod
    def at(cls, root: str) -> Store:
        """The store at a local path or `s3://…`; it need not exist yet."""
        return cls(open_files(root))

    @property
    def url(self) -> str:
        """The root."""
        return self.files.url

    def pass_store(self, name: str) -> PassStore:
        """One pass of this store."""
        return PassStore(self.files, name)

    def corpus(self) -> dict[str, Any]:
        """What determines the content of this corpus."""
        try:
            corpus: dict[str, Any] = json.loads(self.files.read("corpus.json"))
        except FileNotFoundError:
            raise StoreError(f"{self.url}: there is no corpus here (corpus.json is missing)") from None
        except ValueError as error:
            raise StoreError(f"{self.url}/corpus.json is damaged: {error}") from error
        return corpus

    def ensure_corpus(self, content: Mapping[str, Any]) -> None:
        """Start a corpus, or see that the one that is here was started with the same content settings."""
        corpus = {"format": FORMAT, **content}
        if not create_once(self.files, "corpus.json", json.dumps(corpus, indent=1, ensure_ascii=False).encode()):
            self.check_corpus(content)

    def check_corpus(self, content: Mapping[str, Any]) -> None:
        """StoreError unless the corpus that is here was started with the same content settings."""
        found = list(differences(self.corpus(), json.loads(json.dumps({"format": FORMAT, **content}))))
        if found:
            raise StoreError(
                f"{self.url} holds a corpus with other settings:\n"
                + "\n".join(f"  {path}: {old} in the store, {new} now" for path, old, new in found)
                + "\nuse these again to resume, or give another `store`"
            )

    def read_part(self, part: Part) -> bytes:
        """The bytes of a file that a commit names; StoreError if they are not those that were committed."""
        try:
            data = self.files.read(part.path)
        except FileNotFoundError:
            data = b""
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise StoreError(
                f"{self.url}/{part.path} is not what was committed; `corpusgen verify {self.url}` tells more"
            )
        return data

    def passes(self) -> list[PassStore]:
        """The passes that were started, in the order in which they build on each other."""
        names: list[str] = self.corpus().get("passes", [])
        return [store for name in names if (store := self.pass_store(name)).started()]


def create_once(files: Files, path: str, data: bytes) -> bool:
    """Create a file, and see that it cannot be created again; False if it was there."""
    if not files.create(path, data):
        return False
    if files.create(path, data):  # an S3 look-alike that ignores If-None-Match
        raise StoreError(
            f"{files.url}: this server does not honour conditional writes (If-None-Match: *), "
            "without which two workers could commit the same unit; use another one"
        )
    return True


def encoded(table: pa.Table) -> pa.Buffer:
    """The bytes of a part with these rows."""
    sink = pa.BufferOutputStream()
    # One chunk a column: the bytes must not depend on how the rows came here.
    pq.write_table(table.combine_chunks(), sink, compression="zstd")
    return sink.getvalue()


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The settings that differ: the path of each, and what it is on either side."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield path, json.dumps(old, ensure_ascii=False), json.dumps(new, ensure_ascii=False)


def _plan_difference(old: Plan, new: Plan) -> str:
    if old.fingerprint != new.fingerprint:
        return "its stages or their settings have changed"
    if old.tables != new.tables:
        return "the columns of its tables have changed"
    before = {content_hash(list(unit.records)): unit for unit in old.units}
    for unit in new.units:
        if content_hash(list(unit.records)) not in before:
            return f"new or changed: {json.dumps(unit.records[0], ensure_ascii=False)}"
    if len(old.units) == len(new.units):
        return "its units come in another order"
    return f"it had {len(old.units):,} units, now there are {len(new.units):,}"
