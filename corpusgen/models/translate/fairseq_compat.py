"""Run fairseq 0.12.2, its last release, on current Python and torch without editing it.

What has changed since it was written, and two things that it should not do:

1. Python 3.11 refuses a dataclass field whose default is an instance of an unhashable class, as fairseq's nested
   configurations are. While fairseq is imported, its own dataclasses are made hashable.
2. torch loads only weights from a checkpoint, unless told which other classes are harmless. A fairseq
   checkpoint also holds its settings in an `argparse.Namespace`; that class is allowed, and safe loading stays on.
3. The fast path of encoder layers calls torch in a way that no longer works. It is switched off.
4. It requires versions of packages that no longer install: hence `pip install --no-deps`.
5. Importing it configures the logging of the whole process. A handler is added meanwhile, which makes
   `logging.basicConfig` do nothing.
6. It calls `eval` on settings that it finds in checkpoints, which could therefore run any code. In its modules `eval`
   is made to accept literals only: enough for transformers, but not for its early convolutional models.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from corpusgen.errors import StageError

BEWARE = (
    "fairseq checkpoints are pickles, and fairseq was not designed for untrusted files. Only weights and settings are "
    "read from them here; even so, use only files that you would run as a program. A model converted with `corpusgen "
    "convert-translator` contains only data: convert once, on a machine with nothing to lose, and use the result"
)

INSTALL = "pip install 'wicdistil[fairseq]' and then pip install --no-deps fairseq==0.12.2"

log = logging.getLogger(__name__)


def import_fairseq() -> ModuleType:
    """Import the package, ready to load checkpoints."""
    import torch

    torch.serialization.add_safe_globals([argparse.Namespace])
    try:
        with _hashable_dataclasses("fairseq"), _logging_left_alone():
            import fairseq
    except ImportError as missing:
        raise StageError(f"backend: fairseq needs fairseq ({missing}): {INSTALL}") from missing
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fairseq":
            vars(module)["eval"] = ast.literal_eval
    return fairseq  # type: ignore[no-any-return]


def without_fast_path(model: Any) -> Any:
    """Return the same model with the fast path of its encoder switched off."""
    for layer in getattr(model.encoder, "layers", ()):
        layer.can_use_fastpath = False
    return model


@contextmanager
def checkpoint_errors_explained(checkpoint: Path) -> Iterator[None]:
    """Turn whatever fails in the block into a StageError that says what a checkpoint should be like.

    Also log a warning about the risk of loading checkpoints.
    """
    log.warning("%s: %s", checkpoint, BEWARE)
    try:
        with warnings.catch_warnings():  # from Hydra, about the way in which fairseq uses it
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        if refused := re.search(r"GLOBAL (\S+)", str(error)):
            raise StageError(
                f"{checkpoint}: refused, because it contains {refused[1]}, which is neither weights nor settings. If "
                "you trust its origin, save it again without that, which RUNS ANY CODE IN THE FILE: state = "
                "torch.load(file, weights_only=False); state['extra_state'] = {}; torch.save(state, file)"
            ) from error
        raise StageError(
            f"fairseq cannot load {checkpoint}: {error}; it must be a checkpoint of a translation model, with its "
            "dictionaries dict.<language>.txt beside it; set source and target if the checkpoint does not name them"
        ) from error


@contextmanager
def _hashable_dataclasses(package: str) -> Iterator[None]:
    """Give dataclasses that a package defines within the block a hash, whatever options they set."""
    plain: Callable[..., Any] = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        def decorate(cls: type) -> Any:
            hashable = {"unsafe_hash": True} if cls.__module__.partition(".")[0] == package else {}
            return plain(cls, **{**options, **hashable})

        return decorate if cls is None else decorate(cls)

    dataclasses.dataclass = dataclass
    try:
        yield
    finally:
        dataclasses.dataclass = plain


@contextmanager
def _logging_left_alone() -> Iterator[None]:
    handler = logging.NullHandler()
    logging.root.addHandler(handler)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
