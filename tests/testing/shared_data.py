"""Development data beside the project, for tests marked `real`."""

from pathlib import Path

import pytest

from tests.testing import PROJECT

FOLDER = PROJECT.parent / "shared" / "data"


def shared_data(path: str) -> Path:
    """A file or folder of it; skips the test where it is absent."""
    if not (FOLDER / path).exists():
        pytest.skip(f"the development data is absent: {path}")
    return FOLDER / path
