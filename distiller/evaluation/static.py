"""Benchmarks of static vectors, with one vector per word: word similarity, analogies and relational similarity."""

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
from distiller.evaluation.results import Score, Skipped, TaskResult, Vectors
from distiller.evaluation.scoring import Judged, answered, averaged, correlated
from distiller.evaluation.static_files import (
    SIMILARITIES,
    Analogy,
    Layout,
    Relation,
    read_google_analogies,
    read_msr_analogies,
    read_msr_questions,
    read_relation,
    read_similarities,
    relation_files,
    similarity_files,
)

KIND = "static"
"""The only kind of vectors here."""

_GOOGLE, _MSR, _RELATIONS = "Google analogies", "MSR analogies", "SemEval-2012 relations"
_FEWEST_PAIRS = 5  # of a relation: fewer have no correlation to speak of
_SCORES_AT_ONCE = 1 << 25  # scores of questions × words in memory


class WordTable(Protocol):
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

    def knows(self, words: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which words are in the vocabulary; others may have vectors from their sub-words."""
        ...


@dataclass(frozen=True)
class StaticTask:
    """A benchmark of static vectors whose file has been read."""

    name: str
    score: Callable[[WordTable], TaskResult]

    def run_static(self, vectors: WordTable) -> list[TaskResult]:
        """Score the vectors. A word without a vector as written may have one in lower case."""
        return [self.score(vectors)]


def find_static_tasks(data_dir: str | Path, names: Iterable[str] | None = None) -> list[StaticTask]:
    """Read all or the named benchmarks of static vectors in the folders wordsim/ and semeval2012/."""
    folder, relations = Path(data_dir) / "wordsim", Path(data_dir) / "semeval2012"
    found = dict(_readers(folder))
    if files := relation_files(relations):
        found[_RELATIONS] = lambda: partial(
            _score_relations, [read_relation(name, *paths) for name, paths in files.items()]
        )
    known = [*SIMILARITIES, _GOOGLE, _MSR, _RELATIONS]
    if not found:
        names_of_files = [layout.name for layouts in SIMILARITIES.values() for layout in layouts]
        raise ConfigError(
            f"{folder} has no benchmark for static vectors; it should contain some of {', '.join(names_of_files)}, "
            f"{', '.join(path.name for path in _analogy_files(folder))}; or {relations}, with SemEval-2012's task 2"
        )
    wanted = chosen_tasks(names, known, found, lambda name: f"{data_dir} has no file for the task {name}")
    return [StaticTask(name, found[name]()) for name in wanted]


_Scorer = Callable[[WordTable], TaskResult]


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


def _score_similarity(name: str, items: ItemSet, vectors: WordTable) -> TaskResult:
    first, second, found, known = _look_up_pairs(vectors, [pair.texts for pair in items.pairs])
    names, missing = _named([pair.item for pair in items.pairs], [pair.texts for pair in items.pairs], found)
    gold = np.array([pair.gold for pair in items.pairs])
    judged = Judged(names, gold, {KIND: cosines(first, second)}, missing, items.skipped)
    result = correlated(name, "Spearman", judged)
    return replace(result, published=STATIC.get(name, {}), by_subwords=_by_subwords(found, known))


def _look_up_pairs(
    vectors: WordTable, pairs: Sequence[tuple[str, str]]
) -> tuple[Vectors, Vectors, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the vectors of the first and of the second words, which words (n, 2) have one, and which are known."""
    words = list(dict.fromkeys(word for pair in pairs for word in pair))
    matrix, found, known = _look_up(vectors, words)
    row_of = {word: row for row, word in enumerate(words)}
    rows = np.array([[row_of[word] for word in pair] for pair in pairs], np.int64).reshape(-1, 2)
    return matrix[rows[:, 0]], matrix[rows[:, 1]], found[rows], known[rows]


def _look_up(vectors: WordTable, words: Sequence[str]) -> tuple[Vectors, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Look words up: as written or, if only that is in the vocabulary, in lower case; else by their sub-words."""
    lower = [word.lower() for word in words]
    known, known_lower = vectors.knows(words), vectors.knows(lower)
    chosen = [low if there else word for word, low, there in zip(words, lower, known_lower & ~known, strict=True)]
    (as_chosen, found), (in_lower, found_lower) = vectors.lookup(chosen), vectors.lookup(lower)
    return np.where(found[:, None], as_chosen, in_lower), found | found_lower, known | known_lower


def _by_subwords(found: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]) -> int:
    """Count the scored items with a word that is not in the vocabulary."""
    return int(np.count_nonzero(found.all(axis=1) & ~known.all(axis=1)))


def _named(
    items: Sequence[str], words: Sequence[Sequence[str]], found: npt.NDArray[np.bool_]
) -> tuple[list[str], list[str | None]]:
    """Return the items with their words without a vector, and the reason if an item has no score."""
    unknown = [", ".join(compress(of_item, ~there)) for of_item, there in zip(words, found, strict=True)]
    names = [f"{item} ({missing})" if missing else item for item, missing in zip(items, unknown, strict=True)]
    return names, ["a word has no vector" if missing else None for missing in unknown]


# ------------------------------------------------------------------- relations


def _score_relations(relations: Sequence[Relation], vectors: WordTable) -> TaskResult:
    """Correlate how much pairs of words are like the examples of their relation with people's ratings.

    The result is the mean over all relations; those with hardly any pair are left out.
    """
    judged, by_subwords = zip(*(_judge_relation(relation, vectors) for relation in relations), strict=True)
    usable = np.array([n for n, one in enumerate(judged) if len(one.item_indices) >= _FEWEST_PAIRS], np.int64)
    left_out = [skip for n, one in enumerate(judged) if n not in usable for skip in one.skipped]
    if not len(usable):
        return TaskResult(_RELATIONS, "Spearman", 0, {KIND: Score(np.nan, np.nan, np.nan)}, left_out)
    result = averaged(_RELATIONS, "Spearman", [(relations[n].name, judged[n]) for n in usable.tolist()])
    assert result.item_indices is not None
    return replace(
        result,
        skipped=[*result.skipped, *left_out],
        item_indices=np.stack([usable[result.item_indices[:, 0]], result.item_indices[:, 1]], axis=1),
        by_subwords=sum(by_subwords),
        published=STATIC[_RELATIONS],
    )


def _judge_relation(relation: Relation, vectors: WordTable) -> tuple[Judged, int]:
    """Compare the differences of words, of unit length, with those of the examples by their mean cosine."""
    pairs = relation.items.pairs
    differences, found, known = _differences(vectors, [pair.texts for pair in pairs])
    examples, has_vectors, _ = _differences(vectors, relation.examples)
    likeness = [cosines(differences, np.broadcast_to(one, differences.shape)) for one in examples[has_vectors.all(1)]]
    names, missing = _named([pair.item for pair in pairs], [pair.texts for pair in pairs], found)
    if not likeness:
        missing = ["no example of its relation has vectors"] * len(pairs)
    similarities = np.mean(likeness, axis=0) if likeness else np.zeros(len(pairs))
    gold = np.array([pair.gold for pair in pairs])
    return Judged(names, gold, {KIND: similarities}, missing, relation.items.skipped), _by_subwords(found, known)


def _differences(
    vectors: WordTable, pairs: Sequence[tuple[str, str]]
) -> tuple[Vectors, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    first, second, found, known = _look_up_pairs(vectors, pairs)
    lengths = (np.linalg.norm(side, axis=1, keepdims=True) for side in (first, second))
    start, end = (side / np.where(size == 0, 1, size) for side, size in zip((first, second), lengths, strict=True))
    return (end - start).astype(np.float32), found, known


# ------------------------------------------------------------------- analogies


def _score_analogies(
    name: str, analogies: Sequence[Analogy], unread: Sequence[Skipped], vectors: WordTable
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
    whole = answered(name, judged(range(len(analogies)), unread))
    return replace(whole, parts=parts, published=STATIC.get(name, {}))


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
