"""Why a pair is what it is, or why a word has none, by the code that chose."""

import json

import pyarrow as pa
import pytest

from corpusgen.errors import CorpusgenError
from corpusgen.ops.inspect.explain_pairs import explain_no_pair, explain_pair, find_pair, pair_of_word
from corpusgen.ops.inspect.render_pairs import no_pair_lines, pair_lines
from corpusgen.ops.merge import merge
from corpusgen.store import CommittedTable, Store
from corpusgen.store.products import open_product
from tests.testing import pair_builds


def rows_of(store):
    return open_product(store, "pairs").to_table().to_pylist()


@pytest.mark.parametrize("name", ["pairs", "both"])
def test_every_pair_comes_out_the_same(name, request):
    store = request.getfixturevalue(name)
    for row in rows_of(store):
        found = explain_pair(find_pair(store, row["id"]))
        assert (found.differences, found.same_code) == ([], True)
        taken = [tried for tried in found.tried if tried.verdict == "taken"]
        assert len(taken) == 1
        texts = {one.number: one.text for one in found.occurrences}
        assert texts[taken[0].first] == mark(row, "text", "target")
        assert texts[taken[0].second] == mark(row, "positive", "positive")
        assert taken[0].overlap == pytest.approx(row["overlap"], abs=1e-5)
        assert 1 <= row["round"] <= found.candidates


def mark(row, text, span):
    start, end = row[f"{span}_start"], row[f"{span}_end"]
    return f"{row[text][:start]}[{row[text][start:end]}]{row[text][end:]}"


def test_what_spoke_against_other_occurrences_is_said(pairs):
    history = explain_pair(pair_of_word(pairs, "history"))
    assert [one.text for one in history.occurrences] == [
        "The museum of natural [history] stands near the station.",
        "The [history] of the house itself is less known.",
        "Its rooms of natural [history] attract many visitors.",
    ]
    assert [(one.first, one.second, one.verdict) for one in history.tried] == [
        (1, 2, "multi-word expression"),
        (1, 3, "taken"),
    ]
    text = "\n".join(pair_lines(history))
    for said in (
        "the document has 5 sentences",
        "→ ",
        "round 1: of 1 candidate",
        "the same pair comes out now",
    ):
        assert said in text, said


def test_an_occurrence_that_no_pair_may_have_is_shown_with_its_guard(tmp_path):
    documents = {
        **pair_builds.DOCUMENTS,
        "Canal": [
            "A canal joins the two rivers near here.",
            "The canal by the canal house is very old.",
            "Barges waited for weeks beside that canal.",
        ],
    }
    store = pair_builds.make(tmp_path, documents=documents)
    found = explain_pair(pair_of_word(store, "canal"))
    assert [one.reason for one in found.occurrences] == [None, None, "twice in one sentence"]
    assert "✗ twice in one sentence" in "\n".join(pair_lines(found))


@pytest.mark.parametrize(
    ("word", "reason"),
    [("pick", "multi-word expression"), ("mill", "same neighbours"), ("stood", "same neighbours")],
)
def test_why_a_word_has_no_pair_is_said_for_its_documents(pairs, word, reason):
    assert pair_of_word(pairs, word) is None
    found = explain_no_pair(pairs, word)
    assert (found.documents, found.reasons, found.whole) == (1, {reason: 1}, True)
    assert found.examples == [("Garden" if word == "pick" else "Mill", reason)]
    assert f"     1 {reason}: " in "\n".join(no_pair_lines(found))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("zebra", "it is not in the vocabulary"),
        ("every", "never paired: function word"),
        ("Marta", "never paired: name"),
        ("window", "no document has it in two sentences"),
    ],
)
def test_a_word_that_can_have_no_pair(pairs, word, said):
    assert said in "\n".join(no_pair_lines(explain_no_pair(pairs, word)))


def test_a_word_for_which_there_was_no_room(tmp_path):
    store = pair_builds.make(tmp_path, discourse={"size": 1})
    (row,) = rows_of(store)
    word = next(word for word in ("flood", "storm", "wind") if word != row["target"])
    found = explain_no_pair(store, word)
    assert found.candidates == 1
    assert "other words filled the corpus" in "\n".join(no_pair_lines(found))


def test_a_pair_that_is_not_what_was_computed_is_told_apart(tmp_path):
    store = pair_builds.make(tmp_path)
    pass_store = store.pass_store("pairs")
    commit = next(iter(pass_store.commits()))
    read = CommittedTable(store, "pairs", "pairs")
    rows = pa.Table.from_batches(list(read.part_batches(commit.parts["pairs"])), read.schema).to_pylist()
    rows[0] |= {"round": 7, "overlap": 0.25}
    store.files.delete(f"pairs/commits/{commit.unit}.json")
    table = pa.Table.from_pylist(rows, read.schema)
    assert pass_store.commit(commit.unit, commit.attempt, {"pairs": table}, [], commit.stages)
    found = explain_pair(find_pair(store, rows[0]["id"]))
    assert {column for column, *_ in found.differences} == {"round", "overlap"}
    assert "round: 7 in the store, " in "\n".join(pair_lines(found))


def test_a_merged_pair_is_explained_where_it_was_made(pairs, tmp_path):
    merge(str(tmp_path / "all"), [pairs.url])
    merged = Store.at(str(tmp_path / "all"))
    found = explain_pair(find_pair(merged, rows_of(pairs)[0]["id"]))
    assert (found.store, found.same) == (pairs.url, True)
    with pytest.raises(CorpusgenError, match="was merged: use the stores"):
        explain_no_pair(merged, "mill")


def test_the_command_finds_the_product_of_an_id(both, pairs, outside, command):
    (row, *_) = rows_of(both)
    found = json.loads(command("explain", both.url, row["id"], "--json").out)
    assert (found["stored"]["id"], found["same"]) == (row["id"], True)
    triple = open_product(both).to_table().to_pylist()[0]
    assert json.loads(command("explain", both.url, triple["id"], "--json").out)["outcome"] == "triple"
    assert (
        "the same pair comes out now" in command("explain", both.url, "--word", row["target"], "--table", "pairs").out
    )
    assert "never paired: name" in command("explain", pairs.url, "--word", "Marta").out
    refused = command("explain", pairs.url, "nothing").err
    assert "no pair has the id nothing" in refused
    assert f"corpusgen sample {pairs.url} --table pairs" in refused
    assert "holds triples and pairs, not rejects" in command("explain", both.url, "x", "--table", "rejects").err
    assert "only 'words' and 'discourse' can be explained" in command("explain", outside.url, "x").err
    refused = command("replay", pairs.url, "--sample", 2)
    assert "holds pairs of the recipe 'discourse', not triples" in refused.err
