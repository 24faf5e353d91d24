"""Several stores as one: every triple once, every count closed, and where each comes from is known."""

import json
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpusgen.errors import CorpusgenError, StoreError
from corpusgen.ops.funnel import funnel
from corpusgen.ops.inspect.stats import stats
from corpusgen.ops.merge import DUPLICATE, duplicates
from corpusgen.ops.merge import merge as merge_all
from corpusgen.ops.pair_funnel import pair_funnel
from corpusgen.ops.report import write_report
from corpusgen.store import CommittedTable, Store, TripleStore
from corpusgen.store.check import verify
from corpusgen.store.products import DISCOURSE, WORDS, open_product, products_of
from tests.corpusgen.ops.inspect.support import explain_one, make, replay_one, replay_some, rows_of
from tests.corpusgen.ops.report.support import SETTINGS, commit_unit, plan_generate, reject, small_store, start, triple
from tests.testing import pair_builds


def merge(*arguments):
    """Merge triples; returns their totals."""
    (totals,) = merge_all(*arguments).values()
    return totals


def other_store(root, **content):
    """Two of its three triples are those of `small_store`; its units have the same ids."""
    store = start(root, **content)
    generate = plan_generate(store, 2)
    commit_unit(generate, 0, [triple(1), triple(9, ("cape", "mantle", "shore"))], [reject(10)])
    commit_unit(generate, 1, [triple(6)], quarantined=[{"stage": "mask", "error": "odd", "record": {}}], run="run9")
    return store


def two(tmp_path):
    return str(small_store(str(tmp_path / "one")).url), str(other_store(str(tmp_path / "other")).url)


def is_whole(store):
    checks = list(verify(store))
    assert [check.name for check in checks] == ["generate"]
    assert [problem for check in checks for problem in check.problems] == []
    return checks[0].ok


def test_each_sentence_and_target_once_and_all_counts_closed(root, tmp_path):
    one, other = two(tmp_path)
    totals = merge(root, [one, other])
    store = Store.at(root)
    assert is_whole(store)
    triples = rows_of(store, "triples")
    assert [int(row["id"], 16) for row in triples] == [1, 2, 5, 6, 9]
    assert triples[3]["positive_rule"] == "enriched"  # the first one given is the one that is kept
    assert totals.rows == {"triples": 5, "rejects": 5}
    assert totals.stages["merge"].rejected == {DUPLICATE: 2}
    assert totals.quarantined == 1
    reasons = [row["reason"] for row in rows_of(store, "rejects")]
    assert sorted(reasons) == sorted(["no aligned word", "no negative word", "no aligned word", DUPLICATE, DUPLICATE])
    assert funnel(store).targets == 10
    assert [failure["error"] for failure in store.pass_store("generate").read_quarantine()] == ["odd"]


def test_units_are_unique_and_tell_where_they_come_from(tmp_path):
    root = str(tmp_path / "both")
    one, other = two(tmp_path)
    merge(root, [one, other])
    store = Store.at(root)
    plan = store.pass_store("generate").plan()
    assert len({unit.id for unit in plan.units}) == 4
    records = {unit.id: unit.records[0] for unit in plan.units}
    assert [record["store"] for record in records.values()] == [one, one, other, other]
    assert [record["attempt"] for record in records.values()] == ["run2-1", "run2-1", "run2-1", "run9-1"]
    assert {row["unit"] for row in rows_of(store, "triples")} <= set(records)
    corpus = store.corpus()
    assert [source["corpus"] for source in corpus["merged"]] == [Store.at(source).corpus() for source in (one, other)]


def test_what_the_stores_have_in_common_is_said_as_in_any_store(tmp_path):
    one = small_store(str(tmp_path / "one"))
    models = {**one.corpus()["models"], "vectors": {"id": "../models/others.bin", "sha256": "ff" * 32}}
    other_store(str(tmp_path / "other"), models=models)
    merge(str(tmp_path / "both"), [str(tmp_path / "one"), str(tmp_path / "other")])
    corpus = Store.at(str(tmp_path / "both")).corpus()
    assert corpus["settings"] == one.corpus()["settings"]
    assert corpus["models"] == {"masked": one.corpus()["models"]["masked"]}


def test_status_report_and_figures_work_on_the_result(root, tmp_path, command):
    """Though the two were made by other rules, and their units cut otherwise."""
    changed = {**SETTINGS, "rules": {**SETTINGS["rules"], "negative_max_cosine": 0.2}}
    changed["generate"] = {**SETTINGS["generate"], "unit_targets": 7}
    sources = [small_store(str(tmp_path / "one")), other_store(str(tmp_path / "other"), settings=changed)]
    merge(root, [source.url for source in sources])
    assert Store.at(root).corpus()["settings"]["generate"] == {"positives": "round_trip"}
    assert "generate: 4 of 4 units, 5 triples, 5 rejects" in command("status", root).out
    assert command("verify", root).out.endswith("ok\n")
    assert write_report(root, tmp_path / "report.html") > 0
    assert stats(root).products["triples"].funnel.triples == 5
    assert "removed 0 files" in command("gc", root).out


def test_a_merge_that_was_killed_goes_on(tmp_path, monkeypatch):
    root = str(tmp_path / "killed")
    sources = two(tmp_path)
    kept = []
    with monkeypatch.context() as patch:
        from corpusgen.ops import merge as merging

        def copy_two(*arguments, original=merging._copy):
            if len(kept) == 2:
                raise KeyboardInterrupt
            kept.append(original(*arguments))

        patch.setattr(merging, "_copy", copy_two)
        with pytest.raises(KeyboardInterrupt):
            merge(root, sources)
    assert TripleStore(root).num_rows == 4
    assert not TripleStore(root).complete
    merge(root, sources)
    whole = merge(str(tmp_path / "at once"), sources)
    assert TripleStore(root).parts == TripleStore(str(tmp_path / "at once")).parts
    assert whole.complete
    assert is_whole(Store.at(root))


def test_a_merged_store_can_be_merged_again(tmp_path):
    one, other = two(tmp_path)
    first = str(tmp_path / "first")
    merge(first, [one])
    totals = merge(str(tmp_path / "second"), [first, other])
    assert is_whole(Store.at(str(tmp_path / "second")))
    assert totals.rows == {"triples": 5, "rejects": 5}
    assert (totals.stages["merge"].rows_in, totals.stages["merge"].rows_out) == (7, 5)
    third = merge(str(tmp_path / "third"), [str(tmp_path / "second"), one])
    assert is_whole(Store.at(str(tmp_path / "third")))
    assert third.rows["triples"] == 5
    assert third.stages["merge"].rejected == {DUPLICATE: 6}


def test_an_unfinished_store_gives_what_it_has_and_that_is_said(tmp_path):
    generate = plan_generate(start(str(tmp_path / "one")), 3)
    commit_unit(generate, 1, [triple(1)])
    heard = []
    totals = merge(str(tmp_path / "both"), [str(tmp_path / "one")], heard.append)
    assert totals.rows["triples"] == 1
    assert "only 1 of 3 units are merged" in heard[0]
    commit_unit(generate, 2, [triple(2)])
    with pytest.raises(StoreError, match="planned for different input"):
        merge(str(tmp_path / "both"), [str(tmp_path / "one")])


def test_what_cannot_be_merged_is_refused(tmp_path, command):
    one, other = two(tmp_path)
    with pytest.raises(CorpusgenError, match="given twice"):
        merge(str(tmp_path / "new"), [one, other, f"{one}/."])
    with pytest.raises(CorpusgenError, match=r"cannot merge .* into itself"):
        merge(one, [one, other])
    with pytest.raises(StoreError, match="holds a corpus with different settings"):
        merge(one, [other])
    with pytest.raises(StoreError, match="no corpus here"):
        merge(str(tmp_path / "new"), [one, str(tmp_path / "nowhere")])
    store = start(str(tmp_path / "odd"))
    tables = {**CommittedTable(one, "generate", "triples")._pass.plan().tables}
    tables["triples"] = tables["triples"].append(pa.field("mood", pa.string()))
    plan = Store.at(one).pass_store("generate").plan()
    store.pass_store("generate").ensure_plan(type(plan).of("generate", [[{"unit": 0}]], tables))
    with pytest.raises(CorpusgenError, match="mood of table 'triples'"):
        merge(str(tmp_path / "new"), [one, str(tmp_path / "odd")])
    assert not (tmp_path / "new" / "corpus.json").exists()
    assert command("merge", tmp_path / "new").code == 2


def test_a_damaged_part_is_not_copied(tmp_path):
    one, _ = two(tmp_path)
    part = CommittedTable(one, "generate", "rejects").parts[0]
    path = tmp_path / "one" / part.path
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(StoreError, match="is damaged: its sha256 is not the committed one"):
        merge(str(tmp_path / "new"), [one])


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=3), min_size=1, max_size=3))
def test_whatever_is_merged_the_first_of_equals_stays(tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("merge")
    words = ("bank", "shore", "money"), ("Spring", "Fountain", "Winter")
    seen = []
    for index, units in enumerate(numbers):
        generate = plan_generate(start(str(folder / str(index))), len(units))
        for unit, some in enumerate(units):
            commit_unit(generate, unit, [triple(number // 2, words[number % 2]) for number in some])
            seen += some
    totals = merge(str(folder / "all"), [str(folder / str(index)) for index in range(len(numbers))])
    store = Store.at(str(folder / "all"))
    assert is_whole(store)
    found = [2 * int(row["id"], 16) + (row["target"] == "Spring") for row in rows_of(store, "triples")]
    assert found == list(dict.fromkeys(seen))
    assert totals.rows["triples"] + totals.rows["rejects"] == len(seen)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Two stores of the same texts, models and targets; the one has other rules."""
    folder = tmp_path_factory.mktemp("real")
    small = {"sample": {"size": 20, "vocabulary": 60}}
    one = make(folder, **small)
    rules = {"preset": "paper", "enrich_min_cosine": 0.3, "negative_max_cosine": 0.1}
    other = make(folder, **{**small, "rules": rules, "store": str(folder / "other"), "seed": 1})
    merge(str(folder / "both"), [other.url, one.url])
    return Store.at(str(folder / "both")), one, other


def test_triples_of_a_merged_store_are_explained_and_replayed_where_they_were_made(real):
    store, one, other = real
    of_other = {row["id"] for row in rows_of(other, "triples")}
    row = next(row for row in rows_of(store, "triples") if row["id"] not in of_other)
    found = explain_one(store.url, row["id"], row["target"])
    assert (found.store, found.differences) == (one.url, [])
    assert replay_one(store.url, row["id"], row["target"]).same
    assert all(one.same for one in replay_some(store.url, 100))


def test_without_its_source_a_merged_triple_cannot_be_explained(tmp_path):
    merge(str(tmp_path / "both"), two(tmp_path))
    (tmp_path / "other" / "corpus.json").unlink()
    with pytest.raises(CorpusgenError, match=r"was merged from .*other, which this command needs"):
        explain_one(str(tmp_path / "both"), f"{9:024x}")


def test_the_command(tmp_path, command):
    one, other = two(tmp_path)
    found = command("merge", tmp_path / "both", one, other, "--json")
    assert found.code == 0, found.err
    assert json.loads(found.out) == {"units": 4, "rows": {"triples": 5, "rejects": 5}, "duplicates": 2}
    assert "duplicates dropped: 2 triples" in command("merge", tmp_path / "both", one, other).out


def pairs_again(folder, change=lambda row: {}):
    """The same documents as those of the fixture in another file, so that all ids differ; some texts written anew."""
    store = pair_builds.make(folder, seed=1)
    pass_store = store.pass_store("pairs")
    for commit in list(pass_store.commits()):
        read = CommittedTable(store, "pairs", "pairs")
        rows = pa.Table.from_batches(list(read.part_batches(commit.parts["pairs"])), read.schema).to_pylist()
        table = pa.Table.from_pylist([{**row, **change(row)} for row in rows], read.schema)
        store.files.delete(f"pairs/commits/{commit.unit}.json")
        assert pass_store.commit(commit.unit, commit.attempt, {"pairs": table}, [], commit.stages)
    return store


def said(row):
    return row["target"], frozenset({" ".join(row["text"].split()), row["positive"]})


def test_pairs_with_the_same_word_and_sentences_are_kept_once(pairs, tmp_path):
    def spaced(row):
        return {"text": f" {row['text']}".replace(" ", "\t ")}

    other = pairs_again(tmp_path / "a", spaced)
    both = [open_product(store).to_table().to_pylist() for store in (pairs, other)]
    ours, same = ({said(row) for row in rows} for rows in both)
    in_this_order = {(row["target"], row["positive"]) for row in both[0]}
    assert any((row["target"], row["positive"]) not in in_this_order for row in both[1] if said(row) in ours)
    totals = merge_all(str(tmp_path / "all"), [pairs.url, other.url])["pairs"]
    rows = open_product(str(tmp_path / "all")).to_table().to_pylist()
    assert len(ours & same) > 5
    assert duplicates(totals) == len(ours & same)
    assert len(rows) == len(ours | same) == totals.rows["pairs"]
    assert all(check.ok for check in verify(Store.at(str(tmp_path / "all"))))
    funnel = pair_funnel(Store.at(str(tmp_path / "all")))
    assert funnel.repeated is None
    assert funnel.without_negative == {"not known of merged pairs": funnel.pairs - funnel.with_negative}


def test_a_letter_may_be_written_in_two_ways_but_case_counts(pairs, tmp_path):
    def accented(form):
        return lambda row: {"text": unicodedata.normalize(form, row["text"].replace("e", "é"))}

    stores = [
        pairs_again(tmp_path / name, change)
        for name, change in (
            ("composed", accented("NFC")),
            ("apart", accented("NFD")),
            ("loud", lambda row: {"text": accented("NFC")(row)["text"].upper()}),
        )
    ]
    totals = merge_all(str(tmp_path / "all"), [store.url for store in stores])["pairs"]
    number = open_product(stores[0]).num_rows
    assert (totals.rows["pairs"], duplicates(totals)) == (2 * number, number)


def test_all_products_are_merged_or_only_one(both, pairs, tmp_path, command):
    found = command("merge", tmp_path / "all", both.url, "--json")
    triples, pairs_ = TripleStore(both).num_rows, open_product(both, "pairs").num_rows
    rows = {"triples": triples, "rejects": CommittedTable(both, "generate", "rejects").num_rows, "pairs": pairs_}
    assert json.loads(found.out)["rows"] == rows
    assert products_of(Store.at(str(tmp_path / "all"))) == [WORDS, DISCOURSE]
    assert merge_all(str(tmp_path / "some"), [both.url, pairs.url], table="pairs")["pairs"].rows["pairs"] >= pairs_
    assert Store.at(str(tmp_path / "some")).corpus()["recipe"] == "discourse"
    with pytest.raises(CorpusgenError, match=r"has the recipe 'discourse', .* the recipe 'words\+discourse'"):
        merge_all(str(tmp_path / "new"), [both.url, pairs.url])
    with pytest.raises(CorpusgenError, match="holds pairs, not triples"):
        merge_all(str(tmp_path / "new"), [both.url, pairs.url], table="triples")
    assert "duplicates dropped: " in command("merge", tmp_path / "all", both.url).out


def test_a_recipe_of_another_package_is_merged_by_its_ids(outside, tmp_path):
    from tests.corpusgen.ops.conftest import OUTSIDE

    other = pair_builds.make(tmp_path, recipe=OUTSIDE)
    totals = merge_all(str(tmp_path / "all"), [outside.url, other.url])["pairs"]
    assert duplicates(totals) == totals.rows["pairs"] == open_product(outside).num_rows  # ids do not tell folders apart
    assert all(check.ok for check in verify(Store.at(str(tmp_path / "all"))))
