"""Hosts of their own on this machine: network namespaces on a bridge, with Ray in them."""

import os
import secrets
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from typing import Self

import pytest
import ray

from tests.cluster.head import PROGRAMS

_START = "mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs {folder} && exec {ray} start {options}"


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def need_namespaces() -> None:
    """Skip the test where this process may not make hosts."""
    if not shutil.which("ip") or not shutil.which("unshare"):
        pytest.skip("hosts of their own need iproute2 and util-linux (ip, unshare)")
    if os.geteuid():
        pytest.skip("hosts of their own are network namespaces: only root may make them")
    probe = f"probe-{secrets.token_hex(3)}"
    try:
        ip("netns", "add", probe)
        ip("link", "add", probe[:12], "type", "bridge")
        ip("link", "del", probe[:12])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine makes no network namespaces or bridges: {error.stderr.strip()}")
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)


class Host:
    """A namespace with a cable to the bridge, and in it the processes of one Ray node."""

    def __init__(self, bridge: str, address: str, number: int) -> None:
        self.address = f"{address}.{number + 2}"
        self._name = f"{bridge}-{number}"
        self._process: subprocess.Popen | None = None
        ip("netns", "add", self._name)
        ip("link", "add", self._name, "type", "veth", "peer", "name", "eth0", "netns", self._name)
        ip("link", "set", self._name, "master", bridge, "up")
        ip("-n", self._name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self._name, "link", "set", "eth0", "up")
        ip("-n", self._name, "link", "set", "lo", "up")

    def start_ray(self, address: str, folder: str, cpus: int) -> None:
        """A node of the cluster at this address; its folder and its shared memory are its own."""
        options = f"--address={address} --node-ip-address={self.address} --num-cpus={cpus} --block"
        options += " --min-worker-port=0 --max-worker-port=0 --object-store-memory=150000000 --disable-usage-stats"
        self._script = _START.format(folder=folder, ray=PROGRAMS / "ray", options=options)
        self.start_ray_again()

    def start_ray_again(self) -> None:
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", self._name, "unshare", "--mount", "sh", "-c", self._script],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def cut(self) -> None:
        """Pull the cable."""
        ip("link", "set", self._name, "down")

    def mend(self) -> None:
        ip("link", "set", self._name, "up")

    def wait_for_the_end_of_ray(self) -> None:
        self._process.wait(timeout=60)

    def remove(self) -> None:
        for pid in ip("netns", "pids", self._name).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if self._process:
            self._process.wait()
        ip("netns", "del", self._name)


class Network:
    """A bridge with this machine and some hosts on it, for the length of the context."""

    def __init__(self, hosts: int) -> None:
        tag = secrets.token_bytes(2)
        self._bridge = f"wd{tag.hex()}"
        self._network = f"10.{200 + tag[0] % 50}.{tag[1]}"
        self._count = hosts
        self.address = f"{self._network}.1"
        self.hosts: list[Host] = []

    def __enter__(self) -> Self:
        ip("link", "add", self._bridge, "type", "bridge")
        ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")
        self.hosts += [Host(self._bridge, self._network, number) for number in range(self._count)]
        return self

    def __exit__(self, *error: object) -> None:
        for host in self.hosts:
            host.remove()
        ip("link", "del", self._bridge)

    def host_of(self, node: str) -> Host:
        """The host that a Ray node runs on."""
        (address,) = [one["NodeManagerAddress"] for one in ray.nodes() if one["NodeID"] == node]
        (host,) = [host for host in self.hosts if host.address == address]
        return host


def wait_for_nodes(count: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while sum(node["Alive"] for node in ray.nodes()) != count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"there are not {count} nodes after {seconds} s: {ray.nodes()}")
        time.sleep(0.2)
