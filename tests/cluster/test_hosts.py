"""A cluster of hosts with networks of their own: what a host does that cannot be reached."""

import threading
import time

import pytest

from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.store import Store
from tests.cluster.hosts import Network, need_namespaces, wait_for_nodes
from tests.corpusgen.engine.helpers import assert_whole, committed_files, run_demo
from tests.testing.faults import FaultyFiles
from tests.testing.ray_nodes import QUICK_TO_NOTICE, ray_nodes

pytestmark = pytest.mark.slow
CPUS = 4


class HeldFiles(FaultyFiles):
    """Holds the first attempt up between its part and its commit until a file is there, and notes if it committed."""

    def __init__(self, root, flag, note, until=None):
        super().__init__(str(root), "after the part", flag, victim=0)
        self.note = note
        self.until = until or root / "demo/commits" / f"{self.unit}.json"  # somebody else's, then
        self.held = False

    def _strike(self):
        self.held = True
        while not self.until.exists():
            time.sleep(0.05)

    def create(self, path, data):
        created = super().create(path, data)
        if "/commits/" in path and self.unit in path and self.held:
            self.note.write_text("committed" if created else "refused")
        return created


@pytest.fixture(scope="module")
def network():
    """This machine as the head, and two hosts with a node each. They share a disk, as hosts may."""
    need_namespaces()
    with Network(hosts=2) as network, ray_nodes(0, QUICK_TO_NOTICE, ip=network.address) as cluster:
        for host in network.hosts:
            host.start_ray(cluster.address, cluster.head_node.get_temp_dir_path(), CPUS)
        wait_for_nodes(3)
        yield network


@pytest.mark.parametrize("first", ["the others", "the host that is cut off"])
def test_a_host_that_is_cut_off_and_comes_back_does_not_commit_twice(network, undisturbed, tmp_path, first):
    """It goes on with its unit all the while, and reaches its store."""
    root, flag, cut, note = (tmp_path / name for name in ("store", "flag", "cut", "note"))
    files = HeldFiles(root, flag, note, until=cut if first == "the host that is cut off" else None)
    hosts = []

    def cut_the_host_off():
        while not flag.exists() or not flag.read_text():
            time.sleep(0.05)
        hosts.append(network.host_of(flag.read_text()))
        hosts[0].cut()
        cut.touch()

    cutter = threading.Thread(target=cut_the_host_off)
    cutter.start()
    run_demo(Store(files), RayExecutor(), workers=2)  # six workers: more than one host has room for
    cutter.join()
    while not note.exists():
        time.sleep(0.05)
    hosts[0].mend()
    hosts[0].wait_for_the_end_of_ray()  # Ray has written it off, and says so when it comes back
    hosts[0].start_ray_again()
    wait_for_nodes(3)

    attempt = Store.at(str(root)).pass_store("demo").read_commit(files.unit).attempt.rpartition("-")[2]
    assert (note.read_text(), attempt) == (("refused", "2") if first == "the others" else ("committed", "1"))
    assert_whole(root)
    assert committed_files(root) == committed_files(undisturbed)


def test_a_host_that_is_away_for_a_moment_costs_nothing(network, undisturbed, tmp_path):
    root = tmp_path / "store"

    def blink():
        while len(Store.at(str(root)).pass_store("demo").committed()) < 2:
            time.sleep(0.05)
        network.hosts[0].cut()
        time.sleep(1)
        network.hosts[0].mend()

    blinking = threading.Thread(target=blink)
    blinking.start()
    run_demo(root, RayExecutor(), workers=2, seconds=0.5)
    blinking.join()
    assert_whole(root)
    assert committed_files(root) == committed_files(undisturbed)
