"""The results of an evaluation: scores with intervals, and skipped items with reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Similarities = npt.NDArray[np.float64]
ItemIndices = npt.NDArray[np.int64]
Groups = npt.NDArray[np.str_]


class Encoder(Protocol):
    """The interface of a model for tasks: several kinds of vectors from one run of the frozen model.

    The kinds are "meaning", "context" and "baseline" (the frozen model's own), or "baseline" alone.
    """

    def words(
        self, texts: Sequence[str], spans: Sequence[tuple[int, int]]
    ) -> tuple[dict[str, Vectors], list[str | None]]:
        """Return by kind the vectors (n, d) of the word at each text's span, and why a word has none, but zeros."""
        ...

    def sentences(self, texts: Sequence[str]) -> tuple[dict[str, Vectors], list[str | None]]:
        """Return by kind the vectors (n, d) of whole texts, means over their pieces, and why a text has none."""
        ...


@dataclass(frozen=True)
class Skipped:
    """An item without a score."""

    item: str
    """Where it is in the file: a line number or an id."""
    reason: str


@dataclass(frozen=True)
class Score:
    """One figure with its 95 % bootstrap interval. All are shares or correlations, and are shown times 100."""

    value: float
    low: float
    high: float
    threshold: float | None = None
    """The threshold of decisions, chosen on the development set."""


@dataclass(frozen=True)
class TaskResult:
    """The result of one task for one model."""

    task: str
    """For example "WiC" or "STS 2012"."""
    metric: str
    """One of accuracy, AUC, Spearman, Pearson and uncentred Pearson."""
    items: int
    """The number of scored items."""
    scores: dict[str, Score]
    """Scores by kind of vectors."""
    skipped: list[Skipped] = field(default_factory=list)
    by_subwords: int = 0
    """The number of scored items with a word that static vectors know only by its sub-words."""
    second: bool = False
    """Whether it is a second figure of items that another result is about: a set counts once."""
    paper: dict[str, float] = field(default_factory=dict)
    """The paper's scores of BERT-large by kind of vectors, as shares: .684 for 68.4."""
    paper_items: str = ""
    """The items of the paper's figures, if they are not these."""
    published: dict[str, float] = field(default_factory=dict)
    """Published scores of other static vectors, by name."""
    parts: list[TaskResult] = field(default_factory=list)
    """Scores of sub-corpora."""
    similarities: dict[str, Similarities] = field(default_factory=dict, repr=False)
    """The prediction for each scored item, by kind of vectors."""
    gold: npt.NDArray[Any] | None = field(default=None, repr=False)
    """The human rating of each scored item."""
    item_indices: ItemIndices | None = field(default=None, repr=False)
    """The identity of each scored item, which does not depend on skipped ones: (items, 2), the number of its
    sub-corpus, or 0 if there are none to average, and its index in it."""
    groups: Groups | None = field(default=None, repr=False)
    """The group of each scored item; None if all are independent of each other."""

    @property
    def label(self) -> str:
        """Return a name that no other result of an evaluation has."""
        return f"{self.task}, {self.metric}" if self.second else self.task
