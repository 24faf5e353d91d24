"""Errors a user can act on.

The command line prints the message of a `CorpusgenError` and nothing else, then exits with its `exit_code`;
any other exception is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

from corpusgen.credentials import without_credentials


class CorpusgenError(Exception):
    """Something the user can put right; the message says what and how."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        # What a library says of a failure may quote an address with credentials in it.
        super().__init__(without_credentials(message))


class ConfigError(CorpusgenError):
    """The settings are wrong: unknown key, wrong type, missing file."""

    exit_code = 2


class StoreError(CorpusgenError):
    """The store refuses or cannot do what was asked; trying again will not help."""


class StoreUnavailableError(StoreError):
    """The store could not be reached; the same call may succeed later."""


class DamagedPartError(StoreError):
    """A committed file does not have the bytes it was committed with; `problem` says so without the remedy."""

    def __init__(self, message: str, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message


class StageError(CorpusgenError):
    """A stage cannot work at all (its model does not load, a column is missing): the run must stop."""


class SourceChangedError(CorpusgenError):
    """A file of the source is not what it was when the build was planned, or cannot be opened: the run must stop."""


class FailureLimitError(CorpusgenError):
    """Too many records ended in quarantine."""


class InterruptedRunError(CorpusgenError):
    """The user or the scheduler asked the run to stop."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Name the known word that is nearest to a wrong one or, if none is near, all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(dict.fromkeys(known))}"
