"""A cluster that has nodes only while there is work: Ray's autoscaler, and nodes that are processes of this machine."""

import time

import pytest
import yaml

from tests.cluster.head import Head, free_ports
from tests.corpusgen.engine.helpers import assert_whole, committed_files, drive, run_demo

pytestmark = pytest.mark.slow
HEAD_ID = "f" * 51 + "00000"
MOST_NODES = 3


@pytest.fixture
def head(tmp_path):
    (port,) = free_ports(1)
    nothing = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
    config = {
        "cluster_name": "grows",
        "max_workers": MOST_NODES,
        "provider": {
            "type": "fake_multinode",
            "head_node_id": HEAD_ID,
            "gcs_address": f"127.0.0.1:{port}",
            "launch_multiple": True,
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "max_workers": 0, "node_config": {}},
            "worker": {"resources": {"CPU": 2}, "min_workers": 0, "max_workers": MOST_NODES, "node_config": {}},
        },
        "head_node_type": "ray.head.default",
        "idle_timeout_minutes": 0.05,
        "upscaling_speed": 1.0,
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
        "cluster_synced_files": [],
        "rsync_exclude": [],
        "rsync_filter": [],
        **{f"{name}_commands": [] for name in nothing},
    }
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(config))
    environment = {
        "RAY_FAKE_CLUSTER": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD_ID,
    }
    head = Head(port, environment, num_cpus=0, autoscaling_config=tmp_path / "cluster.yaml")
    try:
        head.wait()
        yield head
    finally:
        head.stop()


def test_nodes_come_when_units_wait_and_go_when_they_are_done(head, tmp_path, monkeypatch):
    """No stage says how many workers it may have: each new node makes room for more, until there are no more nodes."""
    run_demo(tmp_path / "loop", units=40)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, head.environment()[name])
    monkeypatch.setenv("RAY_ADDRESS", head.ray_address)
    assert head.nodes() == 1
    driver = drive(tmp_path / "store", "ray", workers=None, units=40, seconds=1.5)
    most = 1
    while driver.poll() is None:
        most = max(most, head.nodes())
        time.sleep(0.2)
    output, _ = driver.communicate()
    assert driver.returncode == 0, output
    assert most == 1 + MOST_NODES
    deadline = time.monotonic() + 90
    while head.nodes() > 1:
        assert time.monotonic() < deadline, "nodes that have nothing to do are still there"
        time.sleep(0.2)
    assert_whole(tmp_path / "store")
    assert committed_files(tmp_path / "store") == committed_files(tmp_path / "loop")
