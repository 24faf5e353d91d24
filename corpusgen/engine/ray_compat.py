"""All uses of private parts of Ray; no other module has any.

Each function says what is private, why it is needed, and what happens if a version of Ray no longer has it: the work
goes on without it. tests/corpusgen/engine/test_ray_compat.py fails for a version of Ray that has moved something.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_GONE = object()

log = logging.getLogger(__name__)


def _private(module: str, name: str) -> Any:
    """Return a private object of Ray, or `_GONE` if there is none."""
    try:
        return getattr(importlib.import_module(module), name, _GONE)
    except ImportError:
        return _GONE


@contextmanager
def loopback_only() -> Iterator[None]:
    """Make a Ray that is started within the block listen on this machine only.

    Private: `ray._private.ray_constants.ENABLE_RAY_CLUSTER`, which is on for Linux and off elsewhere. On Linux, Ray
    listens on all networks, and anyone who reaches its ports can run code here; there is no public way to turn that
    off. Without it: a warning, and Ray listens as it does by default.
    """
    clusters = _private("ray._private.ray_constants", "ENABLE_RAY_CLUSTER")
    if clusters is _GONE:
        log.warning(
            "this version of Ray cannot be restricted to this machine and listens on all networks; use a firewall"
        )
        yield
        return
    constants: Any = importlib.import_module("ray._private.ray_constants")
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = clusters


def autoscaling_status() -> str:
    """Return the last report of the autoscaler, as JSON; an empty string before its first report.

    Private: `ray.experimental.internal_kv._internal_kv_get`, which `ray status` uses. A driver has no other way to
    find out whether a cluster can grow. Without it: an empty string, as for a cluster of which nothing is known.
    """
    get = _private("ray.experimental.internal_kv", "_internal_kv_get")
    report = None if get is _GONE else get("__autoscaling_status")
    return report.decode() if report else ""


def draining_node_ids() -> set[str]:
    """Return the ids of the nodes that will be removed soon, as Ray was told (`ray drain-node`).

    Private: `ray._private.state.state.get_draining_nodes`, which Ray's own libraries use. Workers leave such nodes
    before they are gone. Without it: no ids; units of a node that is removed are done again elsewhere.
    """
    get = getattr(_private("ray._private.state", "state"), "get_draining_nodes", None)
    return set(get()) if get else set()


def names_dead_node(error: Exception) -> bool:
    """Return whether Ray's error says that an actor died because its node did.

    Private: the words of the message. The error has no field for it, and an actor that has never answered is on a node
    that only Ray knows. Without them: such a death counts as a failed start, of which a stage may have few in a row.
    """
    return "because its node has died" in str(error)


def lacks_dashboard() -> bool:
    """Return whether this process runs a node of a Ray without a dashboard.

    Private: `ray._private.worker._global_node`, which is None over ray://. Only the caller of `ray.init` learns the
    dashboard's address, and that may be other code. Without it: False, since Ray has a dashboard by default.
    """
    node = _private("ray._private.worker", "_global_node")
    return node is not None and not getattr(node, "webui_url", True)


def leave_out_cleaner(trainer: Any) -> None:
    """Remove the cleaner of placement groups from a trainer where it cannot work.

    The cleaner asks Ray's dashboard, and a Ray started here has none. It serves jobs that die on a cluster, which lives
    on; a Ray started here ends with its job. Ray Train would wait 12 seconds for its answer after each training.
    Private: `DataParallelTrainer._create_default_callbacks`, the only place that adds the cleaner. Without it: those
    12 seconds.
    """
    usual = getattr(trainer, "_create_default_callbacks", None)
    if usual and lacks_dashboard():
        trainer._create_default_callbacks = lambda: [
            callback for callback in usual() if type(callback).__name__ != "PlacementGroupCleanerCallback"
        ]


def leave_ctrl_c_alone(trainer: Any) -> None:
    """Keep a trainer from handling Ctrl-C.

    Ray Train would exit with 0, as if everything were done, and leave its handler in place afterwards. Private:
    `DataParallelTrainer._register_sigint_handler`, for which there is no setting. Without it: whatever that version of
    Ray does on Ctrl-C; the last checkpoint exists in any case.
    """
    if hasattr(trainer, "_register_sigint_handler"):
        trainer._register_sigint_handler = lambda controller: None
