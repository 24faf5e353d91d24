"""Functions that derive short names from content."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def content_hash(value: Any) -> str:
    """Return a short name for a JSON-able value: the same for equal values, on any machine and in any process."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:20]


def short_hash(text: str) -> str:
    """Return a name for a file or folder of the cache."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
