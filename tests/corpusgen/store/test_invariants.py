"""Whatever crashes, retries, twins, repairs and collections happen in whatever order: exactly once."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from corpusgen.io.files import TEMPORARY_PREFIX, LocalFiles
from corpusgen.store import CommittedTable, PassStore, Store, Unit
from corpusgen.store.check import verify
from corpusgen.store.repair import gc, repair
from tests.corpusgen.store.support import CORPUS, TABLES, commit, make_plan, paths, results

PLAN = make_plan(units=3, numbers_each=4)
TWO_DAYS = 2 * 24 * 3600
SHARED_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # fsync costs nothing there


class Crash(BaseException):
    """The process is gone: nothing may catch this."""


@dataclass
class Fuse:
    """When to crash: at the n-th write or create, before it, half way through, or after it."""

    calls: int
    moment: str

    def burns_at(self, moment: str) -> bool:
        return self.calls == 0 and self.moment == moment


class CrashingFiles(LocalFiles):
    """A disk under a process that crashes. `before_commit` is what others do at the worst moment."""

    def __init__(self, root: str, fuse: Fuse | None = None, before_commit: Callable[[], None] | None = None) -> None:
        super().__init__(root)
        self._fuse = fuse
        self._before_commit = before_commit

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        self._step("before", path)
        super().write(path, data)
        self._step("after", path)

    def create(self, path: str, data: bytes) -> bool:
        if self._before_commit and "/commits/" in path:
            self._before_commit()
        self._step("before", path)
        created = super().create(path, data)
        self._step("after", path)
        return created

    def _step(self, moment: str, path: str) -> None:
        if self._fuse is None:
            return
        if moment == "before":
            self._fuse.calls -= 1
            if self._fuse.burns_at("half way"):
                self._leave_half_a_file(path)
                raise Crash
        if self._fuse.burns_at(moment):
            raise Crash

    def _leave_half_a_file(self, path: str) -> None:
        folder = Path(self._full(path)).parent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{TEMPORARY_PREFIX}{time.monotonic_ns()}").write_bytes(b"half a fi")


@dataclass(frozen=True)
class Attempt:
    """What an attempt at a unit makes of it. Stages should be deterministic; the store does not rely on it."""

    name: str
    unit: Unit
    text: str
    bad: tuple[int, ...]

    def commit_to(self, files: LocalFiles) -> bool:
        return commit(PassStore(files, "demo"), self.unit, self.name, self.text, self.bad)

    def rows(self, table: str) -> list[dict]:
        return results(self.unit, self.text, self.bad)[0][table].to_pylist()

    def quarantined(self) -> list[dict]:
        return results(self.unit, self.text, self.bad)[1]


units = st.sampled_from(PLAN.units)
texts = st.sampled_from(["", " otherwise"])
bads = st.sampled_from([(), (1, 5, 9)])
moments = st.sampled_from(["before", "half way", "after"])
crashes = st.builds(Fuse, st.integers(1, 4), moments)  # an attempt makes two to four calls
late_crashes = st.builds(Fuse, st.integers(1, 14), moments)
fuses = st.none() | crashes


class ExactlyOnce(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp(prefix="corpusgen-invariants-", dir=SHARED_MEMORY)
        self.files = LocalFiles(f"{self.root}/store")
        self.store = Store(self.files)
        self.demo = self.store.pass_store("demo")
        self.attempts: dict[str, Attempt] = {}
        self.last: Attempt | None = None
        self.commits: dict[str, bytes] = {}  # by unit: what its commit was when we first saw it

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            shutil.rmtree(self.root)

    def new_attempt(self, unit: Unit, text: str, bad: tuple[int, ...]) -> Attempt:
        attempt = Attempt(f"attempt-{len(self.attempts)}", unit, text, bad)
        self.attempts[attempt.name] = self.last = attempt
        return attempt

    def run(self, attempt: Attempt, files: LocalFiles) -> None:
        """Commit; the answer, where one comes, must be the truth."""
        try:
            won = attempt.commit_to(files)
        except Crash:
            return
        assert won == (self.demo.read_commit(attempt.unit.id).attempt == attempt.name)

    # ------------------------------------------------------------------- rules

    @initialize(crashes=st.lists(crashes, max_size=3))
    def start(self, crashes: list[Fuse]):
        """Drivers that crash while they start, then one that does not."""
        for fuse in crashes:
            with suppress(Crash):
                self.drive(CrashingFiles(self.files.url, fuse))
        self.drive(self.files)

    def drive(self, files: LocalFiles) -> list[Unit]:
        """What a driver does before any work; returns the units that are left."""
        store = Store(files)
        store.ensure_corpus(CORPUS)
        demo = store.pass_store("demo")
        demo.ensure_plan(PLAN)
        done = demo.committed()
        return [unit for unit in PLAN.units if unit.id not in done]

    @rule(fuse=late_crashes, text=texts)
    def resume(self, fuse: Fuse, text: str):
        """A driver sees what is left and does it; it crashes somewhere on the way, or not."""
        files = CrashingFiles(self.files.url, fuse)
        with suppress(Crash):
            for unit in self.drive(files):
                if fuse.calls > 0:
                    self.run(self.new_attempt(unit, text, ()), files)

    @rule(unit=units, text=texts, bad=bads, fuse=fuses)
    def attempt(self, unit: Unit, text: str, bad: tuple[int, ...], fuse: Fuse | None):
        """A worker does a unit, whether or not it is done already."""
        self.run(self.new_attempt(unit, text, bad), CrashingFiles(self.files.url, fuse))

    @precondition(lambda self: self.last)
    @rule(fuse=fuses)
    def retry(self, fuse: Fuse | None):
        """The last attempt is made again under its name: the answer to the first try was lost."""
        assert self.last
        self.run(self.last, CrashingFiles(self.files.url, fuse))

    @rule(unit=units, text=texts, bad=bads, fuse=fuses, collect=st.booleans())
    def twins(self, unit: Unit, text: str, bad: tuple[int, ...], fuse: Fuse | None, collect: bool):
        """While one worker is about to commit, another does all of the unit, and gc runs or not."""
        late, quick = self.new_attempt(unit, "", ()), self.new_attempt(unit, text, bad)

        def meanwhile() -> None:
            self.run(quick, CrashingFiles(self.files.url, fuse))
            if collect:
                gc(self.store)

        self.run(late, CrashingFiles(self.files.url, before_commit=meanwhile))

    @rule()
    def collect(self):
        expected = gc(self.store, dry_run=True)
        assert gc(self.store) == expected
        assert gc(self.store) == (0, 0)

    @rule()
    def collect_after_two_days(self):
        self.age()
        gc(self.store)
        assert not self.temporary_files()

    @precondition(lambda self: self.commits)
    @rule(data=st.data(), how=st.sampled_from(["flip", "lose", "truncate"]))
    def damage_and_repair(self, data: st.DataObject, how: str):
        """A disk rots; verify sees just that, and repair makes way for doing the unit again."""
        unit = data.draw(st.sampled_from(sorted(self.commits)))
        self.damage(unit, how)
        [check] = verify(self.store)
        assert check.damaged == [unit]
        assert repair(self.store, [check]) == 1
        del self.commits[unit]

    def damage(self, unit: str, how: str) -> None:
        made = self.demo.read_commit(unit)
        part = next(iter(made.parts.values()))  # every unit of the plan has rows
        content = self.files.read(part.path)
        if how == "flip":
            self.files.write(part.path, bytes([content[0] ^ 1]) + content[1:])
        elif how == "lose":
            self.files.delete(part.path)
        else:
            self.files.write(f"demo/commits/{unit}.json", self.commits[unit][:-1])

    # -------------------------------------------------------------- invariants

    @invariant()
    def a_unit_has_at_most_one_commit_and_its_bytes_never_change(self):
        now = {Path(path).stem: self.files.read(path) for path in paths(self.demo, "commits")}
        assert set(now) <= {unit.id for unit in PLAN.units}
        assert {unit: now.get(unit) for unit in self.commits} == self.commits
        self.commits = now

    @invariant()
    def every_committed_part_is_there_with_its_hash(self):
        for unit in self.commits:
            made = self.demo.read_commit(unit)
            assert made.unit == unit
            for part in (*made.parts.values(), *([made.quarantine] if made.quarantine else [])):
                content = self.files.read(part.path)
                assert (hashlib.sha256(content).hexdigest(), len(content)) == (part.sha256, part.bytes)

    @invariant()
    def readers_see_the_committed_rows_once_each_in_the_order_of_the_plan(self):
        winners = [self.attempts[made.attempt] for made in self.demo.commits()]
        assert [winner.unit.id for winner in winners] == [u.id for u in PLAN.units if u.id in self.commits]
        for name in TABLES:
            table = CommittedTable(self.store, "demo", name)
            assert table.to_table().to_pylist() == [row for winner in winners for row in winner.rows(name)]
            assert table.complete == (len(winners) == len(PLAN.units))
        assert list(self.demo.read_quarantine()) == [row for winner in winners for row in winner.quarantined()]

    # --------------------------------------------------------------------- end

    def finish(self) -> None:
        """However it went: what is left can be done, and then all is well and nothing is left over."""
        for unit in self.drive(self.files):
            assert self.new_attempt(unit, "", ()).commit_to(self.files)
        [check] = verify(self.store)
        assert check.ok, check.problems
        self.a_unit_has_at_most_one_commit_and_its_bytes_never_change()
        self.readers_see_the_committed_rows_once_each_in_the_order_of_the_plan()
        self.age()
        gc(self.store)
        made = list(self.demo.commits())
        assert set(paths(self.demo, "parts")) == {part.path for one in made for part in one.parts.values()}
        assert set(paths(self.demo, "quarantine")) == {one.quarantine.path for one in made if one.quarantine}
        assert not self.temporary_files()
        [check] = verify(self.store)
        assert check.ok, check.problems

    def temporary_files(self) -> list[Path]:
        """Of the pass; for what a crash leaves in the root see test_check.py."""
        return list((Path(self.files.url) / "demo").rglob(f"{TEMPORARY_PREFIX}*"))

    def age(self) -> None:
        """What crashes left so far was left two days ago."""
        for path in self.temporary_files():
            os.utime(path, (time.time() - TWO_DAYS,) * 2)


ExactlyOnce.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=20,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # on a busy machine that says nothing
)
test_exactly_once = ExactlyOnce.TestCase
