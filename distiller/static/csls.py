"""Retrieval by cosine and by CSLS (Conneau et al. 2018), in blocks, so that no full table of similarities is needed.

CSLS(x, y) = 2·cos(x, y) − r(x) − r(y), where r is the mean cosine with the ten nearest of the other side: it holds back
words that are near to everything. All rows given here have unit length.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corpusgen.models.vectors.vocabulary import Rows
from distiller.static.maps import Floats

_NEIGHBOURS = 10
_SIMILARITIES_AT_ONCE = 1 << 24


def crowding(rows: Floats, others: Floats) -> Floats:
    """Return r of each row: its mean cosine with the nearest of the others."""
    nearest = min(_NEIGHBOURS, len(others))
    means = [np.partition(cosines, -nearest, axis=1)[:, -nearest:].mean(axis=1) for cosines in _cosines(rows, others)]
    return np.concatenate([np.zeros(0, np.float32), *means])


def best_matches(rows: Floats, others: Floats, crowding_of_others: Floats | None = None) -> Rows:
    """Return the number of the best of the others for each row: by cosine or, with their crowding, by CSLS."""
    penalty = 0 if crowding_of_others is None else crowding_of_others / 2
    best = [(cosines - penalty).argmax(axis=1) for cosines in _cosines(rows, others)]
    return np.concatenate([np.zeros(0, np.int64), *best])


def mutual_matches(rows: Floats, others: Floats) -> Rows:
    """Return the pairs (n, 2) of a row and one of the others that are each other's best by CSLS."""
    forth = best_matches(rows, others, crowding(others, rows))
    back = best_matches(others, rows, crowding(rows, others))
    mutual = np.flatnonzero(back[forth] == np.arange(len(rows)))
    return np.stack([mutual, forth[mutual]], axis=1)


def _cosines(rows: Floats, others: Floats) -> Iterator[Floats]:
    step = max(1, _SIMILARITIES_AT_ONCE // max(1, len(others)))
    for start in range(0, len(rows), step):
        yield rows[start : start + step] @ others.T
