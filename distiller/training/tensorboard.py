"""A writer of the losses for TensorBoard: `tensorboard --logdir RUN/tensorboard`.

The usual writer has its own thread, which dies when the disk is full; the training would then wait for it forever.
"""

from __future__ import annotations

import itertools
import os
import platform
import struct
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from corpusgen.errors import StoreError
from corpusgen.io.files import open_files
from distiller.training.loop import Validation
from distiller.training.run_folder import History


class TensorBoard:
    """One file of events, which are collected and written by `flush`."""

    def __init__(self, output: str, first_step: int) -> None:
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        self._files = open_files(output)
        self._path = f"tensorboard/events.out.tfevents.{time.time():.0f}.{platform.node()}.{os.getpid()}"
        self._records = bytearray()
        self._visible = 0
        self._add(Event(wall_time=time.time(), file_version="brain.Event:2"))
        # This hides what a killed run wrote after the checkpoint that this one resumes from.
        start = SessionLog(status=SessionLog.START)
        self._add(Event(wall_time=time.time(), step=first_step + 1, session_log=start))
        self._written = first_step

    def write(self, history: History, validation: Validation | None) -> None:
        """Collect the new rows of the history."""
        for row in itertools.takewhile(lambda row: row["step"] > self._written, reversed(history.steps)):
            self._scalars("training", row, int(row["step"]))
        self._written = int(history.steps[-1]["step"]) if history.steps else self._written
        if validation:
            self._scalars("held_out", {**asdict(validation), **validation.terms}, validation.step)

    def _scalars(self, group: str, values: Mapping[str, Any], step: int) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        for name, value in values.items():
            if isinstance(value, float):
                self._add(Event(wall_time=time.time(), step=step, summary=scalar(f"{group}/{name}", value)))

    def _add(self, event: Any) -> None:
        from tensorboardX.record_writer import masked_crc32c

        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        for part in (length, data):
            self._records += part + struct.pack("<I", masked_crc32c(part))

    def flush(self) -> None:
        """Write the collected events, so that TensorBoard shows them."""
        if "://" in self._files.url:
            self._files.write(self._path, bytes(self._records))
            return
        path = Path(self._files.url, self._path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:  # append: TensorBoard may have the file open
                file.write(self._records[self._visible :])
        except OSError as error:
            raise StoreError(f"cannot write to {path.parent}: {error.strerror}") from error
        self._visible = len(self._records)
