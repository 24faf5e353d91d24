"""Quarantined records, and totals of what is committed."""

from __future__ import annotations

import pytest

from corpusgen.errors import StoreError
from corpusgen.store import StageCount, Store, Totals
from corpusgen.store.status import PassStatus
from tests.corpusgen.store.support import commit, commit_all, paths, results, start, totals


def test_quarantined_records_are_read_back_unit_by_unit_in_the_order_of_the_plan(store: Store):
    _, demo, units = start(store)
    commit(demo, units[2], bad=[11, 14])
    commit(demo, units[0], bad=[0])
    commit(demo, units[1])

    assert [record["number"] for record in demo.read_quarantine()] == [0, 11, 14]
    assert [record["number"] for record in demo.read_quarantine([units[2].id])] == [11, 14]
    assert list(demo.read_quarantine([units[1].id])) == []


@pytest.mark.parametrize("text", ['"quotes" and \\', "two\nlines\r\n", "\x00\x85\u2028\u2029", "δ ≠ 🙂", ""], ids=ascii)
def test_quarantined_records_may_hold_any_text(local: Store, text: str):
    _, demo, units = start(local)
    tables, _, stages = results(units[0], bad=[1])
    demo.commit(units[0].id, "run-1", tables, [{"text": text, "row": {"n": [1, None]}}], stages)

    assert list(demo.read_quarantine()) == [{"text": text, "row": {"n": [1, None]}}]


def test_quarantined_records_may_hold_text_that_is_not_unicode(local: Store):
    _, demo, units = start(local)
    tables, _, stages = results(units[0], bad=[1])

    demo.commit(units[0].id, "run-1", tables, [{"text": "caf\udce9"}], stages)
    assert list(demo.read_quarantine()) == [{"text": "caf\udce9"}]


def test_totals_add_up_what_is_committed(store: Store):
    _, demo, units = start(store)
    assert totals(demo) == Totals(3, 0, {"squares": 0, "rejects": 0}, {})
    commit(demo, units[0], bad=[3])
    commit(demo, units[2])
    total = totals(demo)

    assert (total.units, total.committed, total.complete) == (3, 2, False)
    assert total.rows == {"squares": 7, "rejects": 2}
    assert total.stages == {
        "count": StageCount("count", rows_in=2, rows_out=10, expands=True),
        "square": StageCount("square", 10, 7, {"multiple": 2}, 1),
    }
    assert (total.rejected, total.quarantined) == (2, 1)
    commit(demo, units[1])
    assert totals(demo).complete


def test_totals_count_a_unit_once_however_often_it_was_tried(store: Store):
    _, demo, units = start(store)
    for attempt in ("run-1", "run-1", "run-2"):
        commit(demo, units[0], attempt=attempt)

    assert totals(demo).committed == 1
    assert totals(demo).rows == {"squares": 4, "rejects": 1}


def test_totals_can_be_brought_up_to_date(store: Store):
    _, demo, units = start(store)
    status = PassStatus(demo)
    seen = []
    for unit in units:
        commit(demo, unit)
        status.refresh()
        seen.append((status.totals.committed, status.totals.rows["squares"], status.refresh().complete))

    assert seen == [(1, 4, False), (2, 8, False), (3, 12, True)]
    assert status.totals == totals(demo)


def test_totals_read_no_commit_twice(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    status = PassStatus(demo)
    status.refresh()
    for path in paths(demo, "commits"):
        local.files.write(path, b"not read again")

    assert status.refresh().committed == 3


def test_totals_are_right_after_a_refresh_that_failed_on_the_way(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    path = f"demo/commits/{units[2].id}.json"
    whole = local.files.read(path)
    local.files.write(path, b"")
    status = PassStatus(demo)
    with pytest.raises(StoreError):
        status.refresh()
    local.files.write(path, whole)

    assert status.refresh().committed == 3


def test_counts_of_a_stage_add_up_reason_by_reason():
    one = StageCount("judge", 10, 5, {"long": 3, "empty": 1}, 1, seconds=1.5)
    two = StageCount("judge", 4, 1, {"long": 1, "odd": 2}, 0, seconds=0.5)

    assert one + two == StageCount("judge", 14, 6, {"long": 4, "empty": 1, "odd": 2}, 1, seconds=2.0)
