"""Benchmarks of static vectors, with one vector per word: word similarity and analogies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from corpusgen.errors import ConfigError
from distiller.evaluation.files import ItemSet, chosen_tasks
from distiller.evaluation.metrics import cosines
from distiller.evaluation.paper import STATIC
from distiller.evaluation.results import Skipped, TaskResult, Vectors
from distiller.evaluation.scoring import Judged, answered, correlated
from distiller.evaluation.static_files import (
    SIMILARITIES,
    Analogy,
    Layout,
    read_google_analogies,
    read_msr_analogies,
    read_msr_questions,
    read_similarities,
    similarity_files,
)

KIND = "static"
"""The only kind of vectors here."""

_GOOGLE, _MSR = "Google analogies", "MSR analogies"
_SCORES_AT_ONCE = 1 << 25  # scores of questions × words in memory


class StaticVectors(Protocol):
    """The interface of static vectors for tasks."""

    @property
    def words(self) -> Sequence[str]:
        """Return the vocabulary, from which answers to analogies are chosen."""
        ...

    @property
    def matrix(self) -> Vectors:
        """Return the vector of each word of the vocabulary, (words, d)."""
        ...

    def lookup(self, words: Sequence[str]) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """Return the vectors (n, d) of any words, and which of the words have one."""
        ...


@dataclass(frozen=True)
class StaticTask:
    """A benchmark of static vectors whose file has been read."""

    name: str
    score: Callable[[StaticVectors], TaskResult]

    def run_static(self, vectors: StaticVectors) -> list[TaskResult]:
        """Score the vectors. A word without a vector as written may have one in lower case."""
        return [self.score(vectors)]


def find_static_tasks(data_dir: str | Path, names: Iterable[str] | None = None) -> list[StaticTask]:
    """Read all or the named benchmarks of static vectors in the folder wordsim/."""
    folder = Path(data_dir) / "wordsim"
    found = dict(_readers(folder))
    known = [*SIMILARITIES, _GOOGLE, _MSR]
    if not found:
        files = [layout.name for layouts in SIMILARITIES.values() for layout in layouts]
        raise ConfigError(
            f"{folder} has no benchmark for static vectors; it should contain some of {', '.join(files)}, "
            f"{', '.join(path.name for path in _analogy_files(folder))}"
        )
    wanted = chosen_tasks(names, known, found, lambda name: f"{folder} has no file for the task {name}")
    return [StaticTask(name, found[name]()) for name in wanted]


_Scorer = Callable[[StaticVectors], TaskResult]


def _readers(folder: Path) -> Iterator[tuple[str, Callable[[], _Scorer]]]:
    """Yield each task that has a file in the folder, with the reader of its first file."""
    for name, (path, layout) in similarity_files(folder).items():
        yield name, partial(_similarity_scorer, name, path, layout)
    google, msr, questions = _analogy_files(folder)
    if google.exists():
        yield _GOOGLE, lambda: partial(_score_analogies, _GOOGLE, *read_google_analogies(google))
    if msr.exists():
        yield _MSR, lambda: partial(_score_analogies, _MSR, *read_msr_analogies(msr))
    elif questions.exists():
        answers = questions.with_suffix(".answers")
        yield _MSR, lambda: partial(_score_analogies, _MSR, *read_msr_questions(questions, answers))


def _analogy_files(folder: Path) -> tuple[Path, Path, Path]:
    return folder / "questions-words.txt", folder / "EN-MSR.txt", folder / "word_relationship.questions"


# ------------------------------------------------------------------ similarity


def _similarity_scorer(name: str, path: Path, layout: Layout) -> _Scorer:
    return partial(_score_similarity, name, read_similarities(path, layout))


def _score_similarity(name: str, items: ItemSet, vectors: StaticVectors) -> TaskResult:
    words = list(dict.fromkeys(word for pair in items.pairs for word in pair.texts))
    matrix, found = _look_up(vectors, words)
    row_of = {word: row for row, word in enumerate(words)}
    rows = np.array([[row_of[word] for word in pair.texts] for pair in items.pairs])  # (pairs, 2)
    names, missing = _named([pair.item for pair in items.pairs], [pair.texts for pair in items.pairs], found[rows])
    gold = np.array([pair.gold for pair in items.pairs])
    similarities = {KIND: cosines(matrix[rows[:, 0]], matrix[rows[:, 1]])}
    result = correlated(name, "Spearman", Judged(names, gold, similarities, missing, items.skipped))
    return replace(result, published=STATIC.get(name, {}))


def _look_up(vectors: StaticVectors, words: Sequence[str]) -> tuple[Vectors, npt.NDArray[np.bool_]]:
    as_written, found = vectors.lookup(words)
    lower, found_lower = vectors.lookup([word.lower() for word in words])
    return np.where(found[:, None], as_written, lower), found | found_lower


def _named(
    items: Sequence[str], words: Sequence[Sequence[str]], found: npt.NDArray[np.bool_]
) -> tuple[list[str], list[str | None]]:
    """Return the items with their words without a vector, and the reason if an item has no score."""
    unknown = [", ".join(compress(of_item, ~there)) for of_item, there in zip(words, found, strict=True)]
    names = [f"{item} ({missing})" if missing else item for item, missing in zip(items, unknown, strict=True)]
    return names, ["a word has no vector" if missing else None for missing in unknown]


# ------------------------------------------------------------------- analogies


def _score_analogies(
    name: str, analogies: Sequence[Analogy], unread: Sequence[Skipped], vectors: StaticVectors
) -> TaskResult:
    row_of = {word: row for row, word in enumerate(vectors.words)}
    rows = np.array([[row_of.get(w, row_of.get(w.lower(), -1)) for w in analogy.words] for analogy in analogies])
    known = (rows >= 0).all(1)
    right = np.zeros(len(analogies))
    right[known] = solve(vectors.matrix, rows[known, :3]) == rows[known, 3]
    names, missing = _named([one.item for one in analogies], [one.words for one in analogies], rows >= 0)

    def judged(kept: Sequence[int], unread: Sequence[Skipped] = ()) -> Judged:
        reasons = [missing[index] for index in kept]
        return Judged([names[index] for index in kept], np.ones(len(kept)), {KIND: right[kept]}, reasons, unread)

    syntactic = [index for index, analogy in enumerate(analogies) if analogy.section.startswith("gram")]
    semantic = [index for index, analogy in enumerate(analogies) if not analogy.section.startswith("gram")]
    named = [(f"{name} semantic", semantic), (f"{name} syntactic", syntactic)] if syntactic and semantic else []
    parts = [answered(part, judged(indices)) for part, indices in named]
    return replace(answered(name, judged(range(len(analogies)), unread)), parts=parts)


def solve(matrix: Vectors, questions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Answer analogies by 3CosAdd: for rows a, b, c (n, 3) return the row nearest to b - a + c except these."""
    lengths = np.linalg.norm(matrix, axis=1)
    lengths[lengths == 0] = np.inf
    answers = np.empty(len(questions), np.int64)
    step = max(1, _SCORES_AT_ONCE // max(1, len(matrix)))
    for start in range(0, len(questions), step):
        asked = questions[start : start + step]
        a, b, c = (matrix[asked[:, side]] / lengths[asked[:, side], None] for side in range(3))
        scores = (b - a + c) @ matrix.T / lengths  # (questions, words)
        np.put_along_axis(scores, asked, -np.inf, axis=1)
        answers[start : start + step] = scores.argmax(1)
    return answers
