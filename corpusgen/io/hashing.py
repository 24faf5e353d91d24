"""Short names for content: equal values have equal names, on any machine and in any process."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def content_hash(value: Any) -> str:
    """A short name for a JSON-able value: equal values, equal names, on any machine and in any process."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:20]


def short_hash(text: str) -> str:
    """A name for a file or folder of the cache."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
