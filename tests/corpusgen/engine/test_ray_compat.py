"""What Ray keeps private is where we expect it in the installed version; without it, the work goes on."""

import json
import logging
import socket
import sys
import time

import pytest
import ray
from ray._private import ray_constants, state, worker
from ray.experimental import internal_kv
from ray.train.torch import TorchTrainer
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback

from corpusgen.engine import ray_compat
from corpusgen.engine.cluster import draining_nodes, may_grow


class Node:
    """Of a Ray with a dashboard, or without."""

    def __init__(self, webui_url):
        self.webui_url = webui_url


class Trainer:
    """Adds the cleaner, as the real one does."""

    def _create_default_callbacks(self):
        return [PlacementGroupCleanerCallback(), "another"]


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_hooks_are_there_in_the_installed_version():
    assert ray_constants.ENABLE_RAY_CLUSTER in (True, False)
    assert callable(internal_kv._internal_kv_get)
    assert callable(state.state.get_draining_nodes)
    assert hasattr(worker, "_global_node")
    assert callable(TorchTrainer._create_default_callbacks)
    assert callable(TorchTrainer._register_sigint_handler)


# ------------------------------------------------------------------ listening on this machine only


def test_the_switch_is_off_within_the_block_alone(monkeypatch):
    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", True)
    with ray_compat.loopback_only():
        assert ray_constants.ENABLE_RAY_CLUSTER is False
    assert ray_constants.ENABLE_RAY_CLUSTER is True
    with pytest.raises(KeyError), ray_compat.loopback_only():
        raise KeyError
    assert ray_constants.ENABLE_RAY_CLUSTER is True


def test_without_the_switch_there_is_a_warning(monkeypatch, caplog):
    monkeypatch.delattr(ray_constants, "ENABLE_RAY_CLUSTER")
    with caplog.at_level(logging.WARNING), ray_compat.loopback_only():
        pass
    assert "listens on all networks" in caplog.text
    assert not hasattr(ray_constants, "ENABLE_RAY_CLUSTER")


def test_a_ray_of_our_own_has_a_loopback_address(ray_here):
    assert socket.inet_aton(ray.nodes()[0]["NodeManagerAddress"])[0] == 127


# ------------------------------------------------------------------ what Ray knows about its nodes


def test_ray_reports_as_json_and_has_no_draining_nodes(ray_here):
    wait_until(ray_compat.autoscaling_status)
    assert "load_metrics_report" in json.loads(ray_compat.autoscaling_status())
    assert draining_nodes() == set()


def test_reports_and_ids_are_passed_on(monkeypatch):
    monkeypatch.setattr(internal_kv, "_internal_kv_get", {"__autoscaling_status": b'{"a": 1}'}.get)
    monkeypatch.setattr(state.state, "get_draining_nodes", lambda: {"node": 0})
    assert ray_compat.autoscaling_status() == '{"a": 1}'
    assert ray_compat.draining_node_ids() == {"node"}


def test_without_the_report_a_cluster_may_grow(monkeypatch):
    monkeypatch.delattr(internal_kv, "_internal_kv_get")
    assert ray_compat.autoscaling_status() == ""
    assert may_grow()


def test_without_the_ids_no_node_is_draining(monkeypatch):
    monkeypatch.delattr(state, "state")
    assert draining_nodes() == set()


def test_modules_may_be_gone_as_well(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray._private.state", None)
    monkeypatch.setitem(sys.modules, "ray.experimental.internal_kv", None)
    assert ray_compat.draining_node_ids() == set()
    assert ray_compat.autoscaling_status() == ""


# ------------------------------------------------------------------ Ray Train


@pytest.mark.parametrize(("node", "lacks"), [(None, False), (Node(""), True), (Node("127.0.0.1:8265"), False)])
def test_a_dashboard_is_missed_only_where_there_is_none(monkeypatch, node, lacks):
    monkeypatch.setattr(worker, "_global_node", node)
    assert ray_compat.lacks_dashboard() is lacks


def test_our_own_ray_lacks_one(ray_here):
    assert ray_compat.lacks_dashboard()


def test_the_cleaner_is_left_out_where_there_is_no_dashboard(monkeypatch):
    for url, count in (("", 1), ("127.0.0.1:8265", 2)):
        monkeypatch.setattr(worker, "_global_node", Node(url))
        trainer = Trainer()
        ray_compat.leave_out_cleaner(trainer)
        assert len(trainer._create_default_callbacks()) == count


def test_the_cleaner_stays_if_nobody_knows_of_a_dashboard(monkeypatch):
    monkeypatch.delattr(worker, "_global_node")
    trainer = Trainer()
    ray_compat.leave_out_cleaner(trainer)
    assert len(trainer._create_default_callbacks()) == 2


def test_a_trainer_without_the_hooks_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(worker, "_global_node", Node(""))
    trainer = Node("")
    ray_compat.leave_out_cleaner(trainer)
    ray_compat.leave_ctrl_c_alone(trainer)
    assert vars(trainer) == {"webui_url": ""}


def test_a_trainer_registers_no_handler_of_its_own():
    class Registers:
        def _register_sigint_handler(self, controller):
            raise AssertionError("it must not")

    trainer = Registers()
    ray_compat.leave_ctrl_c_alone(trainer)
    trainer._register_sigint_handler(None)
