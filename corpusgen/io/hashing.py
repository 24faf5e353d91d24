"""Functions that derive short names from content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt


def content_hash(value: Any) -> str:
    """Return a short name for a JSON-able value: the same for equal values, on any machine and in any process."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:20]


def short_hash(text: str) -> str:
    """Return a name for a file or folder of the cache."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def seeded_hashes(values: Iterable[Any], seed: int, purpose: bytes) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash per value, the same on every machine and in every process."""
    salt = seed.to_bytes(16, "little", signed=True)
    digests = (hashlib.blake2b(str(v).encode(), digest_size=8, salt=salt, person=purpose).digest() for v in values)
    return np.frombuffer(b"".join(digests), "<u8")


def mixed(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Apply the last step of splitmix64: sums of several keys become hashes without a trace of their parts."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
