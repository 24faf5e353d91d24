"""The exactly-once store: a plan of units, the parts that attempts write, the commits that make them valid.

    <root>/corpus.json             what determines the content of the corpus
    <root>/<pass>/plan.json        the units of a pass and the schemas of its tables
    <root>/<pass>/parts/           Parquet files, named by unit, table and content
    <root>/<pass>/commits/         one JSON file per unit, created once and never changed
    <root>/<pass>/quarantine/      JSON lines of the records that could not be processed
    <root>/<pass>/events/          JSON lines, one per finished unit

An attempt first writes its parts, then creates its commit. The first attempt to create the commit wins. The parts of a
later attempt are garbage unless they hold the same bytes, in which case they are the same files. Readers follow
commits and never list the parts.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeVar

import pyarrow as pa

from corpusgen.config.build import SECTIONS
from corpusgen.errors import StoreError, StoreUnavailableError
from corpusgen.io.files import Files, open_files
from corpusgen.io.hashing import content_hash
from corpusgen.io.strict_json import from_json, to_json
from corpusgen.store.parts import encoded, read_part
from corpusgen.store.records import (
    FORMAT,
    Commit,
    Part,
    Plan,
    StageCount,
    is_sealed,
    sealed,
    unsealed,
)

# On a shared file system, a file may become visible to other machines with a delay: up to a minute on NFS.
_PATIENCE_SECONDS = float(os.environ.get("CORPUSGEN_COMMIT_PATIENCE_SECONDS", "90"))
_PAUSE_SECONDS = 1.0
_FEW = 32

T = TypeVar("T")


_FIELDS = {
    "format": int,
    "recipe": str,
    "passes": list,
    "settings": dict,
    "models": dict,
    "merged": list,
}  # of corpus.json


class PassStore:
    """One pass of a store. It can be pickled: workers write parts and commits through their own copy."""

    def __init__(self, files: Files, name: str) -> None:
        self.files = files
        self.name = name

    def _path(self, *below: str) -> str:
        return "/".join((self.name, *below))

    # ------------------------------------------------------------------ plan

    def started(self) -> bool:
        """Return whether this pass was ever started."""
        return self.files.exists(self._path("plan.json")) or bool(self.committed())

    def plan(self, wait: bool = False) -> Plan:
        """Return the plan; raise StoreError if there is none. With `wait`, give it a while to appear."""
        path = self._path("plan.json")
        try:
            return Plan.decode(_patiently(self.files.read, path) if wait else self.files.read(path))
        except FileNotFoundError:
            if self.committed():
                raise StoreError(
                    f"{self.files.url}/{self._path('plan.json')} is missing, though units were committed; "
                    "build again with the same settings to restore it"
                ) from None
            raise StoreError(f"{self.files.url}: the pass {self.name!r} has not been started") from None
        except ValueError as error:
            raise StoreError(
                f"{self.files.url}/{self._path('plan.json')} is damaged ({error}); "
                f"`corpusgen verify --repair {self.files.url}` removes it, then build again"
            ) from error

    def ensure_plan(self, plan: Plan) -> None:
        """Write the plan, or raise StoreError if the store has a different one."""
        if len({unit.id for unit in plan.units}) != len(plan.units):
            raise StoreError(f"the plan of the pass {self.name!r} names a unit twice")
        data = plan.encode()
        path = self._path("plan.json")
        stored = _create(self.files, path, data)
        if stored not in (data, unsealed(data)):  # plans of version 0.1 have no checksum
            old = self.plan()
            if old.is_same(plan):
                return
            remedy = "use a new store, or remove this one to start over"
            if old.fingerprint == plan.fingerprint and any(
                "part" in record for u in plan.units for record in u.records
            ):
                remedy = f"run `corpusgen verify --repair {self.files.url}`, which removes its plan, then build again"
            raise StoreError(
                f"{self.files.url}: the pass {self.name!r} was planned for different input or by another version "
                f"({_plan_difference(old, plan)}); {remedy}"
            )

    # --------------------------------------------------------------- commits

    def committed(self) -> set[str]:
        """Return the ids of the committed units."""
        listing = self.files.list(self._path("commits"))
        return {PurePosixPath(info.path).stem for info in listing if info.path.endswith(".json")}

    def done_units(self, plan: Plan) -> list[str]:
        """Return the committed units of a plan, in its order. If few seem to be missing, look for each by name."""
        listed = self.committed()
        missing = [unit.id for unit in plan.units if unit.id not in listed]
        if len(missing) <= _FEW:
            listed.update(filter(self.is_committed, missing))
        return [unit.id for unit in plan.units if unit.id in listed]

    def is_committed(self, unit: str) -> bool:
        """Return whether this unit is committed."""
        return self.files.exists(self._commit_path(unit))

    def _commit_path(self, unit: str) -> str:
        return self._path("commits", f"{unit}.json")

    def read_commit(self, unit: str) -> Commit:
        """Return the commit of a unit; raise StoreError if it is damaged, FileNotFoundError if there is none."""
        return self._parse_commit(unit, self.files.read(self._commit_path(unit)))

    def is_sealed(self, unit: str) -> bool:
        """Return whether the commit of a unit vouches for what it was made from (see `records.is_sealed`)."""
        return is_sealed(self.files.read(self._commit_path(unit)))

    def _parse_commit(self, unit: str, data: bytes) -> Commit:
        try:
            commit = Commit.decode(data)
            if commit.unit != unit:
                raise ValueError(f"it is about {commit.unit}")
            return commit
        except ValueError as error:
            raise StoreError(
                f"{self.files.url}/{self._commit_path(unit)} is damaged ({error}); "
                f"`corpusgen verify --repair {self.files.url}` removes it, then build again"
            ) from error

    def commits(self, units: Iterable[str] | None = None) -> Iterator[Commit]:
        """Yield the commits of these units; by default all commits, in the order of the plan."""
        units = self.done_units(self.plan()) if units is None else list(units)
        try:
            yield from map(self._parse_commit, units, self.files.read_many(map(self._commit_path, units)))
        except FileNotFoundError as error:
            raise StoreError(f"{error.filename or error} was removed while it was being read; try again") from None

    def all_commits(self, plan: Plan) -> list[Commit]:
        """Return the commits of all units of a finished pass, in plan order; raise StoreError if one is missing.

        A listing may lag behind, so a commit that is not listed is looked up by name, for a while.
        """
        listed = self.committed()
        found = {commit.unit: commit for commit in self.commits(u.id for u in plan.units if u.id in listed)}
        for unit in plan.units:
            if unit.id not in found:
                try:
                    found[unit.id] = _patiently(self.read_commit, unit.id)
                except FileNotFoundError:
                    raise StoreError(
                        f"{self.files.url}: not all of the {len(plan.units):,} units of the pass {self.name!r} are "
                        f"committed ({unit.id} is not), so the next pass cannot start; build again to finish them. "
                        "If this happens again, another program is removing files from the store, or its file system "
                        "does not show what other machines have written"
                    ) from None
        return [found[unit.id] for unit in plan.units]

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
        """Write the parts of an attempt, then its commit; return False if another attempt has committed the unit."""
        parts = {name: self._write_table(unit, name, table) for name, table in tables.items() if table.num_rows}
        quarantine = self._write_quarantine(unit, quarantined) if quarantined else None
        commit = Commit(unit, attempt, parts, quarantine, stages, worker, now)
        # The answer to our first try may have been lost; a retry then finds our own commit.
        winner = _create(self.files, self._commit_path(unit), commit.encode())
        return self._parse_commit(unit, winner).attempt == attempt

    def adopt(self, unit: str, other: Store) -> None:
        """Copy the parts and the commit of a unit from another store; a commit that exists here stays."""
        commit = other.pass_store(self.name).read_commit(unit)
        for part in commit.files():
            self.files.write(part.path, read_part(other.files, part, thorough=True))
        self.files.create(self._commit_path(unit), other.files.read(self._commit_path(unit)))

    def _write_table(self, unit: str, name: str, table: pa.Table) -> Part:
        return self._write_part("parts", f"{unit}-{name}", "parquet", encoded(table), table.num_rows)

    def _write_quarantine(self, unit: str, records: Sequence[Mapping[str, Any]]) -> Part:
        lines = b"".join(to_json(record) + b"\n" for record in records)
        return self._write_part("quarantine", unit, "jsonl", pa.py_buffer(lines), len(records))

    def _write_part(self, folder: str, stem: str, suffix: str, data: pa.Buffer, rows: int) -> Part:
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(folder, f"{stem}-{digest[:16]}.{suffix}")
        self.files.write(path, data)
        return Part(path, digest, rows, data.size, zlib.crc32(data))

    # --------------------------------------------------------------- reading

    def read_quarantine(self, units: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the quarantined records, unit by unit."""
        for commit in self.commits(units):
            if commit.quarantine:
                yield from map(json.loads, read_part(self.files, commit.quarantine).splitlines())


class Store:
    """The root of a corpus."""

    def __init__(self, files: Files) -> None:
        self.files = files

    @classmethod
    def at(cls, root: str) -> Store:
        """Return the store at a local path or `s3://…`; it need not exist yet."""
        return cls(open_files(root))

    @property
    def url(self) -> str:
        """Return the address of the root."""
        return self.files.url

    def pass_store(self, name: str) -> PassStore:
        """Return one pass of this store."""
        return PassStore(self.files, name)

    def corpus(self, wait: bool = False) -> dict[str, Any]:
        """Return the content of corpus.json, which determines the corpus. With `wait`, give it a while to appear."""
        try:
            data = _patiently(self.files.read, "corpus.json") if wait else self.files.read("corpus.json")
            corpus = from_json(unsealed(data), dict[str, Any])
            _check_corpus(corpus)
        except FileNotFoundError:
            raise StoreError(f"{self.url}: no corpus here (corpus.json is missing); check the path") from None
        except ValueError as error:
            raise StoreError(
                f"{self.url}/corpus.json is damaged ({error}); `corpusgen verify --repair {self.url}` moves it away, "
                "then build again with the original settings of the corpus"
            ) from error
        return corpus

    def ensure_corpus(self, content: Mapping[str, Any]) -> None:
        """Start a corpus, or check that the existing one was started with the same content settings."""
        corpus = {"format": FORMAT, **content}
        data = sealed(json.dumps(corpus, indent=1, ensure_ascii=False).encode())
        if not create_once(self.files, "corpus.json", data):
            self.check_corpus(content)

    def check_corpus(self, content: Mapping[str, Any]) -> None:
        """Raise StoreError unless the existing corpus was started with the same content settings."""
        found = list(differences(self.corpus(wait=True), json.loads(json.dumps({"format": FORMAT, **content}))))
        if found:
            raise StoreError(
                f"{self.url} holds a corpus with different settings:\n"
                + "\n".join(f"  {path}: {old} in the store, {new} now" for path, old, new in found)
                + "\nuse the stored settings to resume, or choose another `store`"
            )

    def passes(self) -> list[PassStore]:
        """Return the passes that were started, in the order in which they build on each other."""
        names: list[str] = self.corpus().get("passes", [])
        return [store for name in names if (store := self.pass_store(name)).started()]


def _check_corpus(corpus: Mapping[str, Any]) -> None:
    """Raise ValueError unless the fields that readers rely on have the right types."""
    format_ = corpus.get("format", FORMAT)
    if isinstance(format_, int) and format_ > FORMAT:
        raise StoreError(f"the corpus has format {format_}, but this version reads format {FORMAT}; update wicdistil")
    for name, kind in _FIELDS.items():
        if name in corpus and not isinstance(corpus[name], kind):
            raise ValueError(f"{name}: {json.dumps(corpus[name])[:80]} has the wrong type")
    for name in corpus.get("passes", []):
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"passes: {json.dumps(name)[:80]} is not the name of a pass")
    settings: Mapping[str, Any] = corpus.get("settings", {})
    sections = [settings[name] for name in SECTIONS if settings.get(name) is not None]
    models: Mapping[str, Any] = corpus.get("models", {})
    for section in (*sections, *models.values(), *corpus.get("merged", [])):
        if not isinstance(section, dict):
            raise ValueError(f"expected fields, found {json.dumps(section)[:80]}")
    for name, model in models.items():
        for key in ("id", "revision", "sha256"):
            if not isinstance(model.get(key), str | None):
                raise ValueError(f"models.{name}.{key}: {json.dumps(model[key])[:80]} has the wrong type")


def create_once(files: Files, path: str, data: bytes) -> bool:
    """Create a file and check that it cannot be created again; return False if it already exists."""
    if not files.create(path, data):
        return False
    if files.create(path, data):  # an S3 look-alike that ignores If-None-Match
        raise StoreError(
            f"{files.url}: this server ignores conditional writes (If-None-Match: *), "
            "so two workers could commit the same unit; use another server"
        )
    return True


def _create(files: Files, path: str, data: bytes) -> bytes:
    """Create a file unless one exists; return the content it has then, ours or that of an earlier writer."""

    def try_it(path: str) -> bytes:
        return data if files.create(path, data) else files.read(path)

    try:
        return _patiently(try_it, path)  # the file may not be visible yet, or a repair has just removed it
    except FileNotFoundError:
        raise StoreUnavailableError(f"{files.url}/{path} exists but cannot be read") from None


def _patiently(look: Callable[[str], T], path: str) -> T:
    """Retry until a file appears; raise FileNotFoundError if it does not."""
    started = time.monotonic()
    while True:
        try:
            return look(path)
        except FileNotFoundError:
            if time.monotonic() - started > _PATIENCE_SECONDS:
                raise
            time.sleep(_PAUSE_SECONDS)


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the settings that differ: the path of each, its old value and its new value."""
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
        return "the order of its units has changed"
    return f"it had {len(old.units):,} units, now there are {len(new.units):,}"
