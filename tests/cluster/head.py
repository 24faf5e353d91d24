"""A Ray head of our own: ports, folder, token and process group that nobody else has."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

PROGRAMS = Path(sys.executable).parent
_MEMORY = 150_000_000  # of the object store: there is next to nothing in it


class Head:
    """`ray start --head` with token authentication, as a process that is ended by its group.

    Never by `ray stop`: that ends every Ray on the machine.
    """

    def __init__(self, port: int | None = None, environment: Mapping[str, str] | None = None, **options: object):
        self.token = secrets.token_hex(16)
        self._port = port
        self._dashboard: int | None = None
        self._environment = environment or {}
        self._options = options
        self.start()

    def start(self) -> None:
        """Begin, or begin anew at the same address: nothing is left of an earlier one."""
        self._folder = tempfile.mkdtemp(prefix="head-")  # short: there will be sockets in it
        port, dashboard, agent, client = free_ports(4)
        port = self._port or port
        dashboard = self._dashboard = self._dashboard or dashboard
        self.ray_address = f"127.0.0.1:{port}"
        self.address = f"http://127.0.0.1:{dashboard}"
        options = {
            "port": port,
            "dashboard-port": dashboard,
            "dashboard-agent-listen-port": agent,
            "ray-client-server-port": client,
            "dashboard-host": "127.0.0.1",
            "node-ip-address": "127.0.0.1",
            "min-worker-port": 0,
            "max-worker-port": 0,
            "num-cpus": 4,
            "object-store-memory": _MEMORY,
            "temp-dir": f"{self._folder}/ray",
            **{name.replace("_", "-"): value for name, value in self._options.items()},
        }
        command = [str(PROGRAMS / "ray"), "start", "--head", "--block", "--disable-usage-stats"]
        with open(f"{self._folder}/output", "w") as output:
            self._process = subprocess.Popen(
                [*command, *(f"--{name}={value}" for name, value in options.items())],
                env=self.environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def environment(self, token: str | None = None) -> dict[str, str]:
        """That of one who knows the token, or believes to."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": token or self.token,
            **self._environment,
        }

    def wait(self, seconds: float = 120) -> None:
        """Until it takes jobs."""
        request = urllib.request.Request(f"{self.address}/api/jobs/", headers={"Authorization": f"Bearer {self.token}"})
        deadline = time.monotonic() + seconds
        while True:
            try:
                urllib.request.urlopen(request, timeout=10).close()
            except (urllib.error.URLError, OSError):
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError(Path(f"{self._folder}/output").read_text()) from None
                time.sleep(0.5)
            else:
                return

    def nodes(self) -> int:
        """How many nodes there are, it too: each is a process here."""
        return sum(Path((process.info["cmdline"] or [""])[0]).name == "raylet" for process in self._ours())

    def stop(self) -> None:
        """End all its processes: its group, then what has left the group. Those are known by its folder."""
        ours = self._ours()
        os.killpg(self._process.pid, signal.SIGKILL)
        for process in psutil.wait_procs(ours, timeout=5)[1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ours(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter(["cmdline", "cwd"]) if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        return any(self._folder in word for word in (*(process.info["cmdline"] or ()), process.info["cwd"] or ""))


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
