"""What readers see of a store: committed rows, in the order of the plan, as of when they began."""

from __future__ import annotations

import pyarrow as pa
import pytest

from corpusgen.errors import StoreError
from corpusgen.store import CommittedTable, Plan, StageCount, Store, TripleStore
from tests.corpusgen.store.support import SQUARES, TABLES, commit, commit_all, make_plan, numbers, paths, start


def test_rows_come_in_the_order_of_the_plan_whatever_the_order_of_the_commits(store: Store):
    _, demo, units = start(store, make_plan(units=5))
    for index in (3, 0, 4, 1, 2):
        commit(demo, units[index])

    assert numbers(store) == [n for n in range(25) if n % 7]
    assert [made.unit for made in demo.commits()] == [unit.id for unit in units]


def test_only_the_columns_asked_for_are_read_in_the_order_asked_for(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)
    table = CommittedTable(store, "demo", "squares")

    assert table.to_table(["square"]).schema.names == ["square"]
    assert table.to_table(["text", "number"]).schema.names == ["text", "number"]
    assert table.to_table(["text", "number"])["number"].to_pylist() == [n for n in range(15) if n % 7]
    assert {tuple(batch.schema.names) for batch in table.batches(["text"])} == {("text",)}


def test_a_column_that_does_not_exist_is_named(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    table = CommittedTable(local, "demo", "squares")

    with pytest.raises(StoreError, match="cube"):
        table.to_table(["number", "cube"])
    with pytest.raises(StoreError, match="cube"):
        list(table.batches(["number", "cube"]))


@pytest.mark.parametrize("batch_size", [1, 3, 8192])
def test_batches_have_at_most_the_size_asked_for_and_span_no_parts(local: Store, batch_size: int):
    _, demo, units = start(local, make_plan(units=2, numbers_each=6))
    commit_all(demo, units)
    batches = list(CommittedTable(local, "demo", "squares").batches(batch_size=batch_size))

    sizes = {1: [1] * 10, 3: [3, 2, 3, 2], 8192: [5, 5]}
    assert [batch.num_rows for batch in batches] == sizes[batch_size]
    assert [n for batch in batches for n in batch["number"].to_pylist()] == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]


def test_the_rows_of_one_part_can_be_read_alone(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)
    table = CommittedTable(store, "demo", "squares")

    read = [[n for batch in table.part_batches(part) for n in batch["number"].to_pylist()] for part in table.parts]
    assert read == [[1, 2, 3, 4], [5, 6, 8, 9], [10, 11, 12, 13]]


def test_units_without_rows_are_committed_without_parts(store: Store):
    plan = Plan.of("demo-1", [[{"start": 7, "stop": 8}], [{"start": 1, "stop": 3}], [{"start": 0, "stop": 0}]], TABLES)
    _, demo, units = start(store, plan)
    commit_all(demo, units)
    squares = CommittedTable(store, "demo", "squares")

    assert squares.complete
    assert squares.num_rows == 2
    assert len(squares.parts) == 1
    assert squares.to_table()["number"].to_pylist() == [1, 2]
    assert demo.read_commit(units[2].id).parts == {}
    assert numbers(store, "rejects") == [7]


def test_a_table_without_any_row_has_its_schema(store: Store):
    start(store)
    table = CommittedTable(store, "demo", "squares")

    assert table.num_rows == 0
    assert not table.complete
    assert table.to_table().schema == SQUARES
    assert table.to_table(["text", "number"]).schema.names == ["text", "number"]
    assert list(table.batches()) == []


def test_num_rows_opens_no_part(local: Store):
    _, demo, units = start(local)
    commit_all(demo, units)
    for path in paths(demo, "parts"):
        local.files.delete(path)

    assert CommittedTable(local, "demo", "squares").num_rows == 12


def test_readers_do_not_see_what_is_committed_after_they_began(store: Store):
    _, demo, units = start(store)
    commit(demo, units[1])
    table = CommittedTable(store, "demo", "squares")
    begun = table.batches(["number"])
    commit(demo, units[0])
    first = [n for batch in begun for n in batch["number"].to_pylist()]
    commit(demo, units[2])

    assert first == [5, 6, 8, 9]
    assert table.num_rows == 4
    assert not table.complete
    assert table.to_table()["number"].to_pylist() == [5, 6, 8, 9]
    assert CommittedTable(store, "demo", "squares").complete
    assert numbers(store) == [n for n in range(15) if n % 7]


def test_an_unknown_table_is_refused_with_the_ones_there_are(store: Store):
    start(store)

    with pytest.raises(StoreError, match="the pass 'demo' has no table 'cubes'; it has squares, rejects"):
        CommittedTable(store, "demo", "cubes")


def test_a_committed_part_that_is_gone_is_named_with_the_remedy(store: Store):
    _, demo, units = start(store)
    commit_all(demo, units)
    part = demo.read_commit(units[0].id).parts["squares"]
    store.files.delete(part.path)

    with pytest.raises(StoreError, match=rf"{part.path} is (missing|damaged).*`corpusgen verify --repair"):
        numbers(store)


@pytest.mark.parametrize("length", [0, 4, -20])
def test_a_committed_part_that_is_truncated_is_named_with_the_remedy(local: Store, length: int):
    _, demo, units = start(local)
    commit_all(demo, units)
    part = demo.read_commit(units[0].id).parts["squares"]
    local.files.write(part.path, local.files.read(part.path)[:length])

    with pytest.raises(StoreError, match=rf"{part.path} is (missing|damaged).*`corpusgen verify --repair"):
        numbers(local)


def test_the_triples_are_the_table_triples_of_the_pass_generate(local: Store):
    triples = pa.schema([("anchor", pa.string())])
    local.ensure_corpus({"passes": ["generate"]})
    generate = local.pass_store("generate")
    plan = Plan.of("1", [[{"file": "a"}]], {"triples": triples})
    generate.ensure_plan(plan)
    generate.commit(
        plan.units[0].id,
        "run-1",
        {"triples": pa.table([["a", "b"]], schema=triples)},
        [],
        [StageCount("make", 2, 2)],
    )

    assert TripleStore(local).to_table()["anchor"].to_pylist() == ["a", "b"]
    assert TripleStore(local.url).complete
