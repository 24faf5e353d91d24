"""What a report finds in a store, and how much of it it looks at."""

import json
from collections import Counter

import numpy as np
import pytest

from corpusgen.ops.funnel import Funnel, funnel
from corpusgen.ops.report.collect import Collector
from corpusgen.ops.report.samples import Columns, RejectSample, RowSample, Spanned
from corpusgen.store import CommittedTable, Store, TripleStore
from corpusgen.store.products import WORDS, open_product
from corpusgen.tables import TRIPLES
from tests.corpusgen.ops.report.support import BEGUN, commit_unit, plan_generate, reject, small_store, start, triple


def test_the_facts_of_a_store(root):
    small_store(root)

    facts = Collector(root).refresh()

    assert facts.complete
    assert facts.begun == BEGUN
    assert facts.latest == BEGUN + 120
    assert [found.name for found in facts.passes] == ["harvest", "generate"]
    harvest, generate = (found.totals for found in facts.passes)
    assert harvest.stages["filter"].rejected == {"too short": 12, "numbers": 3}
    assert generate.rows == {"triples": 4, "rejects": 2}
    triples = facts.products["triples"]
    assert triples.funnel == Funnel(6, 5, 4, 1, 4, 3, 2) == funnel(Store.at(root))
    assert triples.made == {"bank": 3, "Spring": 1}
    assert triples.tried == {"bank": 5, "Spring": 1}
    assert [sample.members[0].word for sample in triples.sample] == ["bank", "Spring", "bank", "bank"]
    assert [sample.kind for sample in triples.sample] == ["aligned", "aligned", "aligned", "enriched"]
    assert triples.rejects["no aligned word"][0].paraphrase is None
    assert triples.rejects["no negative word"][0].paraphrase == ("We went from the ", "shore", " at noon.")


def test_histograms_count_all_rows(tmp_path):
    small_store(str(tmp_path))

    found = Collector(str(tmp_path)).refresh().products["triples"].histograms

    assert {column: histogram.total for column, histogram in found.items()} == {
        "alignment": 3,  # and one that is 1, counted apart
        "positive_cosine": 3,
        "negative_cosine": 4,
        "negative_probability": 4,
        "text": 4,
        "target": 2,
    }
    assert found["alignment"].ones == 1
    assert found["text"].quantile(0.5) == 8
    assert found["alignment"].quantile(0.5) == pytest.approx(0.75, abs=0.025)
    (bin_,) = np.flatnonzero(found["negative_cosine"].counts)
    assert found["negative_cosine"].edges[bin_] == 0.25


@pytest.mark.parametrize("value", [0.45, 0.6, 0.65])
def test_a_threshold_lies_between_two_bins(tmp_path, value):
    store = start(str(tmp_path))
    generate = plan_generate(store, 1)
    commit_unit(generate, 0, [triple(1, negative_cosine=value), triple(2, negative_cosine=value - 1e-5)])

    found = Collector(str(tmp_path)).refresh().products["triples"].histograms["negative_cosine"]

    below, above = np.flatnonzero(found.counts)
    assert found.edges[above] == value
    assert above == below + 1


def test_looking_again_reads_only_what_is_new(tmp_path):
    root = str(tmp_path)
    store = start(root)
    generate = plan_generate(store, 3)
    collector = Collector(root)
    assert collector.refresh().products["triples"].funnel.targets == 0
    commit_unit(generate, 1, [triple(1)], [reject(2)])
    facts = collector.refresh()
    assert (facts.products["triples"].funnel.targets, facts.complete) == (2, False)
    for folder in ("generate/parts", "generate/commits"):
        for file in (tmp_path / folder).iterdir():
            if file.suffix == ".parquet":
                file.write_bytes(b"not to be read again")
    commit_unit(generate, 0, [triple(3), triple(4)])
    commit_unit(generate, 2, [])

    facts = collector.refresh()

    assert facts.complete
    assert facts.products["triples"].funnel.targets == 4
    assert [sample.notes[0][1][-2] for sample in facts.products["triples"].sample] == ["1", "3", "4"]


def test_the_sample_does_not_depend_on_the_order_of_the_units(tmp_path):
    units = [[triple(number) for number in range(first, 60, 3)] for first in range(3)]
    found = []
    for name, order in (("a", (0, 1, 2)), ("b", (2, 0, 1))):
        generate = plan_generate(start(str(tmp_path / name)), 3)
        sample = RowSample(Columns.of(WORDS, TRIPLES), most=10)
        for number in order:
            commit_unit(generate, number, units[number])
            table = TripleStore(str(tmp_path / name))
            commit = generate.read_commit(generate.plan().units[number].id)
            for first, batch in zip((0, 8, 16), table.part_batches(commit.parts["triples"], ["id"], 8), strict=True):
                sample.offer(commit.parts["triples"], first, batch["id"])
            sample.rows(table)
        found.append([shown.notes for shown in sample.rows(table)])
    assert found[0] == found[1] == [[("S in the pivot language", triple(number)["pivot"])] for number in range(10)]


def test_some_rejects_of_each_reason_are_found_without_reading_every_unit(tmp_path, monkeypatch):
    generate = plan_generate(start(str(tmp_path)), 30)
    for number in range(30):
        rare = [reject(1000 + number, "rare")] if number == 17 else []
        commit_unit(generate, number, [], [*(reject(100 * number + row, "usual") for row in range(5)), *rare])
    opened = []
    read = CommittedTable.part_batches
    monkeypatch.setattr(
        CommittedTable, "part_batches", lambda self, part, *a: opened.append(part.path) or read(self, part, *a)
    )
    sample, table = RejectSample(most=4), CommittedTable(str(tmp_path), "generate", "rejects")
    for commit in generate.commits():
        reasons = [reason for stage in commit.stages for reason in stage.rejected]
        sample.offer(commit.unit, commit.parts["rejects"], reasons)

    found = sample.rejects(table)
    assert {reason: len(rejects) for reason, rejects in found.items()} == {"usual": 4, "rare": 1}
    assert len(opened) == 5
    assert sample.rejects(table) == found
    assert len(opened) == 5


def test_characters_beyond_the_basic_plane_do_not_shift_a_span():
    assert Spanned.of("😀😀 a 𝒷 c", 5, 6) == ("😀😀 a ", "𝒷", " c")


def test_what_is_far_from_the_word_is_left_out():
    sentence = Spanned.of("a" * 5000 + "word" + "b" * 5000, 5000, 5004)
    assert sentence.word == "word"
    assert sentence.before == "…" + "a" * 300
    assert sentence.after == "b" * 300 + "…"


def test_a_build_that_ends_with_targets(tmp_path):
    start(str(tmp_path), passes=["harvest"])

    facts = Collector(str(tmp_path)).refresh()

    assert facts.complete
    assert facts.products == {}


def test_a_build_whose_next_pass_has_not_begun_is_not_complete(tmp_path):
    start(str(tmp_path))

    facts = Collector(str(tmp_path)).refresh()

    assert not facts.complete
    assert facts.planned == ["harvest", "generate"]
    assert facts.products == {}


def test_substitution_knows_no_alignment(tmp_path):
    store = start(str(tmp_path), settings={"generate": {"positives": "substitution"}})
    commit_unit(plan_generate(store, 1), 0, [triple(1, alignment=None, positive_rule="substitution", pivot=None)])

    triples = Collector(str(tmp_path)).refresh().products["triples"]

    assert triples.funnel.aligned is None
    assert "alignment" not in triples.histograms


def test_quarantined_records_are_shown_with_their_error(tmp_path):
    store = start(str(tmp_path))
    failures = [{"stage": "mask", "error": f"error {number}", "record": {"id": number}} for number in range(9)]
    commit_unit(plan_generate(store, 1), 0, [], quarantined=failures)

    _, generate = Collector(str(tmp_path)).refresh().passes

    assert len(generate.quarantined) == 5
    assert generate.quarantined[0] == "mask: error 0 (" + json.dumps({"id": 0}) + ")"


def test_the_facts_of_pairs(pairs):
    facts = Collector(pairs.url).refresh().products["pairs"]
    rows = open_product(pairs).to_table().to_pylist()
    assert facts.rows == facts.funnel.pairs == len(rows)
    assert (facts.tried, facts.rejects) == (None, {})
    assert facts.made == Counter(row["target"] for row in rows)
    assert set(facts.histograms) == {"overlap", "round", "text", "target"}
    assert facts.histograms["overlap"].total == len(rows)
    assert facts.histograms["round"].is_whole
    assert facts.labels["round"] == "n for the n-th pair of its word"
    by_hash = sorted(rows, key=lambda row: row["id"].partition("-")[2])
    assert ["".join(shown.members[1]) for shown in facts.sample] == [row["positive"] for row in by_hash]
    assert [shown.members[2] is None for shown in facts.sample] == [row["negative"] is None for row in by_hash]
    assert facts.sample[0].origin == by_hash[0]["title"]


def test_every_product_or_one(both):
    assert list(Collector(both.url).refresh().products) == ["triples", "pairs"]
    facts = Collector(both.url, "pairs").refresh()
    assert list(facts.products) == ["pairs"]
    assert facts.complete


def test_a_recipe_of_another_package(outside):
    facts = Collector(outside.url).refresh().products["pairs"]
    rows = open_product(outside).to_table().to_pylist()
    assert (facts.rows, facts.funnel, len(facts.sample)) == (len(rows), None, len(rows))
    assert facts.made.total() == len(rows)
    assert set(facts.histograms) == {"first", "target"}
