"""What a check says: a colour, what was looked at, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from corpusgen.errors import CorpusgenError

Status = Literal["green", "yellow", "red", "grey"]
_STATUS = 6


@dataclass(frozen=True)
class Line:
    """Green is well, yellow may be costly, red cannot work, grey was not looked at or is not needed."""

    status: Status
    what: str
    finding: str
    remedy: str = ""

    def text(self) -> str:
        """As one reads it behind its status: the remedy on a line of its own."""
        finding = f"{self.finding}\n→ {self.remedy}" if self.remedy else self.finding
        return f" {self.what:24} " + finding.replace("\n", "\n" + " " * (_STATUS + 26))

    def status_word(self) -> str:
        """The status, as wide as the longest."""
        return f"{self.status:{_STATUS}}"


def reported(what: str, check: Iterator[Line]) -> Iterator[Line]:
    """The lines of a check; an error that it meets is a red one, since it says itself what to do."""
    try:
        yield from check
    except CorpusgenError as error:
        yield Line("red", what, str(error))


def amount(size: float) -> str:
    """Bytes as one reads them."""
    for unit, limit in (("GB", 1e9), ("MB", 1e6)):
        if size >= limit:
            return f"{size / limit:,.1f} {unit}"
    return f"{size / 1e3:,.0f} kB"
