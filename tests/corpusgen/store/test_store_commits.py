"""Commits: of the attempts at a unit exactly one wins, and nobody sees the others."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from corpusgen.errors import StoreError
from corpusgen.store import CommittedTable, PassStore, Store
from tests.corpusgen.store.support import SQUARES, commit, commit_all, numbers, paths, results, start, totals


def test_committed_rows_are_read_back(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)

    squares = CommittedTable(store, "demo", "squares").to_table()
    assert squares.schema == SQUARES
    assert squares["number"].to_pylist() == [n for n in range(15) if n % 7]
    assert squares["square"].to_pylist() == [n * n for n in range(15) if n % 7]
    assert numbers(store, "rejects") == [0, 7, 14]


def test_a_table_can_be_read_by_its_url_alone(root: str):
    _, demo, units = start(root)
    commit_all(demo, units)

    assert CommittedTable(root, "demo", "rejects").to_table()["number"].to_pylist() == [0, 7, 14]


def test_a_worker_commits_through_its_own_copy(store: Store):
    _, demo, units = start(store)
    copy: PassStore = pickle.loads(pickle.dumps(demo))

    assert commit(copy, units[0])
    assert demo.committed() == {units[0].id}
    assert demo.is_committed(units[0].id)
    assert not demo.is_committed(units[1].id)


def test_a_commit_tells_who_made_it_of_what(store: Store):
    _, demo, units = start(store)
    commit(demo, units[0], attempt="run-7", bad=[3])
    made = demo.read_commit(units[0].id)

    assert (made.unit, made.attempt, made.worker, made.committed_at) == (units[0].id, "run-7", "host:1", 1.0)
    assert {name: part.rows for name, part in made.parts.items()} == {"squares": 3, "rejects": 1}
    assert made.quarantine is not None
    assert made.quarantine.rows == 1
    assert list(made.stages) == results(units[0], bad=[3])[2]
    for part in (*made.parts.values(), made.quarantine):
        assert len(demo.files.read(part.path)) == part.bytes


def test_a_second_commit_of_a_unit_returns_false_and_changes_nothing(store: Store):
    _, demo, units = start(store)
    assert commit(demo, units[0], attempt="run-1")
    before = demo.files.read(f"demo/commits/{units[0].id}.json")

    assert not commit(demo, units[0], attempt="run-2")
    assert not commit(demo, units[0], attempt="run-3", text=" other")

    assert demo.files.read(f"demo/commits/{units[0].id}.json") == before
    assert demo.read_commit(units[0].id).attempt == "run-1"
    assert paths(demo, "commits") == [f"demo/commits/{units[0].id}.json"]


def test_a_retry_of_the_attempt_that_won_returns_true(store: Store):
    _, demo, units = start(store)

    assert commit(demo, units[0], attempt="run-1")
    assert commit(demo, units[0], attempt="run-1")
    assert numbers(store) == [1, 2, 3, 4]


def test_attempts_with_the_same_result_share_their_parts(store: Store):
    _, demo, units = start(store)
    for attempt in ("run-1", "run-2"):
        commit(demo, units[0], attempt=attempt)

    assert len(paths(demo, "parts")) == 2  # squares and rejects


def test_the_bytes_of_a_part_do_not_depend_on_how_its_rows_came(local: Store):
    _, demo, units = start(local)
    tables, quarantined, stages = results(units[0])
    in_pieces = {name: pa.concat_tables([t.slice(0, 1), t.slice(1)]) for name, t in tables.items()}
    demo.commit(units[0].id, "run-1", tables, quarantined, stages)
    demo.commit(units[0].id, "run-2", in_pieces, quarantined, stages)

    assert len(paths(demo, "parts")) == 2


def test_readers_see_only_the_winner_of_two_attempts(store: Store):
    _, demo, units = start(store)
    commit(demo, units[0], attempt="winner", text=" of the winner")
    commit(demo, units[0], attempt="loser", text=" of the loser")

    assert len([path for path in paths(demo, "parts") if "squares" in path]) == 2
    texts = CommittedTable(store, "demo", "squares").to_table()["text"].to_pylist()
    assert texts == [f"{n} of the winner" for n in (1, 2, 3, 4)]


def test_of_many_attempts_at_once_exactly_one_wins(store: Store):
    _, demo, units = start(store)
    attempts = [f"attempt {number}" for number in range(8)]
    with ThreadPoolExecutor(len(attempts)) as pool:
        won = list(pool.map(lambda attempt: commit(demo, units[0], attempt, text=f" of {attempt}"), attempts))

    assert won.count(True) == 1
    winner = attempts[won.index(True)]
    assert demo.read_commit(units[0].id).attempt == winner
    assert CommittedTable(store, "demo", "squares").to_table()["text"].to_pylist()[0] == f"1 of {winner}"


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_damaged_commit_is_named_with_the_remedy(local: Store, length: int):
    _, demo, units = start(local)
    commit_all(demo, units)
    path = f"demo/commits/{units[1].id}.json"
    local.files.write(path, local.files.read(path)[:length])

    for read in (lambda: totals(demo), lambda: list(demo.commits()), lambda: numbers(local)):
        with pytest.raises(StoreError, match=rf"{path} is damaged .*`corpusgen verify --repair {local.url}`"):
            read()


def test_a_unit_that_was_never_committed_has_no_commit(store: Store):
    _, demo, units = start(store)

    with pytest.raises(FileNotFoundError):
        demo.read_commit(units[0].id)
