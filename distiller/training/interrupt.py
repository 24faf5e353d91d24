"""Ctrl-C in a training: it ends as an interrupted build does, and can be gone on with."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from corpusgen.errors import InterruptedRunError


@contextmanager
def ended_by_ctrl_c(trainer: Any) -> Iterator[None]:
    """Within the block, Ctrl-C ends what the trainer does with an InterruptedRunError.

    Ray Train would handle it by an exit with 0, as if all were done, and leaves its handler in place when it has ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # nobody else may handle signals, Ray does not either
        return
    trainer._register_sigint_handler = lambda controller: None
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "stopped; run the same command again to go on from the last checkpoint", signal.SIGINT
        ) from None
    finally:
        signal.signal(signal.SIGINT, previous)
