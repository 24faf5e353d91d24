"""A time limit per record, so that a text crafted to take hours affects no other record.

Our own patterns take time in proportion to the length of any text, and libraries get only input that they can handle in
such time. The limit is for cases that nobody has thought of.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar, TypeVarTuple

SECONDS = float(os.environ.get("CORPUSGEN_RECORD_SECONDS", "60"))
"""CPU seconds for one record: some hundred times what the longest readable record takes on a slow machine, so that no
record is given up on one machine and kept on another. Tests shorten it with the variable."""
_LOOKS = 4  # checks of the clock within the limit

Arguments = TypeVarTuple("Arguments")
Made = TypeVar("Made")


class TookTooLong(Exception):  # noqa: N818 - names what happened, not a fault of the program
    """The exception raised when a record takes longer than the limit."""


class TimeLimit:
    """A context in which a record that takes longer than the limit is given up.

    `run` does the work of one record. Where a call would cost too much, the loop itself sets the current record:

        with TimeLimit() as limit:
            for number, text in enumerate(texts):
                try:
                    limit.record = number
                    ...
                    limit.record = None
                except TookTooLong as error:
                    ...

    A timer regularly checks the clock and the record. CPU time is what counts: a machine that sleeps or is busy with
    other work is not the record's fault. Signals reach only the main thread; in other threads there is no limit. The
    previous handler and timer are restored at the end, the timer with the time it has left, so limits can be nested.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.record: int | None = None
        """The number of the current record; None between records, when nothing is interrupted."""
        self._seconds = SECONDS if seconds is None else seconds
        self._runs = 0
        self._seen: int | None = None  # the current record at the last check
        self._since = 0.0  # CPU time when it was first seen
        self._previous: tuple[Any, tuple[float, float], float] | None = None

    def __enter__(self) -> TimeLimit:
        if threading.current_thread() is threading.main_thread():
            handler = signal.signal(signal.SIGALRM, self._look)
            signal.siginterrupt(signal.SIGALRM, False)  # so that file reads in libraries are not interrupted
            interval = self._seconds / _LOOKS
            self._previous = (handler, signal.setitimer(signal.ITIMER_REAL, interval, interval), time.monotonic())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous is None:
            return
        handler, (left, interval), began = self._previous
        signal.setitimer(signal.ITIMER_REAL, 0)
        # A handler that was not installed by Python cannot be restored by it.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 1e-3), interval)
        self._previous = None

    def run(self, work: Callable[[*Arguments], Made], *arguments: *Arguments) -> Made:
        """Do the work of one record; raise TookTooLong if it takes longer than the limit."""
        self._runs += 1
        self.record = self._runs
        try:
            return work(*arguments)
        finally:
            self.record = None

    def _look(self, number: int, frame: FrameType | None) -> None:
        now = time.thread_time()
        if self.record is None or self.record != self._seen:
            self._seen, self._since = self.record, now
        elif now - self._since > self._seconds:
            self._since = now  # a library that swallows the exception gets the same time again
            raise TookTooLong(f"took longer than {self._seconds:g} s")
