"""The lines of a check: a colour, what was checked, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from corpusgen.errors import CorpusgenError
from corpusgen.io.units import amount as amount  # re-exported for the checks, which all write findings

Status = Literal["green", "yellow", "red", "grey"]
_STATUS = 6


@dataclass(frozen=True)
class Finding:
    """A finding. Green is fine, yellow may be costly, red cannot work, grey was not checked or is not needed."""

    status: Status
    what: str
    finding: str
    remedy: str = ""

    def text(self) -> str:
        """Return the text after the status, with the remedy on its own line."""
        finding = f"{self.finding}\n→ {self.remedy}" if self.remedy else self.finding
        return f" {self.what:24} " + finding.replace("\n", "\n" + " " * (_STATUS + 26))

    def status_word(self) -> str:
        """Return the status, padded to the longest one."""
        return f"{self.status:{_STATUS}}"


def reported(what: str, check: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the lines of a check; turn an error into a red line, since its message says what to do."""
    try:
        yield from check
    except CorpusgenError as error:
        yield Finding("red", what, str(error))
