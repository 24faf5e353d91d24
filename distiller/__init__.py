"""Word models from triples or pairs: distil meaning in context out of a frozen masked language model.

>>> from distiller import WordDistiller
>>> model = WordDistiller.from_pretrained("embedded:minilm-wic")    # or "runs/mine"
>>> model.encode(["The bank raised its rates."], spans=[(4, 8)]).shape
(1, 384)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import corpusgen  # noqa: F401 (before all other libraries: it turns off their usage reports)

if TYPE_CHECKING:
    from distiller.inference.word_distiller import WordDistiller

__version__ = "0.1.0"
__all__ = ["WordDistiller", "__version__"]


def __getattr__(name: str) -> Any:
    # Import it only on demand: torch takes seconds, and `distiller --help` must not.
    if name == "WordDistiller":
        from distiller.inference.word_distiller import WordDistiller

        return WordDistiller
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
