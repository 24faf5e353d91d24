"""What a process has freed goes back to the system, so that a worker does not grow with the number of its units."""

from __future__ import annotations

import ctypes
import time
from contextlib import suppress

_SECONDS = 10.0  # some milliseconds of work each time


class FreedMemory:
    """The C library keeps freed memory in ever smaller pieces: a worker of a masked LM grew by a quarter in an hour."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._last = time.monotonic()

    def give_back(self) -> None:
        """To be called when a unit is done; does nothing if it was done a moment ago, or cannot be done here."""
        now = time.monotonic()
        if now - self._last >= self._seconds:
            self._last = now
            with suppress(AttributeError, OSError):  # a C library other than glibc
                ctypes.CDLL(None).malloc_trim(0)
