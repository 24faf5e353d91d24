"""Permissions do not bind root, so that tests of them would prove nothing: root becomes nobody for a while."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534


@contextmanager
def public_folder() -> Iterator[Path]:
    """A new folder that everybody may enter and write to, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@contextmanager
def bound_by_permissions() -> Iterator[None]:
    """Within the block this process is nobody, if it is root. Import before what the block uses."""
    if root := os.geteuid() == 0:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
