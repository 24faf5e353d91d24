"""Readers of words in context in their original formats: WiC, USim, CoSimLex, SCWS, MCL-WiC; and one of our own."""

from __future__ import annotations

import json
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from corpusgen.errors import ConfigError
from distiller.errors import ItemError
from distiller.evaluation.files import (
    ItemSet,
    Span,
    WordPair,
    check_header,
    collect,
    columns,
    named_lines,
    number,
    read_lines,
    read_text,
    record,
    token_span,
    unmarked,
)
from distiller.inference.spans import find_word

_DECISIONS = {"T": 1.0, "F": 0.0}


def read_wic(data: Path, gold: Path) -> ItemSet:
    """Read WiC: lines of word, part of speech, word numbers and two sentences; and lines of T or F."""
    lines, answers = read_lines(data), read_lines(gold)
    if len(lines) != len(answers):
        raise ConfigError(
            f"{data} has {len(lines)} lines and {gold} has {len(answers)}; give files that belong together"
        )

    def read(item: str, row: tuple[str, str]) -> WordPair:
        line, answer = row
        _, _, indices, first, second = columns(line, 5)[:5]
        spans = [token_span(text, int(index)) for text, index in zip((first, second), indices.split("-"), strict=True)]
        return WordPair(item, (first, second), _decision(answer.strip()), (spans[0], spans[1]))

    rows = ((f"{data.name}:{line_number}", row) for line_number, row in enumerate(zip(lines, answers, strict=True), 1))
    return ItemSet(*collect(data, rows, read))


def read_usim(path: Path) -> ItemSet:
    """Read USim: lines of sentence, word number, mean score and word with number; every two lines are a pair."""
    lines = named_lines(path)

    def read(item: str, pair: tuple[str, str]) -> WordPair:
        first, second = (columns(line, 4) for line in pair)
        if number(first[2]) != number(second[2]) or first[3].split()[:1] != second[3].split()[:1]:
            raise ValueError("this line and the next differ in score or word, so they are not a pair")
        spans = token_span(first[0], int(first[1])), token_span(second[0], int(second[1]))
        return WordPair(item, (first[0], second[0]), number(first[2]), spans)

    partners = chain((line for _, line in lines[1::2]), [""])  # a single last line has no partner
    rows = ((item, (line, partner)) for (item, line), partner in zip(lines[::2], partners, strict=False))
    return ItemSet(*collect(path, rows, read))


def read_cosimlex(path: Path) -> tuple[ItemSet, ItemSet]:
    """Read CoSimLex: pairs in their first contexts, and the same pairs in their second. Both words are in one text."""
    lines = named_lines(path)
    names = columns(lines[0][1], 1) if lines else []
    check_header(path, names, ["context1", "context2", "sim1", "sim2"])

    def both(item: str, line: str) -> list[WordPair]:
        values = record(names, [_unquoted(value) for value in line.split("\t")])
        return [_in_one_text(f"{item} context {c}", values[f"context{c}"], values[f"sim{c}"]) for c in (1, 2)]

    # Both sets read both contexts, so that a line is in both sets or in neither.
    first = ItemSet(*collect(path, lines[1:], lambda item, line: both(item, line)[0]))
    second = ItemSet(*collect(path, lines[1:], lambda item, line: both(item, line)[1]))
    return first, second


def _in_one_text(item: str, text: str, score: str) -> WordPair:
    plain, (first, second) = unmarked(text, "strong", marks=2)
    return WordPair(item, (plain, plain), number(score), (first, second))


def _unquoted(value: str) -> str:
    """Remove the quotes that CSV writers put around a value, and the doubling of quotes within."""
    inner = value[1:-1]
    quoted = len(value) > 1 and value[0] == value[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if quoted else value


def read_scws(path: Path) -> ItemSet:
    """Read SCWS: lines of id, two words with parts of speech, their contexts and the mean rating."""

    def read(item: str, line: str) -> WordPair:
        values = columns(line, 8)
        (first, (span,)), (second, (other,)) = (unmarked(text, "b", marks=1) for text in values[5:7])
        return WordPair(item, (first, second), number(values[7]), (span, other))

    return ItemSet(*collect(path, named_lines(path), read))


def read_mclwic(data: Path, gold: Path) -> ItemSet:
    """Read MCL-WiC: JSON of sentences and words' spans, as start and end or as ranges; and JSON of T or F by id."""
    answers = {entry.get("id"): entry.get("tag") for entry in _entries(gold)}

    def read(item: str, entry: dict[str, Any]) -> WordPair:
        texts = _string(entry, "sentence1"), _string(entry, "sentence2")
        return WordPair(item, texts, _decision(answers.get(item)), (_span(entry, 1), _span(entry, 2)))

    rows = (
        (str(entry.get("id", f"{data.name}:{entry_number}")), entry)
        for entry_number, entry in enumerate(_entries(data), 1)
    )
    return ItemSet(*collect(data, rows, read))


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(read_text(path))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"{path} is not a JSON list of items; give the original file of the benchmark")
    return entries


def _span(entry: dict[str, Any], side: int) -> Span:
    if f"ranges{side}" in entry:  # the test sets; the first part stands for a word in several parts
        start, end = _string(entry, f"ranges{side}").split(",")[0].split("-")
    else:
        start, end = _string(entry, f"start{side}"), _string(entry, f"end{side}")
    if not 0 <= int(start) < int(end) <= len(entry[f"sentence{side}"]):
        raise ValueError(f"there is nothing at {start}-{end} of sentence{side}")
    return int(start), int(end)


def _string(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise ValueError(f"it has no {key}")
    return value


def _decision(answer: str | None) -> float:
    if answer not in _DECISIONS:
        raise ValueError(f"its gold is {answer}, not T or F")
    return _DECISIONS[answer]


def read_usages(path: Path) -> ItemSet:
    """Read lines of word, sense and sentence into all pairs of a word's sentences: 1 for the same sense, else 0.

    The pairs of a word are a group: they share sentences.
    """

    def read(item: str, line: str) -> tuple[str, str, str, Span]:
        word, sense, text = columns(line, 3)[:3]
        try:
            return word, sense, text, find_word(text, word)
        except ItemError as error:
            raise ValueError(error.reason) from None

    usages, skipped = collect(path, named_lines(path), read)
    both = [(one, other) for one, other in combinations(usages, 2) if one[0] == other[0]]
    pairs = [
        WordPair(f"{word}: {sense} and {other_sense}", (text, other_text), float(sense == other_sense), (span, other))
        for (word, sense, text, span), (_, other_sense, other_text, other) in both
    ]
    return ItemSet(pairs, skipped, groups=[word for (word, *_), _ in both])
