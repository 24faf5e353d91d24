"""Errors a user can act on.

The command line prints only the message of a `CorpusgenError`, then exits with its `exit_code`. Any other exception
is a bug and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

from corpusgen.credentials import without_credentials


class CorpusgenError(Exception):
    """An error the user can fix; the message says what is wrong and what to do."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        # A library's error message may quote an address that contains credentials.
        super().__init__(without_credentials(message))


class ConfigError(CorpusgenError):
    """An error in the settings: an unknown key, a wrong type, a missing file."""

    exit_code = 2


class StoreError(CorpusgenError):
    """A failure or refusal of the store that will not go away on a retry."""


class StoreUnavailableError(StoreError):
    """A failure to reach the store; the same call may succeed later."""


class DamagedPartError(StoreError):
    """A committed file whose bytes have changed or are missing; `problem` is the message without the remedy."""

    def __init__(self, message: str, problem: str = "") -> None:
        super().__init__(message)
        self.problem = problem or message


class StageError(CorpusgenError):
    """A failure of a whole stage (its model does not load, a column is missing) that must stop the run."""


class SourceChangedError(CorpusgenError):
    """A source file that has changed since the build was planned, or cannot be opened; the run must stop."""


class FailureLimitError(CorpusgenError):
    """The error raised when too many records end in quarantine."""


class InterruptedRunError(CorpusgenError):
    """The end of a run that the user or the scheduler asked to stop."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Suggest the known name closest to a wrong one or, if none is close, list all known names."""
    close = closest(name, known)
    return f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(dict.fromkeys(known))}"


def closest(name: str, known: Collection[str], most: int = 1, likeness: float = 0.6) -> list[str]:
    """Return at most `most` known names that are at least this much like a wrong one, the closest first."""
    return difflib.get_close_matches(name, known, most, likeness)
