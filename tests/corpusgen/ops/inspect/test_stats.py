"""Figures of a store: exact, of the same units, from batches."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.ops.funnel import funnel
from corpusgen.ops.inspect.stats import PERCENTILES, Distribution, lines, stats
from corpusgen.store import PassStore
from tests.corpusgen.ops.inspect.support import rows_of
from tests.corpusgen.ops.report.support import commit_unit, plan_generate, small_store, start, triple


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


def test_a_small_store(root):
    store = small_store(root)
    found = stats(root)
    assert found.funnel == funnel(store)
    assert found.passes["generate"]["rows"] == {"triples": 4, "rejects": 2}
    assert found.passes["generate"]["rejected"] == {"mask": {"no aligned word": 1, "no negative word": 1}}
    assert found.passes["harvest"]["rejected"]["filter"]["too short"] == 12
    assert found.positive_rules == {"aligned": 3, "enriched": 1}
    assert found.distinct_words == {"target": 2, "positive_word": 2, "negative_word": 2}
    assert found.distributions["edit_distance"]["max"] == 7
    assert found.distributions["positive_probability"]["count"] == 1
    assert found.distributions["text"]["p50"] == 8
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
    assert found.passes["generate"]["rows"]["triples"] == found.funnel.triples == 1


def test_a_store_without_triples(root):
    start(root)
    found = stats(root)
    assert found.funnel is None
    assert "no triples: the pass 'generate' has not been started" in list(lines(found))


def test_a_real_store(made):
    found = stats(made.url)
    triples = rows_of(made, "triples")
    cosines = np.array([row["negative_cosine"] for row in triples])
    assert found.distributions["negative_cosine"]["mean"] == pytest.approx(cosines.mean(), abs=1e-5)
    assert found.funnel.aligned is None
    assert found.distinct_words["target"] == len({row["target"] for row in triples})


def test_the_command(tmp_path, command):
    small_store(str(tmp_path))
    assert json.loads(command("stats", tmp_path, "--json").out)["funnel"]["triples"] == 4
    assert command("stats", tmp_path / "nowhere").code == 1
