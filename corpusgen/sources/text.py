"""Plain text, one paragraph a line, split by byte ranges."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from corpusgen.engine import Result, Stage
from corpusgen.errors import ConfigError

PARAGRAPHS = pa.schema([("source", pa.string()), ("offset", pa.int64()), ("text", pa.string())])


def text_slices(paths: Sequence[str], unit_bytes: int) -> list[list[dict[str, Any]]]:
    """One byte range a unit. Size and time of change are part of its identity: another file, another unit."""
    slices = []
    for path in _expand(paths):
        status = os.stat(path)
        for start in range(0, status.st_size, unit_bytes):
            stop = min(start + unit_bytes, status.st_size)
            identity = {"path": path, "size": status.st_size, "mtime_ns": status.st_mtime_ns}
            slices.append([{**identity, "start": start, "stop": stop}])
    return slices


def _expand(paths: Sequence[str]) -> list[str]:
    files: dict[str, None] = {}
    for pattern in paths:
        found = sorted(path for path in glob.glob(os.path.expanduser(pattern), recursive=True) if os.path.isfile(path))
        if not found:
            raise ConfigError(f"source.paths: {pattern}: no such file")
        files.update(dict.fromkeys(found))
    return list(files)


@dataclass
class ReadText(Stage):
    """A byte range becomes the lines that begin in it. A line that is not UTF-8 goes to quarantine."""

    name: ClassVar[str] = "read"
    needs: ClassVar[tuple[str, ...]] = ("path", "start", "stop")
    adds: ClassVar[tuple[str, ...]] = tuple(PARAGRAPHS.names)
    expands: ClassVar[bool] = True

    def process(self, rows: pa.Table) -> Result:
        """Read the ranges."""
        paragraphs: list[dict[str, Any]] = []
        quarantined: list[dict[str, Any]] = []
        for record in rows.to_pylist():
            with open(record["path"], "rb") as file:
                if record["start"]:  # the line under way here began in the range before
                    file.seek(record["start"] - 1)
                    file.readline()
                while (offset := file.tell()) < record["stop"] and (line := file.readline()):
                    place = {"source": record["path"], "offset": offset}
                    try:
                        text = line.decode().strip()
                    except UnicodeDecodeError as error:
                        quarantined.append(
                            {"error": f"not UTF-8: {error.reason} at byte {error.start}", "record": place}
                        )
                        continue
                    if text:
                        paragraphs.append({**place, "text": text})
        return Result(pa.Table.from_pylist(paragraphs, PARAGRAPHS), None, quarantined)
