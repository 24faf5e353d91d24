"""Files in an S3 bucket, on AWS or any server that honours conditional writes.

boto3 finds the credentials in the environment, the profile or the machine's role. `AWS_ENDPOINT_URL` names another
server. Neither is ever written into the store.
"""

from __future__ import annotations

import functools
import io
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from corpusgen.credentials import holds_credentials
from corpusgen.errors import StoreError, StoreUnavailableError
from corpusgen.extras import missing_extra
from corpusgen.io.files import FileInfo, inside

try:
    import boto3
    import botocore.config
    import botocore.exceptions
    from boto3.s3.transfer import TransferConfig
except ImportError as missing:
    raise StoreError(missing_extra("s3://", "boto3", "s3")) from missing

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

# How long to wait for a server that has answered before: it may be restarting, or the network may be down briefly.
_PATIENCE_SECONDS = float(os.environ.get("CORPUSGEN_S3_PATIENCE_SECONDS", "120"))
_PAUSE_SECONDS = (1.0, 10.0)  # between attempts: first, longest
_REMEDIES = {
    "NoSuchBucket": "no such bucket; create it first",
    "InvalidAccessKeyId": "the access key is unknown; check AWS_ACCESS_KEY_ID or the profile",
    "SignatureDoesNotMatch": "the secret key is wrong; check AWS_SECRET_ACCESS_KEY or the profile",
    "AccessDenied": "access denied; the credentials need read, write, list and delete on this bucket",
    "ExpiredToken": "the session token has expired; renew it and run the same command again",
    "NoCredentials": "no credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role",
    "RequestTimeTooSkewed": "this machine's clock is more than 15 minutes off; set it, preferably with NTP",
    "403": "access denied; check the credentials and the bucket's policy",
    # The answer to HEAD has no body that would say more.
    "400": "the server refused the request; the session token may have expired: renew the credentials",
}
_TRANSIENT = {
    *("InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout", "500", "502", "503", "504"),
    *("ConditionalRequestConflict", "OperationAborted", "409"),  # simultaneous writes: AWS asks for a retry
}
_READERS = 32
_MULTIPART = TransferConfig(multipart_threshold=64 << 20, multipart_chunksize=32 << 20)
_SERVER_SIDE = TransferConfig(multipart_threshold=5 << 30, multipart_chunksize=1 << 30)


def _patient(method: Callable[P, R]) -> Callable[P, R]:
    """Retry while the server is away, and turn errors from boto3 into ones that say what to do."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        files: S3Files = args[0]  # type: ignore[assignment]
        started, pause = time.monotonic(), _PAUSE_SECONDS[0]
        while True:
            try:
                result = method(*args, **kwargs)
            except botocore.exceptions.ClientError as error:
                files.reached = True
                if _code(error) not in _TRANSIENT:
                    raise StoreError(f"{files.url}: {_REMEDIES.get(_code(error), error)}") from error
                problem: Exception = error
            except (botocore.exceptions.ConnectionError, botocore.exceptions.HTTPClientError) as error:
                problem = error
            except botocore.exceptions.NoCredentialsError as error:
                raise StoreError(f"{files.url}: {_REMEDIES['NoCredentials']}") from error
            except botocore.exceptions.BotoCoreError as error:
                raise StoreError(f"{files.url}: {error}") from error
            else:
                files.reached = True
                return result
            if not files.reached or time.monotonic() - started > _PATIENCE_SECONDS:
                raise StoreUnavailableError(f"{files.url}: cannot reach the server ({problem})") from problem
            log.warning("%s: cannot reach the server, trying again in %.0f s (%s)", files.url, pause, problem)
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS[1])

    return call


def _stream(data: bytes | pa.Buffer) -> Any:
    """Return bytes as a file object, without copying them."""
    if isinstance(data, bytes):
        return io.BytesIO(data)
    import pyarrow as pa  # installed, since the caller has a buffer

    return pa.BufferReader(data)


def _code(error: botocore.exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


class S3Files:
    """A prefix in a bucket."""

    def __init__(self, bucket: str, prefix: str, endpoint: str | None) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._endpoint = endpoint
        self.reached = False  # a wrong address fails at once; only a server that has answered before is retried

    @classmethod
    def from_url(cls, url: str) -> S3Files:
        """Create one from `s3://bucket/prefix`, with the endpoint from the environment of this process."""
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        if not bucket:
            raise StoreError(f"{url}: the bucket's name is missing (s3://bucket/prefix)")
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        for address in (url, endpoint or ""):
            if holds_credentials(address):
                raise StoreError(
                    f"{address}: do not put credentials in an address, where anyone can read them; set "
                    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a profile or a role"
                )
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise StoreError(f"AWS_ENDPOINT_URL={endpoint}: must begin with http:// or https://")
        return cls(bucket, prefix.strip("/"), endpoint)

    @property
    def url(self) -> str:
        """Return the root as `s3://bucket/prefix`."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_session", "_client")}

    @functools.cached_property
    def _session(self) -> Any:
        return boto3.session.Session()

    @functools.cached_property
    def _client(self) -> Any:
        return self._session.client(
            "s3",
            endpoint_url=self._endpoint,
            config=botocore.config.Config(connect_timeout=5, read_timeout=60, max_pool_connections=2 * _READERS),
        )

    def _key(self, path: str) -> str:
        return "/".join(step for step in (self._prefix, inside(path)) if step)

    def _below(self, folder: str) -> str:
        """Return the prefix of the keys in a folder."""
        key = self._key(folder).rstrip("/")
        return f"{key}/" if key else ""

    @_patient
    def read(self, path: str) -> bytes:
        """Return all bytes of an object."""
        try:
            data: bytes = self._client.get_object(Bucket=self._bucket, Key=self._key(path))["Body"].read()
        except botocore.exceptions.ClientError as error:
            if _code(error) == "NoSuchKey":
                raise FileNotFoundError(f"{self.url}/{path}") from error
            raise
        return data

    def read_many(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Read many objects at once: the cost of a small one is the round trip."""
        with ThreadPoolExecutor(_READERS) as pool:
            yield from pool.map(self.read, paths)

    @_patient
    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write with one PUT or a multipart upload: an object appears complete or not at all."""
        self._client.upload_fileobj(_stream(data), self._bucket, self._key(path), Config=_MULTIPART)

    def write_blocks(self, path: str, blocks: Iterable[bytes]) -> None:
        """Collect the blocks in a temporary file, because a second attempt needs them again, and upload it."""
        try:
            with tempfile.NamedTemporaryFile() as file:
                file.writelines(blocks)
                file.flush()
                self._upload(path, file.name)
        except OSError as error:
            raise StoreError(
                f"{self.url}/{path}: cannot collect it in {tempfile.gettempdir()} before the upload: "
                f"{error.strerror or error}; choose another folder with TMPDIR"
            ) from error

    @_patient
    def _upload(self, path: str, name: str) -> None:
        with open(name, "rb") as file:
            self._client.upload_fileobj(file, self._bucket, self._key(path), Config=_MULTIPART)

    @_patient
    def create(self, path: str, data: bytes) -> bool:
        """Create with a conditional PUT; the server decides who was first."""
        try:
            self._client.put_object(Bucket=self._bucket, Key=self._key(path), Body=data, IfNoneMatch="*")
        except botocore.exceptions.ClientError as error:
            if _code(error) in ("PreconditionFailed", "412"):
                return False
            raise
        return True

    @_patient
    def copy(self, source: str, target: str) -> None:
        """Let the server copy an object: one PUT up to its limit of 5 GB, else a multipart upload."""
        origin = {"Bucket": self._bucket, "Key": self._key(source)}
        try:
            self._client.copy(origin, self._bucket, self._key(target), Config=_SERVER_SIDE)
        except botocore.exceptions.ClientError as error:
            if _code(error) in ("404", "NoSuchKey"):
                raise FileNotFoundError(f"{self.url}/{source}") from error
            raise

    @_patient
    def exists(self, path: str) -> bool:
        """Return whether an object exists."""
        try:
            self._client.head_object(Bucket=self._bucket, Key=self._key(path))
        except botocore.exceptions.ClientError as error:
            if _code(error) in ("404", "NoSuchKey"):
                return False
            raise
        return True

    @_patient
    def describe(self, path: str) -> tuple[FileInfo, str]:
        """Return an object's size, modification time and ETag, which changes with its bytes."""
        try:
            head = self._client.head_object(Bucket=self._bucket, Key=self._key(path))
        except botocore.exceptions.ClientError as error:
            if _code(error) in ("404", "NoSuchKey"):
                raise FileNotFoundError(f"{self.url}/{path}") from error
            raise
        return FileInfo(path, head["ContentLength"], head["LastModified"].timestamp()), head["ETag"]

    def list(self, folder: str) -> Iterator[FileInfo]:
        """Yield the objects of a folder, sorted by name."""
        for info in self._listed(self._below(folder), Delimiter="/"):
            yield replace(info, path=f"{folder}/{info.path.rpartition('/')[2]}".lstrip("/"))

    def folders(self, folder: str) -> Iterator[str]:
        """Yield the common prefixes of the objects below a folder, sorted by name."""
        for page in self._pages(Prefix=self._below(folder), Delimiter="/"):
            for entry in page.get("CommonPrefixes", []):
                yield entry["Prefix"].rstrip("/").rpartition("/")[2]

    def tree(self) -> Iterator[FileInfo]:
        """Yield all objects below the root at any depth, by name; a root that is an object has an empty path."""
        for info in self._listed(self._prefix):
            path = info.path.removeprefix(self._prefix)
            if not (self._prefix and path) or path.startswith("/"):  # else a neighbour whose name begins with ours
                yield replace(info, path=path.lstrip("/"))

    def _listed(self, prefix: str, **options: str) -> Iterator[FileInfo]:
        """Yield the objects whose keys begin with a prefix, each with its key as its path."""
        for page in self._pages(Prefix=prefix, **options):
            for entry in page.get("Contents", []):
                if not entry["Key"].endswith("/"):  # a folder marker that some servers and consoles leave
                    yield FileInfo(entry["Key"], entry["Size"], entry["LastModified"].timestamp())

    def _pages(self, **options: str) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            page = self._page(**options, **token)
            yield page
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    @_patient
    def _page(self, **options: str) -> dict[str, Any]:
        page: dict[str, Any] = self._client.list_objects_v2(Bucket=self._bucket, **options)
        return page

    @_patient
    def download(self, path: str, target: Path) -> None:
        """Download an object of any size to a local file; the root itself has an empty path."""
        self._client.download_file(self._bucket, self._key(path), str(target), Config=_MULTIPART)

    def list_unfinished(self, folder: str) -> Iterator[FileInfo]:
        """Yield multipart uploads neither completed nor aborted; they cost money and no listing shows them."""
        for upload in self._uploads(folder):
            above, _, name = upload["Key"].rpartition("/")
            if above == self._key(folder).rstrip("/"):
                path = f"{folder}/{name}?uploadId={upload['UploadId']}".lstrip("/")
                yield FileInfo(path, 0, upload["Initiated"].timestamp())

    @_patient
    def _uploads(self, folder: str) -> Sequence[dict[str, Any]]:
        pages = self._client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self._bucket, Prefix=self._below(folder)
        )
        return [upload for page in pages for upload in page.get("Uploads", [])]

    @_patient
    def delete(self, path: str) -> None:
        """Remove an object, or abort an unfinished upload."""
        path, _, upload = path.partition("?uploadId=")
        if not upload:
            self._client.delete_object(Bucket=self._bucket, Key=self._key(path))
            return
        try:
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key(path), UploadId=upload)
        except botocore.exceptions.ClientError as error:
            if _code(error) != "NoSuchUpload":
                raise

    @_patient
    def open(self, path: str) -> pa.NativeFile:
        """Open an object for random reads through pyarrow's S3 client, with the credentials that boto3 found."""
        if not self.exists(path):  # ask boto3 first: its errors are more useful than pyarrow's
            raise FileNotFoundError(f"{self.url}/{path}")
        return self._arrow.open_input_file(f"{self._bucket}/{self._key(path)}")

    @property
    def _arrow(self) -> Any:
        from pyarrow.fs import S3FileSystem

        found = self._session.get_credentials()  # looked up once; the client uses the same ones
        if found is None:
            raise botocore.exceptions.NoCredentialsError
        credentials = found.get_frozen_credentials()
        return S3FileSystem(
            access_key=credentials.access_key,
            secret_key=credentials.secret_key,
            session_token=credentials.token,
            endpoint_override=self._endpoint,
            region=self._client.meta.region_name,
        )
