"""Connections to Ray, on a named cluster or started on this machine, and questions about its nodes."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import ray
from ray.exceptions import AuthenticationError

from corpusgen.config.run import Resources
from corpusgen.engine.ray_compat import autoscaling_status, draining_node_ids, loopback_only, names_dead_node
from corpusgen.errors import CorpusgenError

# Each stage of a pass keeps a worker, and most of them wait most of the time. In a Ray started on this machine, the
# extra logical CPUs make room for those; max_workers, which counts real cores, limits how many work at once.
_WAITING_WORKERS = 8
_REAL_CORES = "real_cores"  # a resource that only a Ray started here has, and no worker requests: its real CPUs
REFUSED = (
    "refuses the token, or there is none\nset RAY_AUTH_MODE=token and put the cluster's token into RAY_AUTH_TOKEN or "
    "~/.ray/auth_token; `ray get-auth-token` on the head node prints it"
)
_LOCAL = "local"
_MEMORY_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of a container; the second is for cgroup v1


def address_of(given: str | None) -> str:
    """Return the cluster to use: the given one, else `RAY_ADDRESS`, else a Ray started on this machine."""
    return given or os.environ.get("RAY_ADDRESS") or _LOCAL


def is_this_machine(given: str | None) -> bool:
    """Return whether Ray would be started here instead of joining a cluster."""
    return address_of(given) == _LOCAL


@contextmanager
def ray_cluster(address: str | None = None) -> Iterator[None]:
    """Stay connected to Ray for the duration of the context.

    This uses the existing connection of the process, else `address`, else `RAY_ADDRESS` (set inside a Ray job), else a
    Ray started on this machine and stopped at the end.
    """
    # A run handles every failure of its workers. Ray would also print failures of results that the run does not fetch.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    if ray.is_initialized():
        yield
        return
    address = address_of(address)
    local = address == _LOCAL
    _check_reachable(address)
    try:
        with loopback_only() if local else nullcontext():
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


def _check_reachable(address: str) -> None:
    """Raise CorpusgenError if the address does not answer: Ray itself would try for minutes."""
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
        "check the address (`ray status` there) and the token, if the cluster needs one (RAY_AUTH_MODE, "
        "RAY_AUTH_TOKEN), or leave out the address to run on this machine"
    )


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int:
    """Return the bytes of memory this process may use: the machine's or, if lower, the container's limit."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # no such file, or "max"
            sizes.append(int((Path("/sys/fs/cgroup") / name).read_text()))
    return min(sizes)


def this_machine() -> dict[str, float]:
    """Return the most resources that a Ray started here has, under Ray's names for them."""
    import torch

    cpus = available_cores() + _WAITING_WORKERS
    return {"CPU": cpus, "GPU": torch.cuda.device_count(), "memory": available_memory()}


def nodes() -> list[Mapping[str, float]]:
    """Return the total resources of each node of the cluster."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def lacking(request: Resources, nodes: Sequence[Mapping[str, float]]) -> str | None:
    """Return what a worker requests, in words, if no node has as much; None if one has."""
    asked = {"CPU": request.cpus, "GPU": request.gpus, "memory": request.memory}
    if any(all(node.get(name, 0) >= amount for name, amount in asked.items()) for node in nodes):
        return None
    words = (f"{request.cpus:g} CPUs", f"{request.gpus:g} GPUs", f"{request.memory / 1e9:,.1f} GB of memory")
    return ", ".join(word for word, amount in zip(words, asked.values(), strict=True) if amount)


def may_grow() -> bool:
    """Return whether the cluster may get more nodes: False only if Ray's autoscaler reports no types to add."""
    report = json.loads(autoscaling_status() or "{}").get("autoscaler_report") or {}
    kinds: Mapping[str, str] = report.get("node_type_mapping") or {}
    # Without an autoscaler, each node that was started by hand counts as a type of its own.
    return not kinds or any(kind != f"node_{node}" for node, kind in kinds.items())


def room_for(cpus: float, gpus: float, placed: int) -> int:
    """Return how many workers of this size a stage may have now, if `placed` of them have a node.

    A Ray started here counts its real cores. If the cluster may grow, as many workers may wait for a node as already
    have one: an autoscaler sees those that wait as demand.
    """
    total = ray.cluster_resources()
    total["CPU"] = total.get(_REAL_CORES, total.get("CPU", 0))
    rooms = [total.get(name, 0) / each for name, each in (("CPU", cpus), ("GPU", gpus)) if each]
    room = max(1, int(min(rooms))) if rooms else 1
    return max(room, 2 * placed) if _REAL_CORES not in total and may_grow() else room


def draining_nodes() -> set[str]:
    """Return the ids of nodes that will be removed soon; none over ray://, which cannot tell."""
    from ray.util.client import ray as client

    return set() if client.is_connected() else draining_node_ids()


def died_with_its_node(error: Exception, node: str | None) -> bool:
    """Return whether a worker died with its node; if the node is unknown, only the text of Ray's error can tell."""
    if node is None:
        return names_dead_node(error)
    return node not in {one["NodeID"] for one in ray.nodes() if one["Alive"]}
