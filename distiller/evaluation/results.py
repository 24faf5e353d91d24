"""What an evaluation says: scores with intervals, what was left out and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Similarities = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class Encoder(Protocol):
    """What a task asks of a model: several kinds of vectors from one run of the frozen model.

    The kinds are "meaning", "context" and "baseline" (the frozen model's own), or "baseline" alone.
    """

    def words(
        self, texts: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> tuple[dict[str, Vectors], list[str | None]]:
        """By kind, the vectors (n, d) of the word at each text's span; and why a word has none (its vector is zero)."""
        ...

    def sentences(self, texts: Sequence[str]) -> tuple[dict[str, Vectors], list[str | None]]:
        """By kind, the vectors (n, d) of whole texts: means over their pieces; and why a text has none."""
        ...


@dataclass(frozen=True)
class Skipped:
    """An item without a score."""

    item: str
    """How to find it in its file: a line number or an id."""
    reason: str


@dataclass(frozen=True)
class Score:
    """One figure, with its bootstrap interval of 95 %. All are shares or correlations: shown times 100."""

    value: float
    low: float
    high: float
    threshold: float | None = None
    """Of a decision by threshold: the one chosen on the development set."""


@dataclass(frozen=True)
class TaskResult:
    """What one task says of one model."""

    task: str
    """For example "WiC" or "STS 2012"."""
    metric: str
    """accuracy, Spearman, Pearson or uncentred Pearson."""
    items: int
    """Items that were scored."""
    scores: dict[str, Score]
    """By kind of vectors."""
    skipped: list[Skipped] = field(default_factory=list)
    paper: dict[str, float] = field(default_factory=dict)
    """What the paper reports for BERT-large, by kind of vectors, as shares: .684 for 68.4."""
    paper_items: str = ""
    """Which items the paper's figures are of, if not of these."""
    published: dict[str, float] = field(default_factory=dict)
    """What is published of other static vectors, by their name."""
    parts: list[TaskResult] = field(default_factory=list)
    """Scores of sub-corpora."""
    similarities: dict[str, Similarities] = field(default_factory=dict, repr=False)
    """By kind of vectors, what was predicted for each scored item."""
    gold: npt.NDArray[Any] | None = field(default=None, repr=False)
    """What people say of each scored item."""
    places: Places | None = field(default=None, repr=False)
    """Which item each scored one is, whatever was left out: (items, 2), the number of the sub-corpus whose scores are
    averaged, 0 if none are, and the place of the item in it."""
