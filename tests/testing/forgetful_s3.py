"""As much of an S3 server as a store needs to begin: one that need not know conditional writes, as a real one does."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class ForgetfulS3(ThreadingHTTPServer):
    """Keeps objects in memory. Unless it `honours` them, it replaces what is there in spite of If-None-Match."""

    daemon_threads = True

    def __init__(self, honours: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.honours = honours
        self.objects: dict[str, bytes] = {}
        self.conditional = 0
        self.endpoint = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> ForgetfulS3:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ForgetfulS3

    def log_message(self, *_: object) -> None:
        pass

    def key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

    def do_PUT(self) -> None:
        data = self._body()
        conditional = self.headers.get("If-None-Match") == "*"
        self.server.conditional += conditional
        if conditional and self.server.honours and self.key() in self.server.objects:
            self._answer(412, _error("PreconditionFailed"))
        else:
            self.server.objects[self.key()] = data
            self._answer(200)

    def _body(self) -> bytes:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return data
        size, _, rest = data.partition(b"\r\n")  # one chunk is all that boto3 makes of so little
        return rest[: int(size.partition(b";")[0], 16)]

    def do_GET(self) -> None:
        if not self.key():
            self._answer(200, self._listing())
        elif self.key() in self.server.objects:
            self._answer(200, self.server.objects[self.key()])
        else:
            self._answer(404, _error("NoSuchKey"))

    def _listing(self) -> bytes:
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(data)}</Size>"
            "<LastModified>2030-01-01T00:00:00Z</LastModified></Contents>"
            for key, data in sorted(self.server.objects.items())
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode()

    def do_HEAD(self) -> None:
        self._answer(200 if self.key() in self.server.objects else 404)

    def do_DELETE(self) -> None:
        self.server.objects.pop(self.key(), None)
        self._answer(204)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"0"')
        self.end_headers()
        self.wfile.write(body)


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
