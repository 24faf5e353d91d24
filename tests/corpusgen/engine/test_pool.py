"""How many workers a stage gets, and how many threads they have."""

import os

import pytest

from corpusgen.engine import Resources
from corpusgen.engine.pool import Convoy, Pool, Task
from corpusgen.engine.worker import StageWorker
from corpusgen.store import Unit
from tests.testing.demo_pass import Count


def pool_with(tasks: int, resources: Resources, seconds_per_unit: float | None = None) -> Pool:
    """A pool of the demo's first stage with so many tasks that wait, and so far no worker."""
    pool = Pool(Count(), resources, None)
    for _ in range(tasks):
        pool.push(Task(Convoy([Unit("one", [])]), attempt=0))
    if seconds_per_unit:
        pool.units, pool.seconds = 1, seconds_per_unit
    return pool


def test_a_stage_that_fills_a_cpu_asks_for_all_its_workers_at_once():
    assert pool_with(64, Resources(max_workers=40)).missing_workers(0) == 32
    assert pool_with(640, Resources(max_workers=40)).missing_workers(0) == 40


@pytest.mark.parametrize(("seconds", "workers"), [(None, 1), (0.01, 1), (0.5, 7), (100.0, 32)])
def test_a_light_stage_gets_another_worker_only_for_work_that_is_worth_its_start(seconds, workers):
    pool = pool_with(64, Resources(cpus=0.05, max_workers=40), seconds)
    assert pool.missing_workers(0) == workers


@pytest.mark.parametrize(("cpus", "given", "threads"), [(0.05, None, "1"), (3, None, "3"), (3, "2", "2")])
def test_a_worker_has_a_thread_for_each_of_its_cpus_unless_the_user_says_otherwise(monkeypatch, cpus, given, threads):
    monkeypatch.setenv("RAYON_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("RAYON_NUM_THREADS")
    StageWorker(Count(resources=Resources(cpus=cpus)), None)
    assert os.environ["RAYON_NUM_THREADS"] == threads
