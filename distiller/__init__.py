"""Word models from triples or pairs: distil meaning in context out of a frozen masked language model.

`WordDistiller` gives vectors of words in their contexts; `StaticVectors` are tables of one vector per word.

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
    from distiller.static.vectors import StaticVectors

__version__ = "0.1.0"
__all__ = ["StaticVectors", "WordDistiller", "__version__"]


def __getattr__(name: str) -> Any:
    # Import them only on demand: torch takes seconds, and neither `distiller --help` nor static vectors need it.
    if name == "WordDistiller":
        from distiller.inference.word_distiller import WordDistiller

        return WordDistiller
    if name == "StaticVectors":
        from distiller.static.vectors import StaticVectors

        return StaticVectors
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
