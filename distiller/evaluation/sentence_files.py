"""Readers of sentence pairs in their original formats: STS 2012 to 2016, the STS benchmark and PAWS-Wiki."""

from __future__ import annotations

import csv
from pathlib import Path

from corpusgen.errors import ConfigError
from distiller.evaluation.files import (
    ItemSet,
    SentencePair,
    check_header,
    collect,
    columns,
    named_lines,
    number,
    read_lines,
    read_text,
    record,
    sentence_pair,
)


def read_sts(path: Path) -> ItemSet:
    """Read a sub-corpus of STS: lines of a score and two sentences. Skip pairs without a score, as some years have."""

    def read(item: str, line: str) -> SentencePair | None:
        score, first, second = columns(line, 3)[:3]
        return sentence_pair(item, first, second, number(score)) if score.strip() else None

    return ItemSet(*collect(path, named_lines(path), read))


def read_semeval_sts(data: Path, gold: Path) -> ItemSet:
    """Read a sub-corpus of STS from SemEval's files: lines of two sentences, and lines of a score, some empty."""
    lines, scores = read_lines(data), read_text(gold).split("\n")  # empty lines at the end count too
    if len(scores) < len(lines) or "".join(scores[len(lines) :]).strip():
        raise ConfigError(
            f"{data} has {len(lines)} lines, but {gold} has a different number; give files that belong together"
        )

    def read(item: str, row: tuple[str, str]) -> SentencePair:
        first, second = columns(row[0], 2)[:2]
        if not row[1].strip():
            raise ValueError("it has no score")
        return sentence_pair(item, first, second, number(columns(row[1], 1)[0]))

    rows = ((f"{data.name}:{line_number}", row) for line_number, row in enumerate(zip(lines, scores, strict=False), 1))
    return ItemSet(*collect(data, rows, read))


def read_stsb(path: Path) -> ItemSet:
    """Read the STS benchmark: lines of genre, file, year, id, score, two sentences, and sometimes sources."""

    def read(item: str, line: str) -> SentencePair:
        score, first, second = columns(line, 7)[4:7]
        return sentence_pair(item, first, second, number(score))

    return ItemSet(*collect(path, named_lines(path), read))


def read_paws(path: Path) -> ItemSet:
    """Read PAWS-Wiki: a header, then two sentences and 1 for a paraphrase; tab-separated without quotes, or CSV."""
    fields = _csv_fields if path.suffix == ".csv" else _tab_fields
    lines = named_lines(path)
    names = fields(lines[0][1]) if lines else []
    check_header(path, names, ["sentence1", "sentence2", "label"])

    def read(item: str, line: str) -> SentencePair:
        values = record(names, fields(line))
        if values["label"] not in ("0", "1"):
            raise ValueError(f"its label is {values['label']}, not 0 or 1")
        return sentence_pair(item, values["sentence1"], values["sentence2"], float(values["label"]))

    return ItemSet(*collect(path, lines[1:], read))


def _tab_fields(line: str) -> list[str]:
    return line.split("\t")


def _csv_fields(line: str) -> list[str]:
    """Split one line into its fields, so that a missing quote spoils only that line."""
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise ValueError(f"not valid CSV: {error}") from error
