"""What a pass was made from: `verify` compares it with what is committed now, `repair` undoes what does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusgen.engine import LocalExecutor, RunSettings
from corpusgen.engine.passes import run_pass
from corpusgen.errors import DamagedPartError, StoreError
from corpusgen.store import Commit, PassStore, Plan, Store
from corpusgen.store import store as store_module
from corpusgen.store.check import PassCheck, verify
from corpusgen.store.records import unsealed
from corpusgen.store.repair import gc, repair
from tests.simulation.corpus import PASSES, READS, expected, found, passes
from tests.testing.s3_server import CountingProxy, S3Server

TEXT = 3


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(store_module, "_PAUSE_SECONDS", 0.01)


def build(store: Store, until: str = "rows") -> None:
    store.ensure_corpus({"passes": list(PASSES), "text": TEXT})
    for plan in passes(store, TEXT):
        pass_ = plan()
        run_pass(pass_, store.pass_store(pass_.name), LocalExecutor(), RunSettings())
        if pass_.name == until:
            return


def checks(store: Store) -> dict[str, PassCheck]:
    return {check.name: check for check in verify(store, READS)}


def garble_a_line(store: Store) -> str:
    """Replace a part of `lines` by a sound file of the same rows with other text."""
    commit = next(commit for commit in store.pass_store("lines").commits() if commit.parts)
    part = commit.parts["lines"]
    table = pq.read_table(pa.BufferReader(store.files.read(part.path)))
    column = table.schema.get_field_index("text")
    garbled = table.set_column(column, "text", pa.array(["garbage w1 w1"] * table.num_rows))
    sink = pa.BufferOutputStream()
    pq.write_table(garbled, sink)
    store.files.write(part.path, sink.getvalue())
    return part.path


@pytest.fixture
def as_version_0_1(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Parts are read without a look at their hashes, commits have no checksums, listings are believed."""

    def listed(self: PassStore, plan: Plan) -> list[Commit]:
        done = self.committed()
        return list(self.commits(unit.id for unit in plan.units if unit.id in done))

    encode = Commit.encode
    with monkeypatch.context() as patched:
        patched.setattr("corpusgen.store.parts.read_part", lambda files, part: files.read(part.path))
        patched.setattr(PassStore, "all_commits", listed)
        patched.setattr(Commit, "encode", lambda self: unsealed(encode(self)))
        yield patched


def test_a_store_that_was_made_in_one_go_is_as_planned(store: Store):
    build(store)
    assert all(check.ok for check in checks(store).values())
    assert found(store) == expected(TEXT)


def test_the_next_pass_refuses_a_damaged_part_by_name(store: Store):
    build(store, until="lines")
    path = garble_a_line(store)
    with pytest.raises(DamagedPartError, match=f"{path} is damaged.*verify --repair"):
        build(store)
    assert repair(store, list(verify(store, READS))) == 1
    build(store)
    assert found(store) == expected(TEXT)
    assert all(check.ok for check in checks(store).values())


def test_what_an_older_version_made_from_a_damaged_part_is_undone_with_it(
    store: Store, as_version_0_1: pytest.MonkeyPatch
):
    build(store, until="lines")
    path = garble_a_line(store)
    build(store)
    assert found(store) != expected(TEXT)
    as_version_0_1.undo()

    seen = checks(store)
    assert [name for name in PASSES if seen[name].damaged] == list(PASSES)
    assert f"{path} is damaged" in seen["lines"].problems[0]
    assert f"made from {path}, which is damaged" in seen["words"].problems[0]
    repair(store, list(verify(store, READS)))
    with pytest.raises(StoreError, match=r"'rows' was planned for different input.*verify --repair"):
        build(store)  # the words came out otherwise, so that the plan made with them has to go, too
    repair(store, list(verify(store, READS)))
    build(store)
    assert found(store) == expected(TEXT)
    assert all(check.ok for check in checks(store).values())
    gc(store)
    assert found(store) == expected(TEXT)
    assert not any(check.left_over for check in checks(store).values())


def test_what_was_made_from_sound_parts_is_kept_when_one_is_damaged_later(store: Store):
    build(store)
    commits = {commit.unit: commit.attempt for commit in store.pass_store("rows").commits()}
    garble_a_line(store)
    seen = checks(store)
    assert [len(seen[name].damaged) for name in PASSES] == [1, 0, 0]

    repair(store, list(seen.values()))
    build(store)
    assert found(store) == expected(TEXT)
    assert {commit.unit: commit.attempt for commit in store.pass_store("rows").commits()} == commits


def test_a_plan_that_an_older_version_made_from_an_incomplete_listing_is_found_and_mended(
    store: Store, as_version_0_1: pytest.MonkeyPatch
):
    build(store, until="lines")
    whole = PassStore.committed
    with as_version_0_1.context() as lagging:

        def lags(self: PassStore) -> set[str]:
            done = whole(self)
            return set(sorted(done)[:2]) if self.name == "lines" else done

        lagging.setattr(PassStore, "committed", lags)
        parts = [commit.parts for commit in store.pass_store("lines").commits()]
        lagging.setattr(PassStore, "is_committed", lambda self, unit: False)
        for plan in passes(store, TEXT)[1:]:
            pass_ = plan()
            run_pass(pass_, store.pass_store(pass_.name), LocalExecutor(), RunSettings())
    as_version_0_1.undo()
    assert len(parts) > 2

    seen = checks(store)
    assert seen["lines"].ok
    assert "planned without" in seen["words"].problems[0]
    assert "planned without" in seen["rows"].problems[0]
    with pytest.raises(StoreError, match=r"verify --repair"):
        build(store)
    repair(store, list(seen.values()))
    build(store)
    assert found(store) == expected(TEXT)
    assert all(check.ok for check in checks(store).values())


def test_a_pass_does_not_begin_while_the_one_before_lacks_a_unit(store: Store):
    build(store, until="lines")
    unit = store.pass_store("lines").plan().units[2].id
    store.files.delete(f"lines/commits/{unit}.json")
    with pytest.raises(StoreError, match=rf"the pass 'lines' are committed \({unit} is not\)"):
        passes(store, TEXT)[1]()


def test_commits_that_a_listing_does_not_show_are_found_by_name(store: Store, monkeypatch: pytest.MonkeyPatch):
    build(store, until="lines")
    monkeypatch.setattr(PassStore, "committed", lambda self: set())
    monkeypatch.setattr(store_module, "_FEW", 0)
    build(store)
    monkeypatch.undo()
    assert found(store) == expected(TEXT)
    assert all(check.ok for check in checks(store).values())


def test_a_plan_whose_records_were_changed_is_found(store: Store):
    build(store)
    plan = store.pass_store("rows").plan()
    other = replace(plan.units[0], records=({"part": "x"},))
    changed = Plan(plan.fingerprint, [other, *plan.units[1:]], plan.tables)
    store.files.write("rows/plan.json", changed.encode())
    seen = checks(store)["rows"]
    assert seen.bad_plan
    assert "1 units do not match their records" in seen.problems[0]


@pytest.mark.parametrize("after", [3, 20, 45, 80])
def test_credentials_that_expire_in_the_middle_stop_a_build_that_goes_on_with_new_ones(
    s3_root: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, after: int
):
    with CountingProxy(s3_server.endpoint, expires_after=after) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        with pytest.raises(StoreError, match=r"token has expired"):
            build(Store.at(s3_root))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    store = Store.at(s3_root)
    build(store)
    assert found(store) == expected(TEXT)
    assert all(check.ok for check in checks(store).values())
