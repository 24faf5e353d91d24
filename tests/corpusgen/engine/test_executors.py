"""The executors against each other, on a real Ray."""

import re
import time
import urllib.request

import psutil
import pytest
import ray

from corpusgen.engine import LocalExecutor, Resources, RunSettings
from corpusgen.engine.metrics import LABELS
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.errors import FailureLimitError, StageError
from corpusgen.store import CommittedTable, Store
from tests.corpusgen.engine.helpers import assert_whole, committed_files, run_demo


@pytest.mark.parametrize("workers", [1, 4])
def test_ray_commits_the_same_bytes_as_the_loop(ray_here, undisturbed, tmp_path, workers):
    run_demo(tmp_path / "store", RayExecutor(), workers=workers)
    assert committed_files(tmp_path / "store") == committed_files(undisturbed)
    assert_whole(tmp_path / "store")


def test_quick_units_travel_in_convoys_and_commit_the_same_bytes(ray_here, tmp_path):
    settings = {"units": 400, "numbers_each": 3, "raises": [600]}
    run_demo(tmp_path / "loop", **settings)
    run_demo(tmp_path / "ray", RayExecutor(), **settings)
    assert committed_files(tmp_path / "ray") == committed_files(tmp_path / "loop")


def scrape(store: str) -> dict[tuple[str, ...], float]:
    """What Prometheus would get of a store: values by name, pass, stage and reason, as far as they have them."""
    (node,) = ray.nodes()
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    found = {}
    for line in urllib.request.urlopen(url, timeout=10).read().decode().splitlines():
        if match := re.fullmatch(r"ray_(corpusgen_\w+)\{(.*)\} (\S+)", line):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
            if labels["store"] == store:
                key = (match[1], *(labels[name] for name in LABELS[match[1]] if name != "store"))
                found[key] = float(match[3])
    return found


@pytest.fixture(scope="module")
def wounded(ray_here, tmp_path_factory):
    """Root, totals and metrics of a run in which one row raised and two killed their workers."""
    root = tmp_path_factory.mktemp("wounded") / "store"
    totals = run_demo(root, RayExecutor(), raises=[33], kills=[111, 112], units=6)
    metrics = {}
    for _ in range(100):  # Ray passes them on every second, and forgets gauges that are not set again
        metrics |= scrape(str(root))
        workers = [value for (name, *_), value in metrics.items() if name == "corpusgen_workers"]
        if metrics.get(("corpusgen_committed_units", "demo")) == totals.units and not any(workers):
            break
        time.sleep(0.2)
    return root, totals, metrics


def test_a_row_that_raises_and_a_row_that_kills_are_quarantined_and_all_else_completes(wounded):
    root, totals, _ = wounded
    assert totals.complete
    assert totals.quarantined == 3
    assert_whole(root)
    quarantine = list(Store.at(str(root)).pass_store("demo").read_quarantine())
    assert [entry["record"]["number"] for entry in quarantine] == [33, 111, 112]
    assert [entry["stage"] for entry in quarantine] == ["square"] * 3
    assert "I cannot square 33" in quarantine[0]["error"]
    assert "died" in quarantine[1]["error"]
    numbers = CommittedTable(str(root), "demo", "squares").to_table()["number"].to_pylist()
    assert numbers == [n for n in range(300) if n % 7 and n not in (33, 111, 112)]


def test_a_unit_that_does_not_fit_into_memory_is_done_in_pieces(ray_here, tmp_path):
    totals = run_demo(tmp_path / "store", RayExecutor(), units=2, numbers_each=40, most_rows=12)
    assert totals.complete
    assert totals.quarantined == 0
    numbers = CommittedTable(str(tmp_path / "store"), "demo", "squares").to_table()["number"].to_pylist()
    assert numbers == [n for n in range(80) if n % 7]


def test_a_convoy_with_a_killer_in_it_is_dissolved(ray_here, tmp_path):
    totals = run_demo(tmp_path / "store", RayExecutor(), units=300, numbers_each=2, kills=[401])
    assert totals.complete
    assert totals.quarantined == 1
    assert_whole(tmp_path / "store")


@pytest.mark.parametrize("executor", [LocalExecutor, RayExecutor])
def test_too_many_failures_fail_the_run_and_again_when_it_is_resumed(ray_here, tmp_path, executor):
    settings = RunSettings(failure_limit=0.001)
    for _ in range(2):
        with pytest.raises(FailureLimitError, match="'square' failed on 2 of 600"):
            run_demo(tmp_path / "store", executor(settings), settings, raises=[33, 34])
    assert_whole(tmp_path / "store")


@pytest.mark.parametrize("executor", [LocalExecutor, RayExecutor])
def test_a_stage_that_fails_on_everything_stops_the_run_early(ray_here, tmp_path, executor):
    with pytest.raises(FailureLimitError):
        run_demo(tmp_path / "store", executor(), units=100, raises=list(range(5000)))
    assert len(Store.at(str(tmp_path / "store")).pass_store("demo").committed()) < 50


@pytest.mark.parametrize("executor", [LocalExecutor, RayExecutor])
def test_a_stage_that_cannot_start_is_named(ray_here, tmp_path, executor):
    with pytest.raises(StageError, match=r"cannot set up stage 'spell': RuntimeError: the speller's dictionary"):
        run_demo(tmp_path / "store", executor(), broken=True)


class Watcher:
    """A progress display that remembers the worst."""

    def __init__(self):
        self.bytes = self.units = self.store_bytes = self.driver_bytes = 0
        self.workers = {}

    def update(self, tally, final=False):
        self.bytes = max(self.bytes, tally.bytes_in_flight)
        self.units = max(self.units, tally.units_in_flight)
        self.driver_bytes = max(self.driver_bytes, psutil.Process().memory_info().rss)
        total = ray.cluster_resources()["object_store_memory"]
        self.store_bytes = max(self.store_bytes, total - ray.available_resources().get("object_store_memory", total))
        for stage in tally.stages:
            self.workers.setdefault(stage.count.name, []).append(stage.workers)


def test_a_slow_last_stage_does_not_fill_memory(ray_here, tmp_path):
    """60 units of 4 MB would be 240 MB; four or five units at a time are allowed between the stages."""
    watcher = Watcher()
    before = psutil.Process().memory_info().rss
    settings = RunSettings(max_bytes_in_flight=16 << 20)
    run_demo(tmp_path / "store", RayExecutor(settings, watcher), settings, units=60, ballast=80_000, seconds=0.1)
    assert 8 << 20 < watcher.bytes < 32 << 20
    assert 4 << 20 < watcher.store_bytes < 64 << 20
    assert watcher.driver_bytes - before < 64 << 20


def test_the_number_of_units_in_flight_can_be_set(ray_here, tmp_path):
    watcher = Watcher()
    settings = RunSettings(max_units_in_flight=2)
    run_demo(tmp_path / "store", RayExecutor(settings, watcher), settings, seconds=0.05)
    assert watcher.units == 2


def test_a_pool_grows_at_once_when_units_wait_and_shrinks_when_they_do_not(ray_here, tmp_path):
    watcher = Watcher()
    settings = RunSettings(
        scale_up_seconds=0.5, idle_seconds=0.3, max_units_in_flight=24, workers={"spell": {"max_workers": 4}}
    )
    run_demo(tmp_path / "store", RayExecutor(settings, watcher), settings, resources=Resources(), seconds=0.5, units=30)
    assert max(watcher.workers["spell"]) == 4
    # The first stage has done its part long before the last unit: its worker is given back while others work.
    assert max(watcher.workers["count"]) > 0
    assert watcher.workers["count"][-1] == 0
    assert watcher.workers["spell"][-1] > 0
    assert_whole(tmp_path / "store")


def test_events_tell_of_every_unit_once(ray_here, tmp_path):
    import json

    run_demo(tmp_path / "store", RayExecutor())
    lines = [line for file in (tmp_path / "store/demo/events").iterdir() for line in file.read_text().splitlines()]
    events = [json.loads(line) for line in lines]
    done = [event["unit"] for event in events if event["event"] == "done"]
    assert sorted(done) == sorted(Store.at(str(tmp_path / "store")).pass_store("demo").committed())
    assert [stage["stage"] for stage in events[0]["stages"]] == ["count", "square", "spell"]


def test_metrics_tell_prometheus_what_the_commits_tell(wounded):
    root, totals, found = wounded
    demo = Store.at(str(root)).pass_store("demo")
    expected = {
        ("corpusgen_planned_units", "demo"): len(demo.plan().units),
        ("corpusgen_committed_units", "demo"): len(demo.committed()),
        ("corpusgen_finished_units_total", "demo"): totals.committed,
        ("corpusgen_units_in_flight", "demo"): 0,
        ("corpusgen_in_flight_bytes", "demo"): 0,
        ("corpusgen_quarantined_records_total", "demo", "square"): totals.quarantined,
    }
    for stage in totals.stages.values():
        expected |= {
            ("corpusgen_rows_in_total", "demo", stage.name): stage.rows_in,
            ("corpusgen_rows_out_total", "demo", stage.name): stage.rows_out,
            ("corpusgen_stage_units_total", "demo", stage.name): totals.committed,
            ("corpusgen_workers", "demo", stage.name): 0,
            ("corpusgen_queued_tasks", "demo", stage.name): 0,
            ("corpusgen_queue_age_seconds", "demo", stage.name): 0,
        }
        for reason, rejected in stage.rejected.items():
            expected["corpusgen_rejected_rows_total", "demo", stage.name, reason] = rejected
    assert expected.items() <= found.items()
    assert {name for name, *_ in found} == set(LABELS)
    for stage in totals.stages.values():
        assert found["corpusgen_busy_seconds_total", "demo", stage.name] == pytest.approx(stage.seconds, abs=1e-5)
    assert found["corpusgen_worker_deaths_total", "demo", "square"] >= 5  # three of the unit, two of each row alone
    assert found["corpusgen_retries_total", "demo", "square"] >= 5
    assert found["corpusgen_stage_bytes_total", "demo", "count"] >= 8 * totals.stages["square"].rows_in
    assert ("corpusgen_stage_bytes_total", "demo", "spell") not in found  # the last stage passes nothing on


def test_a_finished_pass_is_not_run_again(ray_here, undisturbed, tmp_path):
    class Untouchable:
        def run(self, *arguments):
            raise AssertionError("nothing was left to do")

    started = time.time()
    assert run_demo(undisturbed, Untouchable()).complete
    commits = (undisturbed / "demo/commits").iterdir()
    assert all(commit.stat().st_mtime < started for commit in commits)
