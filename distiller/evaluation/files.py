"""Readers that turn lines of benchmark files into items. A bad line skips its item; a bad file ends the evaluation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from corpusgen.errors import ConfigError
from distiller.evaluation.results import Skipped

Span = tuple[int, int]
"""The start and the end of a word in its text, in characters."""

Row = TypeVar("Row")
Item = TypeVar("Item")


@dataclass(frozen=True)
class SentencePair:
    """Two texts and their human rating: how similar they are, or 1 for the same meaning and 0 for another."""

    item: str
    """The file and line, or the id in the file."""
    texts: tuple[str, str]
    gold: float

    @property
    def occurrences(self) -> tuple[tuple[str, Span | None], ...]:
        """Return the two things to compare: whole texts."""
        return tuple((text, None) for text in self.texts)


@dataclass(frozen=True)
class WordPair(SentencePair):
    """Two words in their texts, and their human rating."""

    spans: tuple[Span, Span]

    @property
    def occurrences(self) -> tuple[tuple[str, Span | None], ...]:
        """Return the two things to compare: words with their texts and spans."""
        return tuple(zip(self.texts, self.spans, strict=True))


@dataclass(frozen=True)
class ItemSet:
    """The items of a file, and the lines that were skipped."""

    pairs: Sequence[SentencePair]
    skipped: Sequence[Skipped]
    groups: Sequence[str] | None = None
    """The group of each pair, if pairs of a group are not independent of each other: intervals draw whole groups."""


def chosen_tasks(
    names: Iterable[str] | None, known: Collection[str], found: Collection[str], why_absent: Callable[[str], str]
) -> list[str]:
    """Return the tasks to run, by default all that were found; raise ConfigError for a name that is not among them."""
    chosen = list(found if names is None else dict.fromkeys(names))
    for name in chosen:
        if name not in known:
            raise ConfigError(f"no such task: {name}; choose from {', '.join(known)}")
        if name not in found:
            raise ConfigError(f"{why_absent(name)}; found only {', '.join(found)}")
    return chosen


def collect(
    path: Path, rows: Iterable[tuple[str, Row]], read: Callable[[str, Row], Item | None]
) -> tuple[list[Item], list[Skipped]]:
    """Collect the items that `read` makes from named rows: None means no item, a ValueError a skipped one."""
    items: list[Item] = []
    skipped: list[Skipped] = []
    for name, row in rows:
        try:
            item = read(name, row)
        except ValueError as error:
            skipped.append(Skipped(name, str(error)))
        else:
            if item is not None:
                items.append(item)
    if not items:
        why = f": {skipped[0].item}: {skipped[0].reason}" if skipped else ""
        raise ConfigError(f"{path} has no usable items{why}; give the original file of the benchmark")
    return items, skipped


def read_text(path: Path) -> str:
    """Read a whole file of UTF-8 text; raise ConfigError if that fails."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file, without line ends. Only line feeds end a line: other separators occur in texts."""
    return [line.removesuffix("\r") for line in read_text(path).rstrip("\r\n").split("\n")]


def named_lines(path: Path) -> list[tuple[str, str]]:
    """Read the lines of a file that are not blank, each with its file and number."""
    return [(f"{path.name}:{number}", line) for number, line in enumerate(read_lines(path), 1) if line.strip()]


def columns(line: str, least: int, separator: str | None = "\t") -> list[str]:
    """Split a line into columns; raise ValueError if there are fewer than `least`."""
    found = line.split(separator)
    if len(found) < least:
        raise ValueError(f"{len(found)} columns instead of {least}")
    return found


def check_header(path: Path, names: Sequence[str], needed: Iterable[str]) -> None:
    """Raise ConfigError unless a file has the needed columns."""
    missing = [name for name in needed if name not in names]
    if missing:
        raise ConfigError(
            f"{path} has no column {', '.join(missing)} in its first line; give the original file of the benchmark"
        )


def record(names: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """Return the values of a line by the names of their columns."""
    if len(values) != len(names):
        raise ValueError(f"{len(values)} columns instead of {len(names)}")
    return dict(zip(names, values, strict=True))


def number(text: str) -> float:
    """Parse a finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a score")
    return value


def sentence_pair(item: str, first: str, second: str, gold: float) -> SentencePair:
    """Make a pair of texts; raise ValueError if one is empty."""
    texts = first.strip(), second.strip()
    if not all(texts):
        raise ValueError("a sentence is empty")
    return SentencePair(item, texts, gold)


def token_span(text: str, index: int) -> Span:
    """Return the span of a word in a text whose words are separated by spaces; the first word is number 0."""
    spans = [found.span() for found in re.finditer("[^ ]+", text)]
    if not 0 <= index < len(spans):
        raise ValueError(f"there is no word {index} among {len(spans)}")
    return spans[index]


def unmarked(text: str, tag: str, marks: int) -> tuple[str, list[Span]]:
    """Remove the marks `<tag> word </tag>` from a text; return the text and the spans of the marked words."""
    plain, spans, end = "", [], 0
    for mark in re.finditer(rf"<{tag}>\s*(.*?)\s*</{tag}>", text):
        plain += text[end : mark.start()]
        spans.append((len(plain), len(plain) + len(mark[1])))
        plain += mark[1]
        end = mark.end()
    if len(spans) != marks or any(start == stop for start, stop in spans):
        raise ValueError(f"{len(spans)} words are marked with <{tag}> instead of {marks}, or a mark is empty")
    return plain + text[end:], spans
