"""Workers and prices: what holds a pass up, how devices are best spread, and what is wrong with what was typed."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.engine import Resources
from corpusgen.errors import ConfigError
from corpusgen.ops.estimate.project import ProjectedStage
from corpusgen.ops.estimate.uncertain import Uncertain
from corpusgen.ops.estimate.workers import best_split, cost_of, parse_prices, parse_workers, schedule


def stage(pass_name, name, hours, **resources):
    rows = Uncertain.exactly(10)
    seconds = Uncertain.exactly(hours * 3600)
    return ProjectedStage(pass_name, name, False, Resources(**resources), 0.0, 1.0, rows, rows, seconds)


STAGES = [
    stage("harvest", "filter", 3, cpus=0.5),
    stage("generate", "read", 0.1, cpus=0.05),
    stage("generate", "translate", 12, gpus=1),
    stage("generate", "mask", 4, gpus=0.5, cpus=2),
]


@given(
    seconds=st.lists(st.floats(0.1, 100), min_size=2, max_size=3),
    budget=st.integers(3, 9),
    share=st.sampled_from([1.0, 0.5]),
)
def test_no_other_split_is_faster(seconds, budget, share):
    devices = [1.0, share, 1.0][: len(seconds)]
    found = best_split(seconds, devices, budget)
    assert sum(n * d for n, d in zip(found, devices, strict=True)) <= budget

    def slowest(workers):
        return max(s / n for s, n in zip(seconds, workers, strict=True))

    others = product(range(1, 2 * budget + 1), repeat=len(seconds))
    allowed = [some for some in others if sum(n * d for n, d in zip(some, devices, strict=True)) <= budget]
    assert slowest(found) == pytest.approx(min(map(slowest, allowed)))


def test_the_slowest_stage_sets_the_pace_of_its_pass_and_passes_follow_each_other():
    found = schedule(STAGES, {"translate": 8, "mask": 4})
    harvest, generate = found.passes
    assert (harvest.bottleneck, harvest.hours.value) == ("filter", 3)
    assert (generate.bottleneck, generate.hours.value) == ("translate", 1.5)
    assert generate.busy["mask"] == pytest.approx(1 / 1.5)
    assert found.hours.value == pytest.approx(4.5)
    (split,) = found.splits
    assert (split.kind, split.devices) == ("gpu", 10)
    assert split.workers == {"translate": 8, "mask": 3}  # what is left would not help: it is less than a translator


def test_devices_that_one_stage_does_not_need_go_to_the_other():
    (split,) = schedule(STAGES, {"translate": 2, "mask": 16}).splits
    assert split.devices == 10
    assert split.workers == {"translate": 8, "mask": 3}
    assert split.hours.value == pytest.approx(1.5)
    assert split.hours_as_given.value == pytest.approx(6)


def test_stages_of_another_kind_or_pass_do_not_compete():
    assert schedule(STAGES, {"translate": 2, "filter": 2}).splits == []
    assert schedule(STAGES, {"translate": 2, "read": 2}).splits == []


def test_a_gpu_is_paid_by_its_share_and_a_cpu_at_least_as_one():
    assert cost_of(STAGES, {"gpu": 2}).value == pytest.approx(2 * (12 + 4 * 0.5))
    assert cost_of(STAGES, {"cpu": 0.1}).value == pytest.approx(0.1 * 3.1)
    assert cost_of([stage("p", "s", 2, cpus=4)], {"cpu": 0.1}).value == pytest.approx(0.8)


def test_workers_are_paid_from_the_beginning_of_their_pass_to_its_end():
    workers = {"translate": 8, "mask": 4}
    found = schedule(STAGES, workers, {"gpu": 2})
    assert found.cost.value == pytest.approx(2 * 1.5 * (8 + 4 * 0.5))
    assert found.cost.value > cost_of(STAGES, {"gpu": 2}).value
    # A stage that holds little of a CPU pays for the whole one while it works.
    assert schedule(STAGES, workers, {"cpu": 0.1}).cost.value == pytest.approx(0.1 * (3 + 0.1))
    assert schedule(STAGES, workers).cost is None


def test_while_models_load_all_workers_of_the_pass_are_paid():
    stages = [replace(STAGES[2], loading=1800.0), replace(STAGES[3], loading=3600.0)]
    found = schedule(stages, {"translate": 8, "mask": 4}, {"gpu": 2})
    assert found.hours.value == pytest.approx(1 + 1.5)
    assert found.cost.value == pytest.approx(2 * 2.5 * (8 + 4 * 0.5))


def test_what_is_typed_is_understood():
    assert (
        parse_prices(["gpu=2.50/h,cpu=0.04/h"]) == parse_prices(["gpu=2.5", "cpu=.04/h"]) == {"gpu": 2.5, "cpu": 0.04}
    )
    known = [stage.name for stage in STAGES]
    assert parse_workers(["translate=8,mask=4"], known) == parse_workers(["mask=4", "translate=8"], known)


@pytest.mark.parametrize("price", ["gpu", "gpu=", "gpu=cheap/h", "tpu=2/h", "gpu=-1/h", "gpu=2/day", "gpu=nan/h"])
def test_a_wrong_price_is_named(price):
    with pytest.raises(ConfigError, match=r"--price .*for example gpu=2.50/h"):
        parse_prices([price])


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ("translat=8", "did you mean 'translate'?"),
        ("gpu=8", "choose from filter, read, translate, mask"),
        ("mask=0", "a stage and a number"),
        ("mask", "a stage and a number"),
        ("mask=2.5", "a stage and a number"),
    ],
)
def test_wrong_workers_are_named(workers, message):
    with pytest.raises(ConfigError) as error:
        parse_workers([workers], [stage.name for stage in STAGES])
    assert message in str(error.value)
