"""`verify` finds whatever is wrong, `repair` makes way for doing it again, `gc` removes garbage and nothing else."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from corpusgen.io.files import LocalFiles
from corpusgen.store import Commit, CommittedTable, PassStore, Plan, StageCount, Store, Unit
from corpusgen.store.check import PassCheck, verify
from corpusgen.store.repair import gc, repair
from tests.corpusgen.store.support import TABLES, commit, commit_all, make_plan, paths, start
from tests.testing.s3_server import S3Server

DAY = 24 * 3600


def check(store: Store) -> PassCheck:
    [only] = verify(store)
    return only


def commit_path(unit: Unit) -> str:
    return f"demo/commits/{unit.id}.json"


def change_commit(demo: PassStore, unit: Unit, **fields) -> None:
    changed: Commit = replace(demo.read_commit(unit.id), **fields)
    demo.files.write(commit_path(unit), changed.encode())


def assert_one_problem(found: PassCheck, unit: Unit, *words: str) -> None:
    """The unit is named, so is what is wrong with it, and nothing else is."""
    [problem] = found.problems
    assert not found.ok
    assert found.damaged == [unit.id]
    for word in (unit.id, *words):
        assert word in problem


def files_below(store: Store) -> set[str]:
    folders = ("", "/parts", "/commits", "/quarantine", "/events")
    return {info.path for folder in folders for info in store.files.list(f"demo{folder}")}


# ---------------------------------------------------------------------- verify


def test_a_whole_store_passes(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units, bad=[3, 11])
    found = check(store)

    assert found.ok
    assert found.problems == found.damaged == []
    assert (found.name, found.totals.committed, found.totals.complete) == ("demo", 3, True)
    assert found.totals.rows == {"squares": 10, "rejects": 3}
    assert found.totals.quarantined == 2


def test_garbage_is_no_problem(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)
    commit(demo, units[0], attempt="loser", text=" of the loser")

    assert check(store).ok


def test_each_started_pass_is_checked(local: Store):
    local.ensure_corpus({"passes": ["one", "two", "three"]})
    for name in ("one", "two"):
        pass_store = local.pass_store(name)
        pass_store.ensure_plan(make_plan())
        commit_all(pass_store, make_plan().units[: 3 if name == "one" else 2])

    assert [(found.name, found.ok) for found in verify(local)] == [("one", True), ("two", False)]


def test_a_missing_unit_is_counted_and_not_ok(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units[:2])
    found = check(store)

    assert not found.ok
    assert (found.totals.committed, found.totals.units) == (2, 3)
    assert found.problems == found.damaged == []  # it is not damaged: a build may be on its way to it


@pytest.mark.parametrize("position", [0, 100, -1])
def test_a_flipped_byte_in_a_part_is_found(store: Store, position: int):
    _, demo, units = start(store)
    commit_all(demo, units)
    part = demo.read_commit(units[1].id).parts["squares"]
    data = bytearray(store.files.read(part.path))
    data[position] ^= 1
    store.files.write(part.path, bytes(data))

    assert_one_problem(check(store), units[1], part.path, "is damaged")


def test_a_truncated_part_is_found(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)
    part = demo.read_commit(units[1].id).parts["rejects"]
    store.files.write(part.path, store.files.read(part.path)[:-1])

    assert_one_problem(check(store), units[1], part.path, "is damaged")


def test_a_missing_part_is_found(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)
    part = demo.read_commit(units[1].id).parts["squares"]
    store.files.delete(part.path)

    assert_one_problem(check(store), units[1], part.path, "missing")


def test_a_missing_or_changed_quarantine_file_is_found(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units, bad=[3, 8])
    first, second = (demo.read_commit(unit.id).quarantine for unit in units[:2])
    assert first is not None
    assert second is not None
    store.files.delete(first.path)
    store.files.write(second.path, b"{}\n")
    found = check(store)

    assert not found.ok
    assert found.damaged == [units[0].id, units[1].id]
    assert [first.path in found.problems[0], second.path in found.problems[1]] == [True, True]
    assert len(found.problems) == 2


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_truncated_commit_is_found(local: Store, length: int):
    _, demo, units = start(local)
    commit_all(demo, units)
    local.files.write(commit_path(units[1]), local.files.read(commit_path(units[1]))[:length])

    assert_one_problem(check(local), units[1], commit_path(units[1]), "damaged")


@pytest.mark.parametrize("data", [b"null", b"[]", b'"text"', b"{}", b'{"unit": 1}', b"\xff\xfe"])
def test_a_commit_that_is_none_is_found(local: Store, data: bytes):
    _, demo, units = start(local)
    commit_all(demo, units)
    local.files.write(commit_path(units[1]), data)

    assert_one_problem(check(local), units[1], commit_path(units[1]), "damaged")


def test_a_commit_of_a_unit_that_is_not_in_the_plan_is_counted_and_does_no_harm(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)
    stranger = make_plan(units=1, fingerprint="another").units[0]
    commit(demo, stranger)
    found = check(store)

    assert found.ok
    assert found.left_over == 1
    assert found.totals.committed == 3


def test_a_commit_under_the_name_of_another_unit_is_found(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units[:2])
    local.files.write(commit_path(units[2]), local.files.read(commit_path(units[0])))

    assert_one_problem(check(local), units[2], f"it is about {units[0].id}")


def test_a_table_that_is_not_in_the_plan_is_found(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    parts = dict(demo.read_commit(units[1].id).parts)
    change_commit(demo, units[1], parts={**parts, "cubes": parts["rejects"]})

    assert_one_problem(check(local), units[1], "table 'cubes' is not in the plan")


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        (
            [StageCount("count", 1, 5, expands=True), StageCount("square", 5, 4, {"multiple": 0})],
            "stage 'square': 5 rows entered, 4 are accounted for",
        ),
        (
            [StageCount("count", 1, 5, expands=True), StageCount("square", 6, 4, {"multiple": 2})],
            "5 rows left 'count', 6 entered 'square'",
        ),
        (
            [StageCount("count", 1, 5, expands=True), StageCount("square", 5, 3, {"multiple": 2})],
            "3 rows left 'square', 4 were written to 'squares'",
        ),
        (
            [StageCount("count", 1, 5, expands=True), StageCount("square", 5, 4, {}, quarantined=1)],
            "1 records were quarantined, but some are missing from the quarantine file",
        ),
    ],
    ids=["within a stage", "between stages", "after the last stage", "quarantine"],
)
def test_counts_that_do_not_add_up_are_found(local: Store, stages: list[StageCount], problem: str):
    _, demo, units = start(local)
    commit_all(demo, units)
    change_commit(demo, units[0], stages=stages)

    assert_one_problem(check(local), units[0], problem)


def test_a_unit_whose_rows_all_went_is_sound(local: Store):
    _, demo, units = start(local, Plan.of("demo-1", [[{"start": 7, "stop": 8}]], TABLES))
    commit_all(demo, units)

    assert check(local).ok


def test_rows_that_left_the_last_stage_but_have_no_part_are_found(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    change_commit(demo, units[0], parts={"rejects": demo.read_commit(units[0].id).parts["rejects"]})

    assert_one_problem(check(local), units[0], "4 rows left 'square', 0 were written to 'squares'")


def test_all_problems_of_all_units_are_found_at_once(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    for unit in units[:2]:
        for part in demo.read_commit(unit.id).parts.values():
            local.files.delete(part.path)
    local.files.write(commit_path(units[2]), b"")
    found = check(local)

    assert found.damaged == [unit.id for unit in units]
    assert len(found.problems) == 5


def test_a_plan_that_was_lost_is_found(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    local.files.delete("demo/plan.json")

    found = list(verify(local))
    assert found
    assert not all(one.ok for one in found)


# ---------------------------------------------------------------------- repair


def damage(demo: PassStore, unit: Unit, how: str) -> None:
    part = demo.read_commit(unit.id).parts["squares"]
    match how:
        case "flipped byte":
            data = demo.files.read(part.path)
            demo.files.write(part.path, data[:50] + bytes([data[50] ^ 1]) + data[51:])
        case "missing part":
            demo.files.delete(part.path)
        case "truncated commit":
            demo.files.write(commit_path(unit), demo.files.read(commit_path(unit))[:20])
        case "wrong counts":
            change_commit(demo, unit, stages=[StageCount("square", 9, 9)])


@pytest.mark.parametrize("text", ["", " done otherwise"], ids=["same result", "other result"])
@pytest.mark.parametrize("how", ["flipped byte", "missing part", "truncated commit", "wrong counts"])
def test_after_repair_the_damaged_units_can_be_done_again_and_the_store_is_whole(local: Store, how: str, text: str):
    _, demo, units = start(local)
    commit_all(demo, units, bad=[3])
    untouched = local.files.read(commit_path(units[0]))
    damage(demo, units[1], how)

    assert repair(local, [check(local)]) == 1
    assert demo.committed() == {units[0].id, units[2].id}
    assert check(local).problems == []
    assert commit(demo, units[1], attempt="run-2", text=text)
    assert check(local).ok
    assert local.files.read(commit_path(units[0])) == untouched
    numbers = CommittedTable(local, "demo", "squares").to_table()["number"].to_pylist()
    assert numbers == [n for n in range(15) if n % 7 and n != 3]


def test_repair_works_wherever_the_store_is(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)
    damage(demo, units[2], "flipped byte")

    assert repair(store, list(verify(store))) == 1
    assert commit(demo, units[2], attempt="run-2")
    assert check(store).ok


def test_repair_of_a_whole_store_changes_nothing(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    before = files_below(local)

    assert repair(local, list(verify(local))) == 0
    assert files_below(local) == before


def test_gc_removes_the_units_that_are_not_in_the_plan(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    before = files_below(local)
    commit(demo, make_plan(units=1, fingerprint="another").units[0], bad=[1])
    assert gc(local)[0] == 4  # its commit, two parts and what it quarantined

    assert files_below(local) == before
    assert check(local).left_over == 0


def test_gc_touches_no_commit_where_the_plan_is_lost(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    local.files.delete("demo/plan.json")
    before = files_below(local)

    gc(local)
    assert files_below(local) == before


# -------------------------------------------------------------------------- gc


def test_gc_removes_the_parts_of_the_loser_and_nothing_else(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units, bad=[3])
    whole = files_below(store)
    commit(demo, units[0], attempt="loser", text=" of the loser", bad=[2])
    garbage = files_below(store) - whole
    size = sum(len(store.files.read(path)) for path in garbage)

    assert len(garbage) == 2  # squares and quarantine; the rejects are the same in both attempts
    assert gc(store) == (2, size)
    assert files_below(store) == whole
    assert check(store).ok
    assert gc(store) == (0, 0)


def test_gc_leaves_the_parts_of_a_unit_that_is_not_committed(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units[:2])
    commit(demo, units[2], bad=[11])
    store.files.delete(commit_path(units[2]))  # as if the attempt were about to commit
    before = files_below(store)

    assert gc(store) == (0, 0)
    assert files_below(store) == before
    assert commit(demo, units[2], attempt="run-2", bad=[11])
    assert check(store).ok


def test_gc_leaves_the_events_and_files_it_does_not_know(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    for path in ("demo/events/run-1-000000.jsonl", "demo/parts/README", "demo/parts/notes-of-mine", "demo/x.txt"):
        local.files.write(path, b"x")
    before = files_below(local)

    assert gc(local) == (0, 0)
    assert files_below(local) == before


def test_a_dry_run_counts_and_removes_nothing(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)
    commit(demo, units[0], attempt="loser", text=" of the loser")
    before = files_below(store)
    counted = gc(store, dry_run=True)

    assert counted[0] == 1
    assert files_below(store) == before
    assert gc(store) == counted


def test_gc_of_a_store_that_was_never_started_removes_nothing(local: Store):
    local.ensure_corpus({"passes": ["demo"]})

    assert gc(local) == (0, 0)


def test_gc_leaves_a_unit_alone_whose_commit_is_damaged(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    for unit in units[:2]:
        commit(demo, unit, attempt="loser", text=" of the loser")
    damage(demo, units[1], "truncated commit")
    before = files_below(local)
    [lost] = [path for path in before if f"/{units[0].id}-squares" in path and path not in named(demo, units[0])]

    assert gc(local)[0] == 1
    assert before - files_below(local) == {lost}


def named(demo: PassStore, unit: Unit) -> set[str]:
    return {part.path for part in demo.read_commit(unit.id).files()}


def leave_temporary(local: Store, folder: str, age: float) -> Path:
    path = Path(local.url) / folder / f".tmp-{age:.0f}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half a fi")
    os.utime(path, (time.time() - age,) * 2)
    return path


@pytest.mark.parametrize("folder", ["demo", "demo/parts", "demo/commits", "demo/quarantine"])
def test_gc_removes_what_a_crash_left_a_day_ago_and_leaves_what_may_be_being_written(local: Store, folder: str):
    _, demo, units = start(local)
    commit_all(demo, units)
    fresh = leave_temporary(local, folder, age=0)
    younger = leave_temporary(local, folder, age=DAY - 600)
    older = leave_temporary(local, folder, age=DAY + 600)

    assert gc(local, dry_run=True) == (1, 9)
    assert older.exists()
    assert gc(local) == (1, 9)
    assert (fresh.exists(), younger.exists(), older.exists()) == (True, True, False)
    assert check(local).ok


@pytest.mark.parametrize("folder", ["", "demo/events"])
def test_gc_removes_what_a_crash_left_outside_of_the_tables_too(local: Store, folder: str):
    _, demo, units = start(local)
    commit_all(demo, units)
    older = leave_temporary(local, folder, age=DAY + 600)

    gc(local)
    assert not older.exists()


def test_gc_aborts_the_uploads_that_a_crash_left_on_s3(
    s3_root: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
):
    store, demo, units = start(s3_root)
    commit_all(demo, units)
    bucket, _, prefix = s3_root.removeprefix("s3://").partition("/")
    key = f"{prefix}/demo/parts/{units[0].id}-squares-0123.parquet"
    s3_server.client().create_multipart_upload(Bucket=bucket, Key=key)
    assert gc(store) == (0, 0)  # it may be going on

    monkeypatch.setattr("corpusgen.store.repair._UNFINISHED_AFTER", -DAY)  # the server's clock cannot be turned
    assert gc(store) == (1, 0)
    assert gc(store) == (0, 0)


def test_gc_tells_units_apart_whose_names_begin_alike(local: Store):
    units = [Unit("a", ({"start": 0, "stop": 5},)), Unit("a-b", ({"start": 5, "stop": 10},))]
    _, demo, _ = start(local, Plan("demo-1", units, TABLES))
    commit(demo, units[0])
    commit(demo, units[1])
    local.files.delete("demo/commits/a-b.json")  # as if the attempt were about to commit

    assert gc(local) == (0, 0)


def test_gc_believes_the_name_of_a_commit_and_not_what_it_says(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    lie = json.loads(local.files.read(commit_path(units[0]))) | {"unit": units[2].id}
    local.files.write(commit_path(units[0]), json.dumps(lie).encode())
    local.files.delete(commit_path(units[2]))  # as if the attempt were about to commit
    before = files_below(local)

    gc(local)
    assert files_below(local) == before


class GcInBetween(LocalFiles):
    """Runs `gc` at the worst moment: when the parts are written and the commit is not."""

    def create(self, path: str, data: bytes) -> bool:
        if "/commits/" in path:
            gc(Store(LocalFiles(self.url)))
        return super().create(path, data)


def test_gc_is_safe_while_a_build_commits(tmp_path: Path):
    store, demo, units = start(Store(GcInBetween(str(tmp_path))))
    commit_all(demo, units, bad=[3])
    commit(demo, units[0], attempt="loser", text=" of the loser")

    assert check(store).ok
    assert len(paths(demo, "parts")) == 6
