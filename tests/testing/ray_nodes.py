"""Ray nodes as processes of this machine, and somebody who takes them away."""

import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil
import ray
from ray._common.utils import get_default_ray_temp_dir
from ray._private.node import Node
from ray.cluster_utils import Cluster

# Ray takes a quarter of a minute to be sure that a node is gone without a word. So long no test should take.
QUICK_TO_NOTICE = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}


@contextmanager
def ray_nodes(count: int, ray_settings: dict | None = None, ip: str | None = None, **resources) -> Iterator[Cluster]:
    """A head without work on it and so many nodes, as processes of this machine; this process is connected."""
    folder = tempfile.mkdtemp(prefix="nodes-")  # short: there will be sockets in it
    os.makedirs(get_default_ray_temp_dir(), exist_ok=True)  # where Ray notes the address, whatever its folder is
    head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": folder, "_system_config": ray_settings or {}}
    cluster = Cluster(initialize_head=True, head_node_args=head | ({"node_ip_address": ip} if ip else {}))
    # Only the main thread can see to it that a node ends with this process. The head does, and the others follow it.
    cluster._shutdown_at_exit = False
    try:
        for _ in range(count):
            cluster.add_node(**resources)
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def replace(cluster: Cluster, node: Node, politely: bool = False) -> None:
    """Take a node away and add one like it, as a cloud would."""
    cluster.remove_node(node, allow_graceful=politely)
    cluster.add_node(num_cpus=node._ray_params.num_cpus, num_gpus=node._ray_params.num_gpus)


def stage_workers(cluster: Cluster) -> list[psutil.Process]:
    """The processes in which stages run, on all nodes."""
    found = []
    for node in cluster.worker_nodes:
        with suppress(psutil.NoSuchProcess):
            raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
            found += [one for one in raylet.children() if "".join(one.cmdline()).startswith("ray::StageWorker")]
    return found


class Killer(threading.Thread):
    """Takes a random worker or node away every so many seconds; for a node there comes another."""

    def __init__(self, cluster: Cluster, seconds: float, say: Callable[[str], None] = lambda what: None):
        super().__init__()
        self.killed: list[str] = []
        self._cluster = cluster
        self._seconds = seconds
        self._random = random.Random()
        self._say = say
        self._enough = threading.Event()
        self._failed: BaseException | None = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self._enough.set()
        self.join()
        if self._failed:  # a killer that ended early proves nothing
            raise self._failed

    def run(self):
        try:
            self._kill_until_enough()
        except BaseException as failed:
            self._failed = failed

    def _kill_until_enough(self):
        due = time.monotonic()
        while True:
            due = max(due + self._seconds, time.monotonic())
            if self._enough.wait(due - time.monotonic()):
                return
            self._random.choice([self._kill_a_worker, self._kill_a_node])()

    def _kill_a_worker(self):
        workers = stage_workers(self._cluster)
        if not workers:
            return
        victim = self._random.choice(workers)
        self._note(f"worker {victim.pid}")
        with suppress(psutil.NoSuchProcess):
            victim.kill()

    def _kill_a_node(self):
        node = self._random.choice(sorted(self._cluster.worker_nodes, key=lambda node: node.node_id))
        politely = self._random.random() < 0.5
        self._note(f"node {node.node_id[:8]} by {'SIGTERM' if politely else 'SIGKILL'}")
        replace(self._cluster, node, politely)

    def _note(self, what: str):
        self.killed.append(what)
        self._say(what)
