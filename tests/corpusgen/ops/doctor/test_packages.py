"""What `corpusgen doctor` says of packages: of an extra that names others, what those lack."""

import importlib.metadata
from email.message import Message

import pytest

from corpusgen.ops.doctor.packages import PACKAGE, installed

REQUIRES = [
    "numpy>=1",
    'pyarrow>=1; extra == "store"',
    'no-such-package>=1; extra == "rare"',
    f'{PACKAGE}[rare,store]; extra == "both"',
    f'{PACKAGE}[both]; extra == "all"',
    f'{PACKAGE}[all]; extra == "dev"',
]


@pytest.fixture
def lines(monkeypatch):
    metadata = Message()
    for extra in ("store", "rare", "both", "all", "dev"):
        metadata["Provides-Extra"] = extra
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: REQUIRES)
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: metadata)
    return {line.what: line for line in installed()}


def test_extras_are_reported_with_what_they_name(lines):
    assert lines["packages"].finding == "all 1 required packages"
    assert lines["extra store"].status == "green"
    for extra in ("rare", "both"):
        line = lines[f"extra {extra}"]
        assert (line.status, line.finding) == ("grey", "no-such-package (missing)")
        assert line.remedy == f"if you need it: pip install '{PACKAGE}[{extra}]'"


def test_those_that_only_name_others_have_no_line(lines):
    assert set(lines) == {"packages", "extra store", "extra rare", "extra both"}
