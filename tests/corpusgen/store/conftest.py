"""What tests of stores share."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpusgen.store import Store


@pytest.fixture
def store(root: str) -> Store:
    return Store.at(root)


@pytest.fixture
def local(tmp_path: Path) -> Store:
    """For what does not depend on where the bytes live."""
    return Store.at(str(tmp_path / "store"))
