"""Getting hold of Ray: the cluster that was named, or one of our own on this machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from corpusgen.errors import CorpusgenError

# Each stage of a pass keeps a worker, and most of them wait most of the time. On a machine of our own the extra
# logical CPUs are room for those; how many work at once is limited by max_workers, which counts real cores.
_WAITING_WORKERS = 8


@contextmanager
def ray_cluster(address: str | None = None) -> Iterator[None]:
    """A connection to Ray for the length of the context.

    The one that exists already in this process, else `address`, else `RAY_ADDRESS` (set inside a Ray job), else a
    Ray started on this machine and stopped at the end.
    """
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    local = address == "local"
    _check_reachable(address)
    try:
        ray.init(
            address=address,
            num_cpus=available_cores() + _WAITING_WORKERS if local else None,
            include_dashboard=False if local else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _unreachable(address, error) from error
    try:
        yield
    finally:
        ray.shutdown()


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
    return CorpusgenError(
        f"cannot connect to Ray at {address}: {error}\n"
        "check the address (`ray status` there), or leave it out to run on this machine"
    )


def available_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def room_for(cpus: float, gpus: float) -> int:
    """How many workers of this size the cluster has room for as it is now; on one machine, by its real cores."""
    total = ray.cluster_resources()
    if len(ray.nodes()) == 1:
        total["CPU"] = min(total.get("CPU", 0), available_cores())
    rooms = [total.get(name, 0) / each for name, each in (("CPU", cpus), ("GPU", gpus)) if each]
    return max(1, int(min(rooms))) if rooms else 1
