"""An untouched store comes out the same; a planted change does not."""

import json
from dataclasses import replace

import pytest

from corpusgen.errors import CorpusgenError
from tests.corpusgen.ops.inspect.support import change, copy, replay_one, replay_some, rows_of


def test_all_triples_come_out_the_same(made):
    triples = rows_of(made, "triples")
    found = replay_some(made.url, len(triples) + 10)
    assert {one.id for one in found} == {row["id"] for row in triples}
    assert all(one.same for one in found)


@pytest.mark.parametrize(
    "planted",
    [{"negative_word": "planted"}, {"positive_start": 0}, {"negative_probability": 0.5}, {"positive_rule": "aligned"}],
    ids=lambda planted: next(iter(planted)),
)
def test_a_planted_change_is_found(made, tmp_path, planted):
    store = copy(made, tmp_path / "copy")
    changed = change(store, "triples", lambda row: planted)
    one = replay_one(store.url, changed["id"])
    (column,) = planted
    assert [(difference.column, difference.stored) for difference in one.differences] == [(column, planted[column])]
    assert not one.same


def test_a_reject_with_another_reason_differs(made, tmp_path):
    store = copy(made, tmp_path / "copy")
    changed = change(store, "rejects", lambda row: {"reason": "planted"})
    one = replay_one(store.url, changed["id"])
    assert [difference.column for difference in one.differences] == ["reason"]


def test_a_store_that_is_being_written_is_replayed_as_far_as_it_is(made, tmp_path):
    units = [commit.unit for commit in made.pass_store("generate").commits()]
    store = copy(made, tmp_path / "copy", lambda path: "generate" in path and units[-1] in path)
    found = replay_some(store.url, 5)
    assert len(found) == 5
    assert all(one.same for one in found)


def test_the_command_ends_with_1_if_anything_differs(made, tmp_path, command):
    same = command("replay", made.url, "--sample", 4)
    assert same.code == 0, same.err
    assert same.out == "4 of 4 came out the same (100.0%)\n"
    store = copy(made, tmp_path / "copy")
    changed = change(store, "triples", lambda row: {"negative_word": "planted"})
    found = command("replay", store.url, changed["id"], "--json")
    assert found.code == 1
    told = json.loads(found.out)
    assert (told["replayed"], told["same"]) == (1, 0)
    assert told["rows"][0]["differences"][0]["stored"] == "planted"


def test_an_unknown_id_is_a_message(made):
    with pytest.raises(CorpusgenError, match="has the id nothing"):
        replay_one(made.url, "nothing")


def test_stages_of_another_version_are_told(made, tmp_path, command):
    store = copy(made, tmp_path / "copy", lambda path: path == "generate/plan.json")
    plan = made.pass_store("generate").plan()
    store.pass_store("generate").ensure_plan(replace(plan, fingerprint="of other stages"))
    told = command("replay", store.url, "--sample", 2)
    assert told.code == 0, "nothing differs all the same"
    assert told.out.startswith("  another version of the stages made this store\n2 of 2 ")
    found = json.loads(command("replay", store.url, "--sample", 2, "--json").out)
    assert (found["same"], found["same_code"], [row["same_code"] for row in found["rows"]]) == (2, False, [False] * 2)
    assert json.loads(command("replay", made.url, "--sample", 1, "--json").out)["same_code"] is True


def test_a_store_on_s3_is_replayed_from_there(made, s3_root, command):
    store = copy(made, s3_root)
    number = len(rows_of(made, "triples"))
    found = replay_some(s3_root, number)
    assert len(found) == number
    assert all(one.same for one in found)
    changed = change(store, "triples", lambda row: {"negative_word": "planted"})
    ended = command("replay", s3_root, changed["id"])
    assert ended.code == 1
    assert "negative_word: 'planted' in the store" in ended.out
