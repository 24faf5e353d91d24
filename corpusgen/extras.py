"""Checks for optional packages, and the message for a missing one."""

from __future__ import annotations

import importlib.util

from corpusgen.errors import CorpusgenError

PACKAGE = "wicdistil"
# The modules an extra's commands import whatever the settings are. Its other modules are checked where they are used.
ALWAYS_IMPORTED = {
    "corpus": ("lemminflect", "pyarrow", "rapidfuzz", "snowballstemmer"),
    "train": ("pyarrow", "ray", "tensorboardX"),
    "evaluate": ("lemminflect", "pyarrow", "rapidfuzz", "snowballstemmer"),
    "onnx": ("onnx", "onnxscript", "pyarrow"),
    "parquet": ("pyarrow",),
    "static": ("llvmlite", "numba", "pyarrow"),
}
ALWAYS_IMPORTED["quickstart"] = tuple(
    dict.fromkeys(module for extra in ("corpus", "train", "evaluate") for module in ALWAYS_IMPORTED[extra])
)


class MissingPackageError(CorpusgenError):
    """The error raised when a command needs a package that is not installed."""


def missing_extra(purpose: str, package: str, extra: str) -> str:
    """Return a message that says what needs which package, and the command that installs it."""
    return f"{purpose} needs {package}: pip install '{PACKAGE}[{extra}]'"


def require(purpose: str, *more: str, extra: str) -> None:
    """Raise MissingPackageError if a module that the extra always needs, or one of `more`, is missing.

    The modules are not imported, which could take seconds.
    """
    missing = [module for module in (*more, *ALWAYS_IMPORTED.get(extra, ())) if not is_installed(module)]
    if missing:
        raise MissingPackageError(missing_extra(purpose, ", ".join(missing), extra))


def is_installed(module: str) -> bool:
    """Return whether a module can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # raised by a finder that refuses the module
        return False
    except ValueError:  # already imported, but without a `__spec__`
        return True
