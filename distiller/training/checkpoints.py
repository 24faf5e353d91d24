"""Checkpoints as bytes: what torch saves, after a line with its hash, so that none is loaded but as it was written."""

from __future__ import annotations

import io
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch

from corpusgen.errors import StoreError

_MAGIC = b"wicdistil checkpoint, sha256 "
_ARCHIVE = b"PK\x03\x04"  # what torch saves, and all that there was before there were hashes
_HEADER_BYTES = len(_MAGIC) + 64 + 1


class DamagedCheckpointError(StoreError):
    """A checkpoint that is not what was written."""


def packed(state: Mapping[str, Any]) -> bytes:
    """A checkpoint that holds the state."""
    data = io.BytesIO()
    torch.save(state, data)
    content = data.getbuffer()
    return b"".join([_header(content), content])


def unpacked(data: bytes) -> dict[str, Any]:
    """What a checkpoint holds; DamagedCheckpointError if it is not as it was written.

    One of an earlier version has no hash: if that is damaged, torch may raise anything.
    """
    content = memoryview(data)
    if data.startswith(_MAGIC):
        content = content[_HEADER_BYTES:]
        if data[:_HEADER_BYTES] != _header(content):
            raise DamagedCheckpointError("its content has another hash than when it was written")
    elif not data.startswith(_ARCHIVE):
        raise DamagedCheckpointError("it is no checkpoint")
    state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return state


def _header(content: memoryview) -> bytes:
    return _MAGIC + sha256(content).hexdigest().encode() + b"\n"
