"""Isolation of bad rows inside a worker, and the batches that carry the rest on."""

import pickle
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.engine import Result, Stage
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import quarantine_all, run_stage
from corpusgen.engine.stage import check_columns
from corpusgen.errors import StageError
from corpusgen.store import StageCount
from tests.testing.demo_pass import Count, Spell, Square


def numbers(values) -> Batch:
    return Batch(pa.table({"number": pa.array(values, pa.int64())}))


@given(
    values=st.lists(st.integers(0, 40), min_size=1, max_size=60),
    raises=st.sets(st.integers(0, 40), max_size=6),
)
def test_exactly_the_rows_that_raise_are_quarantined(values, raises):
    batch = run_stage(Square(raises=tuple(raises)), numbers(values))
    good = [n for n in values if n not in raises]
    kept = [n for n in good if n % 7]
    assert (batch.rows["number"].to_pylist() if batch.rows is not None else []) == kept
    assert sorted(entry["record"]["number"] for entry in batch.quarantined) == sorted(n for n in values if n in raises)
    count = batch.stages["square"]
    assert (count.rows_in, count.rows_out, count.quarantined) == (len(values), len(kept), len(values) - len(good))
    assert sum(count.rejected.values()) == len(good) - len(kept)


@given(values=st.lists(st.integers(0, 10**6), max_size=50), cuts=st.lists(st.integers(0, 50), max_size=5))
def test_slices_put_together_are_the_whole(values, cuts):
    stages = {"before": StageCount("before", rows_in=9, rows_out=len(values), rejected={"short": 3})}
    rejects = pa.table({"number": [1], "reason": ["short"]})
    whole = Batch(numbers(values).rows, rejects, [{"error": "x"}], stages)
    edges = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    pieces = [whole.slice(a, b) for a, b in pairwise(edges)] or [whole]
    again = Batch.concat([pickle.loads(pickle.dumps(piece)) for piece in pieces])
    assert again.num_rows == whole.num_rows
    assert again.rows is None or again.rows["number"].to_pylist() == values
    assert again.rejects.equals(rejects)
    assert list(again.quarantined) == [{"error": "x"}]
    assert again.stages == stages


def test_a_pickled_slice_holds_only_its_own_rows():
    batch = Batch(pa.table({"text": ["x" * 1000] * 1000}))
    assert len(pickle.dumps(batch.slice(0, 10))) < 20_000


def test_an_empty_batch_goes_through_without_calling_the_stage():
    batch = run_stage(Spell(), Batch(None))
    assert batch.num_rows == 0
    assert batch.stages["spell"].rows_in == 0


def test_a_stage_that_loses_rows_stops_the_run():
    @dataclass
    class Forgetful(Stage):
        name: ClassVar[str] = "forgetful"

        def process(self, rows):
            return rows.slice(1)

    with pytest.raises(StageError, match="received 3 rows but accounts for 2"):
        run_stage(Forgetful(), numbers([1, 2, 3]))


@pytest.mark.parametrize(
    "error", [MemoryError("full"), ConnectionError("gone"), OSError(28, "No space left on device")]
)
def test_what_is_not_the_fault_of_a_row_is_not_blamed_on_one(error):
    @dataclass
    class Unlucky(Stage):
        name: ClassVar[str] = "unlucky"

        def process(self, rows):
            raise error

    with pytest.raises(type(error)):
        run_stage(Unlucky(), numbers([1, 2]))


def test_what_a_stage_quarantines_itself_carries_the_name_of_the_stage():
    @dataclass
    class Reader(Stage):
        name: ClassVar[str] = "reader"
        expands: ClassVar[bool] = True

        def process(self, rows):
            return Result(rows, None, [{"error": "truncated", "record": {"path": "a.bz2"}}])

    (entry,) = run_stage(Reader(), numbers([1])).quarantined
    assert entry == {"stage": "reader", "error": "truncated", "record": {"path": "a.bz2"}}


def test_a_quarantined_record_is_readable_and_short():
    batch = Batch(pa.table({"text": ["é" * 50_000], "raw": [b"\xff\x00"]}))
    (entry,) = quarantine_all(Spell(), batch, "it died").quarantined
    assert entry["error"] == "it died"
    assert entry["record"]["text"].endswith("… (50,000 characters)")
    assert entry["record"]["raw"] == "/wA="


def test_stages_that_do_not_fit_together_are_named():
    assert check_columns([Count(), Square(), Spell()], {"start", "stop"}) is None
    assert "'spell' needs square" in check_columns([Count(), Spell()], {"start", "stop"})
    assert "'square' needs number" in check_columns([Square()], {"start", "stop"})


@dataclass
class OfParts(Square):
    """Square, but each row stands for thousands of others."""

    rows_may_fail: ClassVar[bool] = False


def test_a_row_that_stands_for_many_is_not_given_up():
    with pytest.raises(StageError, match="stage 'square' failed"):
        run_stage(OfParts(raises=(3,)), numbers(range(10)))
    assert run_stage(OfParts(), numbers(range(10))).num_rows == 8
