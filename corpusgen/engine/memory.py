"""A helper that returns freed memory to the system, so that a worker does not grow with each unit."""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress

_SECONDS = 10.0  # each trim takes a few milliseconds


class FreedMemory:
    """Freed memory that the C library keeps in ever smaller pieces: a masked LM worker grew by a quarter in an hour."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def give_back(self) -> None:
        """Return freed memory after a unit; do nothing if the last call was recent, or without glibc."""
        now = time.monotonic()
        if now - self._last >= self._seconds:
            self._last = now
            with suppress(AttributeError, OSError):  # a C library other than glibc
                ctypes.CDLL(None).malloc_trim(0)
