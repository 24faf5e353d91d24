"""A door to the S3 server of the tests that counts who comes through, and can leave one standing in it."""

from __future__ import annotations

import http.client
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class S3Proxy:
    """Hands on requests as they are, signatures included. `fetched` are the keys of the objects that were read.

    With `stall_at`, the answer for an object whose key ends so is broken off in the middle: `stalled` tells when.
    """

    def __init__(self, endpoint: str) -> None:
        self._behind = urlsplit(endpoint).netloc
        self.fetched: list[str] = []
        self.stall_at: str | None = None
        self.stalled = threading.Event()
        self._let_go = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> S3Proxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                proxy._hand_on(self)

            def do_GET(self) -> None:
                proxy._hand_on(self)

        return Handler

    def _hand_on(self, request: BaseHTTPRequestHandler) -> None:
        connection = http.client.HTTPConnection(self._behind)
        connection.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        key = urlsplit(request.path).path.lstrip("/").partition("/")[2]
        if request.command == "GET" and key:
            self.fetched.append(key)
        request.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "date", "server", "connection"):
                request.send_header(name, value)
        length = answer.getheader("Content-Length") if request.command == "HEAD" else len(body)
        request.send_header("Content-Length", str(length or 0))
        request.end_headers()
        if self.stall_at and request.command == "GET" and key.endswith(self.stall_at):
            request.wfile.write(body[: len(body) // 2])
            self.stalled.set()
            self._let_go.wait()
            request.close_connection = True
            return
        with suppress(BrokenPipeError):
            request.wfile.write(body)
