"""The old import path of `distiller.words.features`, kept for one version."""

import warnings

from distiller.words.features import bytes_per_row

__all__ = ["bytes_per_triple"]

warnings.warn("distiller.features is now distiller.words.features", DeprecationWarning, stacklevel=2)


def bytes_per_triple(layers: int, dimension: int) -> int:
    """Return what the layer states of a triple's three words take."""
    return bytes_per_row(3, layers, dimension)
