"""Getting hold of Ray: the cluster that was named, or one of our own on this machine."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import ray
from ray._private import ray_constants
from ray.exceptions import AuthenticationError

from corpusgen.config.run import Resources
from corpusgen.errors import CorpusgenError

# Each stage of a pass keeps a worker, and most of them wait most of the time. On a machine of our own the extra
# logical CPUs are room for those; how many work at once is limited by max_workers, which counts real cores.
_WAITING_WORKERS = 8
_REAL_CORES = "real_cores"  # a resource of our own Ray that nobody asks for: how many of its CPUs are more than a name
REFUSED = (
    "refuses the token, or misses one\nset RAY_AUTH_MODE=token, and the cluster's token as RAY_AUTH_TOKEN or in "
    "~/.ray/auth_token; `ray get-auth-token` on the head prints it"
)
_LOCAL = "local"
_MEMORY_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of a container: the second one in its older form


def address_of(given: str | None) -> str:
    """The cluster that is meant: the one that is given, else `RAY_ADDRESS`, else a Ray of our own on this machine."""
    return given or os.environ.get("RAY_ADDRESS") or _LOCAL


def is_this_machine(given: str | None) -> bool:
    """Whether Ray would be started here, and not a cluster be joined."""
    return address_of(given) == _LOCAL


@contextmanager
def ray_cluster(address: str | None = None) -> Iterator[None]:
    """A connection to Ray for the length of the context.

    The one that exists already in this process, else `address`, else `RAY_ADDRESS` (set inside a Ray job), else a
    Ray started on this machine and stopped at the end.
    """
    # A run deals with every failure of its workers. Ray would print those of results, too, that it does not ask for.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    if ray.is_initialized():
        yield
        return
    address = address_of(address)
    local = address == _LOCAL
    _check_reachable(address)
    try:
        with _loopback_only() if local else nullcontext():
            ray.init(
                address=address,
                num_cpus=available_cores() + _WAITING_WORKERS if local else None,
                resources={_REAL_CORES: available_cores()} if local else None,
                include_dashboard=False if local else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (AuthenticationError, ConnectionError, RuntimeError, ValueError) as error:
        raise _unreachable(address, error) from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Within the block, a Ray that is started listens on this machine only.

    On Linux it would listen on all networks, and whoever reaches its ports may run code here. Other systems have a
    switch for that, which Ray offers no other way to turn.
    """
    clusters = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters


def _check_reachable(address: str) -> None:
    """Ask at the door: Ray itself would knock for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> CorpusgenError:
    if isinstance(error, AuthenticationError) or "RAY_AUTH_TOKEN" in str(error.__cause__):
        return CorpusgenError(f"{address} {REFUSED}")
    return CorpusgenError(
        f"cannot connect to Ray at {address}: {error}\n"
        "check the address (`ray status` there) and, if it asks for one, the token (RAY_AUTH_MODE, RAY_AUTH_TOKEN), or "
        "leave the address out to run on this machine"
    )


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """The bytes of memory this process may use: those of the machine or, if it has one, the limit of its container."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # no such file, or "max"
            sizes.append(int((Path("/sys/fs/cgroup") / name).read_text()))
    return min(sizes)


def this_machine() -> dict[str, float]:
    """What a Ray that is started here has at most, by the names that Ray gives it."""
    import torch

    cpus = available_cores() + _WAITING_WORKERS
    return {"CPU": cpus, "GPU": torch.cuda.device_count(), "memory": available_memory()}


def nodes() -> list[Mapping[str, float]]:
    """What each node of the cluster has in all."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def lacking(request: Resources, nodes: Sequence[Mapping[str, float]]) -> str | None:
    """What a worker asks for, in words, if none of the nodes has as much; None if one has."""
    asked = {"CPU": request.cpus, "GPU": request.gpus, "memory": request.memory}
    if any(all(node.get(name, 0) >= amount for name, amount in asked.items()) for node in nodes):
        return None
    words = (f"{request.cpus:g} CPUs", f"{request.gpus:g} GPUs", f"{request.memory / 1e9:,.1f} GB of memory")
    return ", ".join(word for word, amount in zip(words, asked.values(), strict=True) if amount)


def may_grow() -> bool:
    """Whether nodes may still come: true unless Ray's autoscaler reports that it has no kinds of nodes to add."""
    from ray.experimental.internal_kv import _internal_kv_get

    report = json.loads(_internal_kv_get("__autoscaling_status") or "{}").get("autoscaler_report") or {}
    kinds: Mapping[str, str] = report.get("node_type_mapping") or {}
    # Where nobody scales, each node that was started by hand counts as a kind of its own.
    return not kinds or any(kind != f"node_{node}" for node, kind in kinds.items())


def room_for(cpus: float, gpus: float, placed: int) -> int:
    """How many workers of this size a stage may have in the cluster as it is now; `placed` of them have their place.

    A Ray of our own counts by its real cores. Where nodes may still come, as many again may wait as have their place:
    to an autoscaler those that wait are the demand.
    """
    total = ray.cluster_resources()
    total["CPU"] = total.get(_REAL_CORES, total.get("CPU", 0))
    rooms = [total.get(name, 0) / each for name, each in (("CPU", cpus), ("GPU", gpus)) if each]
    room = max(1, int(min(rooms))) if rooms else 1
    return max(room, 2 * placed) if _REAL_CORES not in total and may_grow() else room


def draining_nodes() -> set[str]:
    """The ids of nodes that will be taken away soon, as Ray was told (`ray drain-node`)."""
    from ray._private.state import state  # what Ray's own libraries ask; there is no public way
    from ray.util.client import ray as client

    return set() if client.is_connected() else set(state.get_draining_nodes())  # over ray:// one cannot ask


def died_with_its_node(error: Exception, node: str | None) -> bool:
    """Whether a worker is dead because its node is; without a known node there are only the words of Ray's error."""
    if node is None:
        return "its node has died" in str(error)
    return node not in {one["NodeID"] for one in ray.nodes() if one["Alive"]}
