"""Handling of Ctrl-C and SIGTERM: the first Ctrl-C lets running units finish, any other signal abandons them."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from corpusgen.errors import InterruptedRunError

log = logging.getLogger(__name__)


class StopRequest:
    """A context in which signals only set fields, which the executor checks between units.

    After a signal it ends with an InterruptedRunError, even if all units are done, so that nothing else starts.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.abandon = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self.signal and kind is None:
            raise InterruptedRunError("stopped; nothing is lost: run the same command again to resume", self.signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # A scheduler follows SIGTERM with SIGKILL within seconds: there is no time to finish units.
        self.abandon = self.signal is not None or number == signal.SIGTERM
        self.signal = number
        if not self.abandon:
            log.warning("finishing the units in flight; press Ctrl-C again to abandon them")
