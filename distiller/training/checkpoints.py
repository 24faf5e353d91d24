"""Checkpoints as bytes: torch's own format after a line with its hash, so that no damaged one is loaded."""

from __future__ import annotations

import io
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch

from corpusgen.errors import StoreError

_MAGIC = b"wicdistil checkpoint, sha256 "
_ARCHIVE = b"PK\x03\x04"  # the start of torch's format, and of checkpoints written before there were hashes
_HEADER_BYTES = len(_MAGIC) + 64 + 1


class DamagedCheckpointError(StoreError):
    """A checkpoint whose bytes are not those that were written."""


def packed(state: Mapping[str, Any]) -> bytes:
    """Pack a state into the bytes of a checkpoint."""
    data = io.BytesIO()
    torch.save(state, data)
    content = data.getbuffer()
    return b"".join([_header(content), content])


def unpacked(data: bytes) -> dict[str, Any]:
    """Unpack the state of a checkpoint; raise DamagedCheckpointError if its bytes are not those that were written.

    A checkpoint of an earlier version has no hash. If it is damaged, torch may raise anything.
    """
    content = memoryview(data)
    if data.startswith(_MAGIC):
        content = content[_HEADER_BYTES:]
        if data[:_HEADER_BYTES] != _header(content):
            raise DamagedCheckpointError("its content no longer matches its hash")
    elif not data.startswith(_ARCHIVE):
        raise DamagedCheckpointError("it is not a checkpoint")
    state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return state


def _header(content: memoryview) -> bytes:
    return _MAGIC + sha256(content).hexdigest().encode() + b"\n"
