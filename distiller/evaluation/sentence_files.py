"""Sets of sentence pairs, in their original formats: STS 2012 to 2016, the STS benchmark and PAWS-Wiki."""

from __future__ import annotations

import csv
from pathlib import Path

from distiller.evaluation.files import (
    ItemSet,
    SentencePair,
    check_header,
    collect,
    columns,
    named_lines,
    number,
    record,
    sentence_pair,
)


def read_sts(path: Path) -> ItemSet:
    """A sub-corpus of STS: lines of score and two sentences. Some years have pairs without a score: no items."""

    def read(item: str, line: str) -> SentencePair | None:
        score, first, second = columns(line, 3)[:3]
        return sentence_pair(item, first, second, number(score)) if score.strip() else None

    return ItemSet(*collect(path, named_lines(path), read))


def read_stsb(path: Path) -> ItemSet:
    """The STS benchmark: lines of genre, file, year, id, score and two sentences, and sometimes sources."""

    def read(item: str, line: str) -> SentencePair:
        score, first, second = columns(line, 7)[4:7]
        return sentence_pair(item, first, second, number(score))

    return ItemSet(*collect(path, named_lines(path), read))


def read_paws(path: Path) -> ItemSet:
    """PAWS-Wiki: a header, then two sentences and 1 for a paraphrase; tab-separated without quotes, or CSV."""
    fields = _csv_fields if path.suffix == ".csv" else _tab_fields
    lines = named_lines(path)
    names = fields(lines[0][1]) if lines else []
    check_header(path, names, ["sentence1", "sentence2", "label"])

    def read(item: str, line: str) -> SentencePair:
        values = record(names, fields(line))
        if values["label"] not in ("0", "1"):
            raise ValueError(f"its label is {values['label']}, neither 0 nor 1")
        return sentence_pair(item, values["sentence1"], values["sentence2"], float(values["label"]))

    return ItemSet(*collect(path, lines[1:], read))


def _tab_fields(line: str) -> list[str]:
    return line.split("\t")


def _csv_fields(line: str) -> list[str]:
    """Of one line alone, so that a missing quote costs no more than the line."""
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise ValueError(f"it is no CSV: {error}") from error
