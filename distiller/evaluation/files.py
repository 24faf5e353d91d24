"""From the lines of a set's files to its items. What is wrong in a line costs that item; in a file, the evaluation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from corpusgen.errors import ConfigError
from distiller.evaluation.results import Skipped

Span = tuple[int, int]
"""Where a word begins and ends in its text, in characters."""

Row = TypeVar("Row")
Item = TypeVar("Item")


@dataclass(frozen=True)
class SentencePair:
    """Two texts, and what people say of them: how similar they are, or 1 for the same and 0 for another meaning."""

    item: str
    """File and line, or the id in the file."""
    texts: tuple[str, str]
    gold: float

    @property
    def places(self) -> tuple[tuple[str, Span | None], ...]:
        """The two things to compare: whole texts."""
        return tuple((text, None) for text in self.texts)


@dataclass(frozen=True)
class WordPair(SentencePair):
    """Two words in their texts, and what people say of the words."""

    spans: tuple[Span, Span]

    @property
    def places(self) -> tuple[tuple[str, Span | None], ...]:
        """The two things to compare: words at their places."""
        return tuple(zip(self.texts, self.spans, strict=True))


@dataclass(frozen=True)
class ItemSet:
    """What a file holds."""

    pairs: Sequence[SentencePair]
    skipped: Sequence[Skipped]


def collect(
    path: Path, rows: Iterable[tuple[str, Row]], read: Callable[[str, Row], Item | None]
) -> tuple[list[Item], list[Skipped]]:
    """The items that `read` makes of named rows: None of a row that is no item, and a ValueError says what is wrong."""
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
        raise ConfigError(f"{path} has no item to evaluate with{why}. Is it the set's original file?")
    return items, skipped


def read_text(path: Path) -> str:
    """A whole file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def read_lines(path: Path) -> list[str]:
    """The lines of a file, without their ends. Only line feeds end a line: other separators occur within texts."""
    return [line.removesuffix("\r") for line in read_text(path).rstrip("\r\n").split("\n")]


def named_lines(path: Path) -> list[tuple[str, str]]:
    """The lines of a file that are not blank, each with its file and number."""
    return [(f"{path.name}:{number}", line) for number, line in enumerate(read_lines(path), 1) if line.strip()]


def columns(line: str, least: int, separator: str | None = "\t") -> list[str]:
    """The columns of a line; there may be more than asked for."""
    found = line.split(separator)
    if len(found) < least:
        raise ValueError(f"{len(found)} columns instead of {least}")
    return found


def check_header(path: Path, names: Sequence[str], needed: Iterable[str]) -> None:
    """See that a file's columns have the names that are needed."""
    missing = [name for name in needed if name not in names]
    if missing:
        raise ConfigError(
            f"{path} has no column {', '.join(missing)} in its first line: is it the set's original file?"
        )


def record(names: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """The values of a line by the names of their columns."""
    if len(values) != len(names):
        raise ValueError(f"{len(values)} columns instead of {len(names)}")
    return dict(zip(names, values, strict=True))


def number(text: str) -> float:
    """A finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no score")
    return value


def sentence_pair(item: str, first: str, second: str, gold: float) -> SentencePair:
    """A pair of texts that are not empty."""
    texts = first.strip(), second.strip()
    if not all(texts):
        raise ValueError("a sentence is empty")
    return SentencePair(item, texts, gold)


def token_span(text: str, index: int) -> Span:
    """Where a word is in a text whose words are separated by spaces, the first being number 0."""
    spans = [found.span() for found in re.finditer("[^ ]+", text)]
    if not 0 <= index < len(spans):
        raise ValueError(f"there is no word {index} among {len(spans)}")
    return spans[index]


def unmarked(text: str, tag: str, marks: int) -> tuple[str, list[Span]]:
    """A text without its marks `<tag> word </tag>`, and where the marked words are in it."""
    plain, spans, end = "", [], 0
    for mark in re.finditer(rf"<{tag}>\s*(.*?)\s*</{tag}>", text):
        plain += text[end : mark.start()]
        spans.append((len(plain), len(plain) + len(mark[1])))
        plain += mark[1]
        end = mark.end()
    if len(spans) != marks or any(start == stop for start, stop in spans):
        raise ValueError(f"{len(spans)} words are marked with <{tag}> instead of {marks}, or a mark is empty")
    return plain + text[end:], spans
