"""Several Ray nodes on this machine: one that dies, and too few for all stages at once."""

import threading
import time

import pytest
import ray
from ray.cluster_utils import Cluster

from corpusgen.engine import Resources
from corpusgen.engine.ray_executor import RayExecutor
from tests.engine.faults import POINTS, faulty_store
from tests.engine.helpers import assert_untouched_by_the_fault, assert_whole, committed_files, run_demo

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    """A head without work on it and two worker nodes, as processes of this machine."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=6)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.parametrize("point", POINTS)
def test_a_node_killed(cluster, undisturbed, tmp_path, point):
    root = tmp_path / "store"
    flag = tmp_path / "store.fired"

    def kill_the_node_that_reached_the_point():
        while not flag.exists() or not flag.read_text():
            time.sleep(0.05)
        (node,) = [node for node in cluster.list_all_nodes() if node.node_id == flag.read_text()]
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill_the_node_that_reached_the_point)
    killer.start()
    run_demo(faulty_store(root, point, victim=0), RayExecutor(), workers=2)
    killer.join()
    assert_untouched_by_the_fault(root, undisturbed)


def test_stages_that_do_not_fit_at_once_take_turns(tmp_path):
    """One CPU for three stages of one CPU each: idle workers make room for those that have work."""
    run_demo(tmp_path / "loop", units=3)
    with ray.init(num_cpus=1, address="local", include_dashboard=False, log_to_driver=False):
        run_demo(tmp_path / "store", RayExecutor(), resources=Resources(), units=3)
    assert_whole(tmp_path / "store")
    assert committed_files(tmp_path / "store") == committed_files(tmp_path / "loop")
