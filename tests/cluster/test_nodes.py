"""Several Ray nodes on this machine: which of them work, and what becomes of a run when they come and go."""

import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
import ray
from ray._private.state import actors
from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import DRAIN_NODE_REASON_PREEMPTION
from ray.exceptions import RayActorError

from corpusgen.engine import Pass, RunSettings, Stage
from corpusgen.engine.cluster import died_with_its_node
from corpusgen.engine.passes import run_pass
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.store import CommittedTable, Store
from tests.corpusgen.engine.helpers import assert_untouched_by_the_fault, assert_whole, committed_files, run_demo
from tests.testing.demo_pass import slices
from tests.testing.faults import POINTS, faulty_store
from tests.testing.ray_nodes import QUICK_TO_NOTICE, Killer, ray_nodes, replace

pytestmark = pytest.mark.slow
WITH_GPU = {"num_cpus": 6, "num_gpus": 1}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes for all tests of this module. One has a GPU, or so it says."""
    with ray_nodes(1, QUICK_TO_NOTICE, num_cpus=6) as cluster:
        cluster.add_node(**WITH_GPU)
        yield cluster


@contextmanager
def more(cluster, count, **resources):
    """Some more nodes for the length of the context; at its end there is one of each kind again."""
    try:
        yield [cluster.add_node(**resources) for _ in range(count)]
    finally:
        for gpus in (0, 1):
            for node in [node for node in cluster.worker_nodes if node._ray_params.num_gpus == gpus][1:]:
                cluster.remove_node(node)


def is_up(actor):
    return actor["State"] == "ALIVE"


class Watcher:
    """A progress display that keeps the tally, and the most workers that each stage ever had."""

    def __init__(self):
        self.workers = {}

    def update(self, tally, final=False):
        self.tally = tally
        for stage in tally.stages:
            self.workers[stage.count.name] = max(stage.workers, self.workers.get(stage.count.name, 0))


class When(threading.Thread):
    """Does something as soon as so many units of the demonstration pass are committed."""

    def __init__(self, root, units, action):
        super().__init__(daemon=True)
        self._store = Store.at(str(root)).pass_store("demo")
        self._units = units
        self._action = action
        self.start()

    def run(self):
        while len(self._store.committed()) < self._units:
            time.sleep(0.05)
        self._action()


@dataclass
class OnCpu(Stage):
    """Adds the id of the node."""

    name: ClassVar[str] = "on_cpu"
    needs: ClassVar[tuple[str, ...]] = ("start",)
    adds: ClassVar[tuple[str, ...]] = ("cpu_node",)

    def process(self, rows):
        time.sleep(0.05)  # long enough for others to have their share
        return rows.append_column(self.adds[0], pa.array([ray.get_runtime_context().get_node_id()] * rows.num_rows))


@dataclass
class OnGpu(OnCpu):
    name: ClassVar[str] = "on_gpu"
    adds: ClassVar[tuple[str, ...]] = ("gpu_node",)


def test_a_stage_that_asks_for_a_gpu_runs_only_on_nodes_that_offer_one(cluster, tmp_path):
    settings = RunSettings(
        workers={
            "on_cpu": {"min_workers": 4, "max_workers": 4},
            "on_gpu": {"min_workers": 2, "max_workers": 2, "gpus": 0.5},
        }
    )
    store = Store.at(str(tmp_path / "store"))
    tables = {"rows": pa.schema([("start", pa.int64()), ("cpu_node", pa.string()), ("gpu_node", pa.string())])}
    pass_ = Pass("demo", [OnCpu(), OnGpu()], slices(80, 1), tables)
    run_pass(pass_, store.pass_store("demo"), RayExecutor(settings), settings)
    rows = CommittedTable(store, "demo", "rows").to_table()
    with_gpu = {node["NodeID"] for node in ray.nodes() if node["Alive"] and "GPU" in node["Resources"]}
    assert set(rows["gpu_node"].to_pylist()) == with_gpu
    assert set(rows["cpu_node"].to_pylist()) - with_gpu


@pytest.mark.parametrize("point", POINTS)
def test_a_node_that_is_killed_costs_only_what_it_was_doing(cluster, undisturbed, tmp_path, point):
    root, flag, watcher = tmp_path / "store", tmp_path / "store.fired", Watcher()

    def kill_the_node_that_reached_the_point():
        while not flag.exists() or not flag.read_text():
            time.sleep(0.05)
        (node,) = [node for node in cluster.worker_nodes if node.node_id == flag.read_text()]
        replace(cluster, node)

    killer = threading.Thread(target=kill_the_node_that_reached_the_point)
    killer.start()
    run_demo(faulty_store(root, point, victim=0), RayExecutor(progress=watcher), workers=2)
    killer.join()
    assert_untouched_by_the_fault(root, undisturbed)
    # No stage did more than all units once: what was done elsewhere, or here before, was not done again.
    assert all(stage.units <= 12 for stage in watcher.tally.stages)
    assert sum(stage.deaths for stage in watcher.tally.stages) > 0


def test_a_node_that_comes_in_the_middle_of_a_run_is_used(cluster, tmp_path):
    used = tmp_path / "used"

    class WaitingForTwo(Watcher):
        def update(self, tally, final=False):
            super().update(tally, final)
            if self.workers["spell"] == 2:
                used.touch()

    watcher = WaitingForTwo()
    settings = RunSettings(scale_up_seconds=0.5, workers={"spell": {"gpus": 1}})
    slow = {"units": 400, "numbers_each": 2, "seconds": 0.5, "slow_until": str(used)}  # until the new node is used
    with more(cluster, 0):
        coming = When(tmp_path / "store", 2, lambda: cluster.add_node(**WITH_GPU))
        run_demo(tmp_path / "store", RayExecutor(settings, watcher), settings, workers=None, **slow)
        coming.join()
    assert watcher.workers["spell"] == 2
    assert_whole(tmp_path / "store")


def test_a_node_that_is_taken_away_with_notice_finishes_what_it_has(cluster, undisturbed, tmp_path):
    """As spot instances are: first a warning, some seconds later the end."""
    watcher = Watcher()
    settings = RunSettings(workers={"spell": {"gpus": 1, "max_workers": 2, "min_workers": 2}})
    with more(cluster, 1, **WITH_GPU) as (node,):

        def take_away():
            while node.node_id not in {actor["Address"]["NodeID"] for actor in actors().values() if is_up(actor)}:
                time.sleep(0.05)
            deadline = int(time.time() + 9)  # time for the two units that a worker may have
            GcsClient(address=cluster.address).drain_node(
                node.node_id, DRAIN_NODE_REASON_PREEMPTION, "taken away", deadline * 1000
            )
            time.sleep(deadline - time.time())
            cluster.remove_node(node, allow_graceful=False)

        taken = When(tmp_path / "store", 2, take_away)
        run_demo(tmp_path / "store", RayExecutor(settings, watcher), settings, seconds=2)
        taken.join(timeout=60)
        assert not taken.is_alive(), "the node was never taken away"
    assert watcher.workers["spell"] == 2
    assert sum(stage.deaths + stage.retries for stage in watcher.tally.stages) == 0
    assert_whole(tmp_path / "store")
    assert committed_files(tmp_path / "store") == committed_files(undisturbed)


def test_an_actor_that_has_never_answered_is_known_to_have_died_with_its_node(cluster):
    @ray.remote(num_cpus=1, resources={"doomed": 1}, max_restarts=0)
    class Starting:
        def __init__(self, started):
            started.touch()
            time.sleep(600)

        def ready(self):
            pass

    with tempfile.TemporaryDirectory() as folder:
        started = Path(folder) / "started"
        node = cluster.add_node(num_cpus=1, resources={"doomed": 1})
        answer = Starting.remote(started).ready.remote()
        while not started.exists():
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)
        with pytest.raises(RayActorError) as caught:
            ray.get(answer, timeout=60)
    assert died_with_its_node(caught.value, None)


def test_workers_and_nodes_may_die_all_the_time(cluster, tmp_path):
    """Four nodes; rows so large that they wait between stages where they were made, and are lost with the node."""
    run_demo(tmp_path / "loop", units=120, ballast=10_000)
    watcher, enough, victims = Watcher(), tmp_path / "enough", []

    def count(victim):
        victims.append(victim)
        if len(victims) == 5:
            enough.touch()

    with more(cluster, 2, num_cpus=6), Killer(cluster, seconds=3, say=count):
        settings = {"units": 120, "workers": 4, "ballast": 10_000, "seconds": 1, "slow_until": str(enough)}
        run_demo(tmp_path / "store", RayExecutor(progress=watcher), **settings)
    assert enough.exists()
    assert sum(stage.deaths for stage in watcher.tally.stages) > 0
    assert_whole(tmp_path / "store")
    assert committed_files(tmp_path / "store") == committed_files(tmp_path / "loop")
