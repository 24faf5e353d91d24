"""Corpora, plans, commits and what readers see of them."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from corpusgen.errors import StoreError
from corpusgen.store import CommittedTable, PassStore, Plan, StageCount, Store, Totals, TripleStore, Unit
from corpusgen.store.files import LocalFiles
from corpusgen.store.status import PassStatus
from tests.store.support import CORPUS, SQUARES, TABLES, commit, commit_all, make_plan, paths, results, start


@pytest.fixture
def store(root: str) -> Store:
    return Store.at(root)


@pytest.fixture
def local(tmp_path: Path) -> Store:
    """For what does not depend on where the bytes live."""
    return Store.at(str(tmp_path / "store"))


def numbers(store: Store, table: str = "squares") -> list[int]:
    return CommittedTable(store, "demo", table).to_table()["number"].to_pylist()


def totals(demo: PassStore) -> Totals:
    return PassStatus(demo).refresh()


# ---------------------------------------------------------------------- corpus


def test_a_corpus_is_started_once_and_resumed_with_the_same_settings(store: Store):
    store.ensure_corpus(CORPUS)
    before = store.files.read("corpus.json")
    store.ensure_corpus(CORPUS)
    Store.at(store.url).ensure_corpus(dict(reversed(CORPUS.items())))

    assert store.files.read("corpus.json") == before
    assert {key: store.corpus()[key] for key in CORPUS} == CORPUS


def test_other_settings_are_refused_and_every_difference_is_named(store: Store):
    old = {"language": "en", "model": {"name": "bert", "layers": [1, 2]}, "seed": 1, "gone": "é", "same": 0}
    new = {"language": "de", "model": {"name": "bert", "layers": [1, 3]}, "seed": 1, "same": 0, "new": True}
    store.ensure_corpus(old)

    with pytest.raises(StoreError) as caught:
        store.ensure_corpus(new)

    message = str(caught.value)
    assert store.url in message
    assert '  language: "en" in the store, "de" now\n' in message
    assert "  model.layers: [1, 2] in the store, [1, 3] now\n" in message
    assert '  gone: "é" in the store, null now\n' in message
    assert "  new: null in the store, true now\n" in message
    assert message.count(" in the store, ") == 4
    assert "to resume" in message
    store.ensure_corpus(old)


def test_a_corpus_of_another_format_is_refused(local: Store):
    local.files.write("corpus.json", json.dumps({"format": 0, **CORPUS}).encode())

    with pytest.raises(StoreError, match="format: 0 in the store, 1 now"):
        local.ensure_corpus(CORPUS)


def test_where_there_is_no_corpus_that_is_said(store: Store):
    with pytest.raises(StoreError, match=r"there is no corpus here \(corpus.json is missing\)"):
        store.corpus()


def test_a_damaged_corpus_file_is_named(local: Store):
    local.files.write("corpus.json", b'{"format": 1, "lang')

    with pytest.raises(StoreError, match=r"corpus.json is damaged"):
        local.corpus()


class ForgetfulFiles(LocalFiles):
    """Like an S3 server that does not know If-None-Match and replaces what is there."""

    def create(self, path: str, data: bytes) -> bool:
        self.write(path, data)
        return True


def test_a_server_that_ignores_conditional_writes_is_refused_each_time(tmp_path: Path):
    store = Store(ForgetfulFiles(str(tmp_path)))

    for _ in range(2):
        with pytest.raises(StoreError, match=r"does not honour conditional writes.*use another"):
            store.ensure_corpus(CORPUS)


def test_passes_are_the_planned_ones_in_the_order_of_the_corpus(store: Store):
    store.ensure_corpus({"passes": ["harvest", "generate", "judge"]})
    assert store.passes() == []
    for name in ("judge", "harvest"):
        store.pass_store(name).ensure_plan(make_plan())

    assert [pass_store.name for pass_store in store.passes()] == ["harvest", "judge"]


# ------------------------------------------------------------------------ plan


def test_a_plan_is_read_back_as_it_was_written(store: Store):
    plan = make_plan()
    _, demo, _ = start(store, plan)

    assert demo.started()
    assert demo.plan().fingerprint == plan.fingerprint
    assert [(u.id, list(u.records)) for u in demo.plan().units] == [(u.id, list(u.records)) for u in plan.units]
    assert demo.plan().tables == TABLES
    assert demo.plan().encode() == plan.encode()


def test_the_same_plan_is_accepted_again(store: Store):
    _, demo, _ = start(store)

    demo.ensure_plan(make_plan())
    pickle.loads(pickle.dumps(demo)).ensure_plan(make_plan())


def test_a_unit_is_named_by_all_that_determines_its_content_and_nothing_else():
    plan = make_plan(units=4)

    assert [unit.id for unit in make_plan(units=4).units] == [unit.id for unit in plan.units]
    assert [unit.id for unit in make_plan(units=2).units] == [unit.id for unit in plan.units][:2]
    assert not {u.id for u in make_plan(fingerprint="demo-2").units} & {u.id for u in plan.units}
    reordered = Plan.of("demo-1", [[{"stop": 5, "start": 0}]], TABLES)
    assert reordered.units[0].id == plan.units[0].id


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (make_plan(fingerprint="demo-2"), "its stages or their settings have changed"),
        (make_plan(units=4), r'new or changed: \{"start": 15, "stop": 20\}'),
        (make_plan(numbers_each=6), r'new or changed: \{"start": 0, "stop": 6\}'),
        (make_plan(units=2), "it had 3 units, now there are 2"),
    ],
    ids=["other stages", "more input", "other slices", "less input"],
)
def test_a_plan_for_other_input_is_refused_and_the_difference_named(local: Store, other: Plan, difference: str):
    _, demo, _ = start(local)
    before = demo.files.read("demo/plan.json")

    with pytest.raises(StoreError, match=f"'demo' was planned for other input .*{difference}.*use a new store"):
        demo.ensure_plan(other)
    assert demo.files.read("demo/plan.json") == before


def test_a_plan_with_other_tables_is_refused_and_the_difference_named(local: Store):
    _, demo, _ = start(local)
    other = Plan(make_plan().fingerprint, make_plan().units, {"squares": SQUARES})

    with pytest.raises(StoreError) as caught:
        demo.ensure_plan(other)
    assert "table" in str(caught.value).removeprefix(local.url)


def test_a_pass_without_a_plan_has_not_been_started(store: Store):
    demo = store.pass_store("demo")

    assert not demo.started()
    with pytest.raises(StoreError, match="the pass 'demo' has not been started"):
        demo.plan()
    with pytest.raises(StoreError, match="the pass 'demo' has not been started"):
        CommittedTable(store, "demo", "squares")


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_damaged_plan_is_named(local: Store, length: int):
    _, demo, _ = start(local)
    local.files.write("demo/plan.json", local.files.read("demo/plan.json")[:length])

    with pytest.raises(StoreError, match=r"demo/plan.json is damaged"):
        demo.plan()


@pytest.mark.parametrize("data", [b"[]", b"null", b'{"format": 1, "fingerprint": "", "tables": [], "units": []}'])
def test_a_plan_that_is_json_but_no_plan_is_named(local: Store, data: bytes):
    _, demo, _ = start(local)
    local.files.write("demo/plan.json", data)

    with pytest.raises(StoreError, match=r"demo/plan.json is damaged"):
        demo.plan()


def test_a_plan_of_another_format_is_refused(local: Store):
    _, demo, _ = start(local)
    plan = json.loads(local.files.read("demo/plan.json"))
    local.files.write("demo/plan.json", json.dumps({**plan, "format": 2}).encode())

    with pytest.raises(StoreError, match="has format 2, this version reads format 1"):
        demo.plan()


def test_two_slices_with_the_same_records_are_refused(local: Store):
    twice = Plan.of("demo-1", [[{"start": 0, "stop": 5}], [{"start": 0, "stop": 5}]], TABLES)

    with pytest.raises(StoreError, match="twice"):
        start(local, twice)


# --------------------------------------------------------------------- commits


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


# --------------------------------------------------------------------- reading


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

    with pytest.raises(StoreError, match=rf"{part.path} was committed but cannot be read.*`corpusgen verify"):
        numbers(store)


@pytest.mark.parametrize("length", [0, 4, -20])
def test_a_committed_part_that_is_truncated_is_named_with_the_remedy(local: Store, length: int):
    _, demo, units = start(local)
    commit_all(demo, units)
    part = demo.read_commit(units[0].id).parts["squares"]
    local.files.write(part.path, local.files.read(part.path)[:length])

    with pytest.raises(StoreError, match=rf"{part.path} was committed but cannot be read.*`corpusgen verify"):
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


# --------------------------------------------------------- quarantine and totals


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


def test_a_unit_can_hold_any_json_as_its_records(local: Store):
    records = [{"file": "corpora/ä b.txt", "range": [0, 10], "none": None}, {"nested": {"x": 1.5, "y": True}}]
    local.ensure_corpus(CORPUS)
    demo = local.pass_store("demo")
    demo.ensure_plan(Plan.of("1", [records], TABLES))

    assert demo.plan().units == [Unit(Plan.of("1", [records], TABLES).units[0].id, tuple(records))]
