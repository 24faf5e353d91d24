"""A limit to the time that one record may take, so that a text made to cost hours costs itself and nothing else.

What our own patterns take grows with the length of a text, whatever it is, and libraries are given only what they can
do in such time. This is for what nobody has thought of.
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
"""Of the processor, for one record: some hundred times what the longest that is read takes on a slow machine, so that
no record is given up on one machine and taken on another. By the variable tests make it short."""
_LOOKS = 4  # at the clock, in that time

Arguments = TypeVarTuple("Arguments")
Made = TypeVar("Made")


class TookTooLong(Exception):  # noqa: N818 - what happened, not what is wrong with the program
    """A record has taken longer than it may."""


class TimeLimit:
    """While the context lasts, a record that takes longer than the limit is given up.

    `run` does the work of one record. Where a call would cost too much, the loop itself says which record it is at:

        with TimeLimit() as limit:
            for number, text in enumerate(texts):
                try:
                    limit.record = number
                    ...
                    limit.record = None
                except TookTooLong as error:
                    ...

    A timer looks at the clock now and then, and at the record. What counts is the time of the processor: a machine
    that sleeps or is busy with other things is not the record's fault. Signals reach the main thread only; in any
    other there is no limit. The handler and the timer that were there before are put back, a timer with the time that
    it has left, so limits may be nested.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.record: int | None = None
        """The number of the record that is under way; None between two, when nothing is interrupted."""
        self._seconds = SECONDS if seconds is None else seconds
        self._runs = 0
        self._seen: int | None = None  # the record that was under way at the last look
        self._since = 0.0  # the clock when it was first seen
        self._previous: tuple[Any, tuple[float, float], float] | None = None

    def __enter__(self) -> TimeLimit:
        if threading.current_thread() is threading.main_thread():
            handler = signal.signal(signal.SIGALRM, self._look)
            signal.siginterrupt(signal.SIGALRM, False)  # a library that reads a file need not notice
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
        # A handler that was not installed by Python cannot be put back by it.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 1e-3), interval)
        self._previous = None

    def run(self, work: Callable[[*Arguments], Made], *arguments: *Arguments) -> Made:
        """Do the work of one record; TookTooLong if it takes longer than the limit."""
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
            self._since = now  # a library that swallows the exception has as long again
            raise TookTooLong(f"took longer than {self._seconds:g} s")
