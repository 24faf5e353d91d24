"""Figures of a store: exact, of the same units, from batches."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.errors import ConfigError
from corpusgen.ops.funnel import funnel
from corpusgen.ops.inspect import distributions
from corpusgen.ops.inspect.distributions import PERCENTILES, Distribution
from corpusgen.ops.inspect.stats import lines, stats
from corpusgen.ops.pair_funnel import pair_funnel
from corpusgen.store import CommittedTable, PassStore
from corpusgen.store.products import open_product
from tests.corpusgen.ops.inspect.support import rows_of
from tests.corpusgen.ops.report.support import commit_unit, plan_generate, small_store, start, triple
from tests.testing import pair_builds


@given(st.lists(st.integers(-100_000, 100_000), min_size=1, max_size=200), st.integers(1, 7))
def test_a_distribution_of_decimals_is_exact(numbers, pieces):
    values = np.array(numbers) / 100_000
    counted = Distribution(5)
    for some in np.array_split(values, pieces):
        counted.add(pa.array(some.astype(np.float32)))
    found = counted.summary()
    assert found["count"] == len(values)
    assert found["mean"] == pytest.approx(values.mean(), abs=1e-6)
    assert (found["min"], found["max"]) == (values.min(), values.max())
    for share in PERCENTILES:
        assert found[f"p{share}"] == np.percentile(values, share, method="inverted_cdf")


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=100))
def test_a_distribution_of_counts_leaves_nulls_out(numbers):
    counted = Distribution()
    counted.add(pa.array(numbers, pa.int32()))
    present = [number for number in numbers if number is not None]
    found = counted.summary()
    if not present:
        assert found is None
    else:
        assert (found["count"], found["max"], found["p50"]) == (
            len(present),
            max(present),
            np.percentile(present, 50, method="inverted_cdf"),
        )


@given(st.lists(st.floats(allow_nan=True, width=32), max_size=60))
def test_numbers_of_any_size_are_counted_in_bounded_memory(numbers):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributions, "_MOST_VALUES", 8)
        counted = Distribution()
        for number in numbers:
            counted.add(pa.array([number], pa.float32()))
        found = counted.summary()
        finite = [number for number in numbers if np.isfinite(number)]
        assert (found or {"count": 0})["count"] == len(finite)
        assert len(counted._values) <= 8
        if finite:
            assert found["min"] <= found["p50"] <= found["max"]


def test_a_small_store(root):
    store = small_store(root)
    found = stats(root)
    triples = found.products["triples"]
    assert triples.funnel == funnel(store)
    assert found.passes["generate"]["rows"] == {"triples": 4, "rejects": 2}
    assert found.passes["generate"]["rejected"] == {"mask": {"no aligned word": 1, "no negative word": 1}}
    assert found.passes["harvest"]["rejected"]["filter"]["too short"] == 12
    assert triples.rows == 4
    assert triples.kinds == {"aligned": 3, "enriched": 1}
    assert triples.distinct_words == {"original": 2, "positive": 2, "negative": 2}
    assert triples.distributions["edit_distance"]["max"] == 7
    assert triples.distributions["positive_probability"]["count"] == 1
    assert triples.distributions["text"]["p50"] == 8
    text = "\n".join(lines(found))
    assert "generate: 2 of 2 units, 4 triples, 2 rejects" in text
    assert "cosine of wt and wn" in text


def test_a_build_that_goes_on_meanwhile_changes_no_figure(root, monkeypatch):
    generate = plan_generate(start(root), 2)
    commit_unit(generate, 0, [triple(1)])

    committed_now = PassStore.commits

    def commits_and_then_more(self, units=None):
        yield from list(committed_now(self, units))
        if self.name == "generate" and not self.is_committed(generate.plan().units[1].id):
            commit_unit(generate, 1, [triple(2)])

    monkeypatch.setattr(PassStore, "commits", commits_and_then_more)
    found = stats(root)
    assert found.passes["generate"]["rows"]["triples"] == found.products["triples"].funnel.triples == 1


def test_a_store_without_triples(root):
    start(root)
    found = stats(root)
    assert found.products == {"triples": None}
    assert "no triples yet: their pass has not been started" in list(lines(found))


def test_a_real_store(made):
    found = stats(made.url).products["triples"]
    triples = rows_of(made, "triples")
    cosines = np.array([row["negative_cosine"] for row in triples])
    assert found.distributions["negative_cosine"]["mean"] == pytest.approx(cosines.mean(), abs=1e-5)
    assert found.funnel.aligned is None
    assert found.distinct_words["original"] == len({row["target"] for row in triples})


def test_the_command(tmp_path, command):
    small_store(str(tmp_path))
    assert json.loads(command("stats", tmp_path, "--json").out)["products"]["triples"]["funnel"]["triples"] == 4
    assert command("stats", tmp_path / "nowhere").code == 1


def test_the_funnel_of_pairs_adds_up(pairs):
    found = stats(pairs.url)
    funnel_ = found.products["pairs"].funnel
    assert funnel_ == pair_funnel(pairs)
    before, rows = funnel_.repeated, open_product(pairs).to_table().to_pylist()
    assert before.sentences == CommittedTable(pairs, "harvest", "sentences").num_rows
    assert before.repeats == sum(before.rejected.values()) + before.paired
    assert before.rejected == found.passes["repeats"]["rejected"]["repeats"]
    assert set(before.rejected) >= {"function word", "name", "multi-word expression", "same neighbours"}
    repeats = CommittedTable(pairs, "repeats", "repeats").to_table().to_pylist()
    candidates = [row for row in repeats if row["second"]]
    assert before.candidates == len(candidates) < len(repeats)  # the others are single occurrences
    assert before.paired == len({(row["word"], row["document"]) for row in candidates})
    assert before.chosen == funnel_.pairs == len(rows)
    assert funnel_.with_negative == sum(row["negative"] is not None for row in rows) < len(rows)
    assert funnel_.pairs == funnel_.with_negative + sum(funnel_.without_negative.values())
    assert set(funnel_.without_negative) == {"in no other document"}
    targets = [row["target"] for row in rows]
    assert (funnel_.words, funnel_.most_of_a_word) == (len(set(targets)), max(map(targets.count, targets)))
    assert funnel_.documents == len({row["title"] for row in rows})


def test_a_word_that_stands_twice_in_all_sentences_but_one_is_in_the_funnel(tmp_path):
    canal = ["A canal joins the two rivers near here.", "The canal by the canal house is very old."]
    store = pair_builds.make(tmp_path, documents={**pair_builds.DOCUMENTS, "Canal": canal})
    before = pair_funnel(store).repeated
    assert before.rejected["twice in one sentence"] == 1
    assert before.repeats == sum(before.rejected.values()) + before.paired


def test_negatives_that_copied_a_sentence_of_their_pair_are_counted(tmp_path):
    """One document is there twice: the negatives of its words would be their own sentences."""
    documents = {**pair_builds.DOCUMENTS, "Storm again": pair_builds.DOCUMENTS["Storm"]}
    store = pair_builds.make(tmp_path, documents=documents, discourse={"size": 200, "boilerplate_documents": None})
    funnel_ = pair_funnel(store)
    chosen = {row["id"]: row["negative"] for row in CommittedTable(store, "pairing", "choice").to_table().to_pylist()}
    without = [row["id"] for row in open_product(store).to_table().to_pylist() if row["negative"] is None]
    copied = sum(chosen[pair] is not None for pair in without)
    assert funnel_.without_negative == {"it copied a sentence": copied, "in no other document": len(without) - copied}
    assert 0 < copied < len(without)
    assert funnel_.pairs == funnel_.with_negative + len(without)
    text = "\n".join(lines(stats(store.url)))
    assert f"  without: it copied a sentence{copied:>17,}" in text


def test_several_pairs_of_a_word_in_a_document_are_several_candidates(tmp_path):
    store = pair_builds.make(tmp_path, discourse={"size": 50, "per_document": 3, "max_overlap": 1.0})
    funnel_ = pair_funnel(store)
    assert funnel_.repeated.candidates >= funnel_.repeated.paired
    assert funnel_.repeated.repeats == sum(funnel_.repeated.rejected.values()) + funnel_.repeated.paired


def test_the_numbers_of_pairs_are_named_by_their_schema(pairs):
    found = stats(pairs.url).products["pairs"]
    assert set(found.distributions) == {"overlap", "round", "text", "positive", "negative"}
    assert found.distributions["negative"]["count"] == found.funnel.with_negative
    assert found.kinds == {}
    text = "\n".join(lines(stats(pairs.url)))
    for said in ("23 pairs", "  with candidate pairs", "share of the words of both sentences", "words in negative"):
        assert said in text, said


def test_every_product_has_its_figures_or_only_one(both):
    assert list(stats(both.url).products) == ["triples", "pairs"]
    assert list(stats(both.url, "pairs").products) == ["pairs"]
    with pytest.raises(ConfigError, match="holds triples and pairs, not rejects"):
        stats(both.url, "rejects")


def test_a_recipe_of_another_package_has_figures_without_a_funnel(outside):
    found = stats(outside.url).products["pairs"]
    rows = open_product(outside).to_table().to_pylist()
    assert (found.rows, found.funnel, found.kinds) == (len(rows), None, {})
    assert found.distinct_words["first"] == len({row["first"].split()[0] for row in rows})
    assert set(found.distributions) == {"first", "second"}
    assert "words in second" in "\n".join(lines(stats(outside.url)))
