"""Handling of Ctrl-C in a training: it ends as an interrupted build does, and can be resumed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from corpusgen.engine.ray_compat import leave_ctrl_c_alone
from corpusgen.errors import InterruptedRunError


@contextmanager
def ended_by_ctrl_c(trainer: Any) -> Iterator[None]:
    """Raise InterruptedRunError when Ctrl-C interrupts the trainer in the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals, and Ray handles none here either
        return
    leave_ctrl_c_alone(trainer)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "stopped; run the same command again to resume from the last checkpoint", signal.SIGINT
        ) from None
    finally:
        signal.signal(signal.SIGINT, previous)
