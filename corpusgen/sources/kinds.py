"""The kinds of source that a build can read, by the name that `source.kind` gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from corpusgen.config.build import SourceSettings
from corpusgen.config.plugins import find_part
from corpusgen.engine import Stage
from corpusgen.sources import readers
from corpusgen.sources.readers import Slices


@dataclass(frozen=True)
class SourceKind:
    """A kind of source: how its files are cut into units, and the stages that read a unit.

    The last of `stages` returns the table PARAGRAPHS. `slices` takes the patterns of `source.paths` and roughly how
    many bytes of text a unit has. `cut_at` tells an estimate what the ranges of a unit count.
    """

    stages: Callable[[SourceSettings], list[Stage]]
    slices: Callable[[Sequence[str], int], Slices] = readers.range_slices
    cut_at: Literal["bytes", "row groups"] = "bytes"


KINDS = {
    "mediawiki": SourceKind(
        lambda settings: [readers.MediaWikiPages(), readers.ExtractText()],
        readers.mediawiki_slices,
    ),
    "wikiextractor": SourceKind(lambda settings: [readers.WikiExtractor()]),
    "text": SourceKind(lambda settings: [readers.PlainText()]),
    "jsonl": SourceKind(lambda settings: [readers.JsonLines(settings.text_field)]),
    "parquet": SourceKind(
        lambda settings: [readers.ParquetRows(settings.text_field)], readers.parquet_slices, cut_at="row groups"
    ),
}


def source_kind(name: str) -> SourceKind:
    """Return the kind that the settings name; raise ConfigError if there is none."""
    return find_part(name, KINDS, SourceKind, "source.kind")
