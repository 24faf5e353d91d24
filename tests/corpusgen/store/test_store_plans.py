"""Corpora and plans: started once, resumed with the same settings and input, refused with others."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from corpusgen.config.build import SECTIONS
from corpusgen.errors import StoreError
from corpusgen.io.files import LocalFiles
from corpusgen.store import CommittedTable, Plan, Store, Unit
from corpusgen.store.records import sealed, unsealed
from tests.corpusgen.store.support import CORPUS, SQUARES, TABLES, make_plan, start

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
    with pytest.raises(StoreError, match=r"no corpus here \(corpus.json is missing\)"):
        store.corpus()


def test_a_damaged_corpus_file_is_named(local: Store):
    local.files.write("corpus.json", b'{"format": 1, "lang')

    with pytest.raises(StoreError, match=r"corpus.json is damaged"):
        local.corpus()


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_a_section_of_settings_that_is_none_is_damage(local: Store, section):
    local.files.write("corpus.json", json.dumps({"format": 1, "settings": {section: "text"}}).encode())

    with pytest.raises(StoreError, match=r"corpus.json is damaged.*expected fields"):
        local.corpus()


class ForgetfulFiles(LocalFiles):
    """Like an S3 server that does not know If-None-Match and replaces what is there."""

    def create(self, path: str, data: bytes) -> bool:
        self.write(path, data)
        return True


def test_a_server_that_ignores_conditional_writes_is_refused_each_time(tmp_path: Path):
    store = Store(ForgetfulFiles(str(tmp_path)))

    for _ in range(2):
        with pytest.raises(StoreError, match=r"ignores conditional writes.*use another"):
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

    with pytest.raises(StoreError, match=f"'demo' was planned for different input .*{difference}.*use a new store"):
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
    plan = json.loads(unsealed(local.files.read("demo/plan.json")))
    local.files.write("demo/plan.json", sealed(json.dumps({**plan, "format": 2}).encode()))

    with pytest.raises(StoreError, match="has format 2, but this version reads format 1"):
        demo.plan()


def test_two_slices_with_the_same_records_are_refused(local: Store):
    twice = Plan.of("demo-1", [[{"start": 0, "stop": 5}], [{"start": 0, "stop": 5}]], TABLES)

    with pytest.raises(StoreError, match="twice"):
        start(local, twice)


def test_a_unit_can_hold_any_json_as_its_records(local: Store):
    records = [{"file": "corpora/ä b.txt", "range": [0, 10], "none": None}, {"nested": {"x": 1.5, "y": True}}]
    local.ensure_corpus(CORPUS)
    demo = local.pass_store("demo")
    demo.ensure_plan(Plan.of("1", [records], TABLES))

    assert demo.plan().units == [Unit(Plan.of("1", [records], TABLES).units[0].id, tuple(records))]
