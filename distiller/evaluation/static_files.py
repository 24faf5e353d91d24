"""Readers of the sets for static vectors in their original formats: similarities, analogies, relations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpusgen.errors import ConfigError
from distiller.evaluation.files import ItemSet, SentencePair, collect, columns, named_lines, number, read_lines
from distiller.evaluation.results import Skipped


@dataclass(frozen=True)
class Layout:
    """The layout of a file of word similarities: two words first, and their score in some column."""

    name: str
    """The name of the file."""
    score: int = 2
    """The number of the score's column, from 0."""
    header: bool = False
    tagged: bool = False
    """Whether words end in a hyphen and their part of speech."""


SIMILARITIES: dict[str, Sequence[Layout]] = {
    "RG-65": [Layout("EN-RG-65.txt")],
    "WS-353": [Layout("EN-WS-353-ALL.txt"), Layout("combined.tab", header=True), Layout("wordsim353.tsv")],
    "WS-353 similarity": [Layout("EN-WS-353-SIM.txt"), Layout("wordsim_similarity_goldstandard.txt")],
    "WS-353 relatedness": [Layout("EN-WS-353-REL.txt"), Layout("wordsim_relatedness_goldstandard.txt")],
    "SimLex-999": [
        Layout("EN-SIMLEX-999.txt"),
        Layout("SimLex-999.txt", score=3, header=True),
        Layout("simlex999.txt"),
    ],
    "SimVerb-3500": [Layout("EN-SIMVERB-3500.txt"), Layout("SimVerb-3500.txt", score=3)],
    "RW": [Layout("EN-RW-STANFORD.txt"), Layout("rw.txt")],
    "MEN": [
        Layout("EN-MEN-TR-3k.txt"),
        Layout("MEN_dataset_natural_form_full"),
        Layout("MEN_dataset_lemma_form_full", tagged=True),
    ],
}
"""The files that each task may be in: MUSE's name first, then the original ones, then those of gensim."""


@dataclass(frozen=True)
class Analogy:
    """An analogy: the first word is to the second as the third is to the fourth."""

    item: str
    words: tuple[str, str, str, str]
    section: str = ""


@dataclass(frozen=True)
class Relation:
    """A relation between two words, and pairs that people rated as its examples."""

    name: str
    """Its number and letter in SemEval's list, such as 1a."""
    examples: Sequence[tuple[str, str]]
    """The pairs that people were shown."""
    items: ItemSet


def similarity_files(folder: Path) -> dict[str, tuple[Path, Layout]]:
    """Return the file of each task that has one in the folder."""
    there = {
        name: [(folder / layout.name, layout) for layout in layouts if (folder / layout.name).exists()]
        for name, layouts in SIMILARITIES.items()
    }
    return {name: files[0] for name, files in there.items() if files}


def read_similarities(path: Path, layout: Layout) -> ItemSet:
    """Read pairs of words, which become the texts of the pairs. Lines that begin with # are comments."""

    def read(item: str, line: str) -> SentencePair | None:
        if line.startswith("#"):
            return None
        values = columns(line, layout.score + 1, separator=None)
        first, second = (re.sub(r"-[a-z]$", "", word) if layout.tagged else word for word in values[:2])
        return SentencePair(item, (first, second), number(values[layout.score]))

    return ItemSet(*collect(path, named_lines(path)[layout.header :], read))


def read_google_analogies(path: Path) -> tuple[list[Analogy], list[Skipped]]:
    """Read lines of four words; a line with a colon begins a section."""
    section = ""

    def read(item: str, line: str) -> Analogy | None:
        nonlocal section
        if line.startswith(":"):
            section = line[1:].strip()
            return None
        return Analogy(item, _four(line.split()), section)

    return collect(path, named_lines(path), read)


def read_msr_analogies(path: Path) -> tuple[list[Analogy], list[Skipped]]:
    """Read lines of three words, an optional tag, and the fourth word."""

    def read(item: str, line: str) -> Analogy:
        words = line.split()
        return Analogy(item, _four([*words[:3], *words[4:]] if len(words) == 5 else words))

    return collect(path, named_lines(path), read)


def read_msr_questions(questions: Path, answers: Path) -> tuple[list[Analogy], list[Skipped]]:
    """Read the original pair of files: lines of three words, and lines of a tag and the fourth word."""

    def read(item: str, row: tuple[str, str]) -> Analogy:
        question, answer = row
        return Analogy(item, _four([*question.split(), *answer.split()[-1:]]))

    asked, answered = named_lines(questions), named_lines(answers)
    if len(asked) != len(answered):
        raise ConfigError(
            f"{questions} has {len(asked)} lines and {answers} has {len(answered)}; give files that belong together"
        )
    rows = ((item, (line, answer)) for (item, line), (_, answer) in zip(asked, answered, strict=True))
    return collect(questions, rows, read)


def _four(words: Sequence[str]) -> tuple[str, str, str, str]:
    if len(words) != 4:
        raise ValueError(f"{len(words)} words instead of 4")
    return words[0], words[1], words[2], words[3]


def relation_files(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Return the ratings and the questions of each relation of SemEval-2012 task 2, apart from those for training.

    They may be in any folders below, as in the archives of the task, where those for training are in `Training`.
    """
    ratings, questions = (
        {path.stem.rpartition("-")[2]: path for path in sorted(folder.rglob(f"{kind}-*.txt"))}
        for kind in ("GoldRatings", "Phase1Questions")
    )
    found = {}
    for name, path in sorted(ratings.items(), key=lambda item: (len(item[0]), item[0])):  # 9a before 10a
        if name not in questions:
            raise ConfigError(f"{folder} has {path.name}, but no Phase1Questions-{name}.txt, which has the examples")
        if not any("Training" in file.relative_to(folder).parts for file in (path, questions[name])):
            found[name] = path, questions[name]
    return found


def read_relation(name: str, ratings: Path, questions: Path) -> Relation:
    """Read a relation: the examples are lines with a pair a:b and nothing else, ratings lines such as `50.0 "a:b"`."""

    def read(item: str, line: str) -> SentencePair | None:
        if line.startswith("#"):
            return None
        rating, *pair = columns(line, 2, separator=None)
        return SentencePair(item, _two_words(" ".join(pair)), number(rating))

    found = [_EXAMPLE.fullmatch(line.strip()) for line in read_lines(questions)]
    examples = [(one[1], one[2]) for one in found if one]
    if not examples:
        raise ConfigError(f"{questions} has no examples, lines with a pair such as bird:robin; give the original file")
    return Relation(name, examples, ItemSet(*collect(ratings, named_lines(ratings), read)))


_EXAMPLE = re.compile(r'"?([^\s":]+):([^\s":]+)"?')


def _two_words(pair: str) -> tuple[str, str]:
    words = [word.strip() for word in pair.strip('"').split(":")]
    if len(words) != 2 or not all(words):
        raise ValueError(f"{pair} is not a pair of words")
    return words[0], words[1]
