"""Checks of the texts and spans to encode, and the arrangement of vectors in the same structure."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from distiller.errors import (
    AmbiguousWordError,
    ItemError,
    SpanError,
    WordNotFoundError,
    WordTooLongError,
)
from distiller.inference.texts import check_text, quoted
from distiller.words.backbone import NO_PIECE, OUTSIDE, TOO_LONG

Span = tuple[int, int]
Vectors = npt.NDArray[np.float32]

_LISTS = (list, tuple, np.ndarray)
_SPAN_ERRORS = {OUTSIDE: SpanError, NO_PIECE: SpanError, TOO_LONG: WordTooLongError}


def find_word(text: str, word: str, index: int = 0) -> Span:
    """Return the span of a word in a text, ignoring case and parts of longer words; it must occur exactly once.

    >>> find_word("The bank raised its rates.", "bank")
    (4, 8)
    """
    check_text(index, text)
    if not isinstance(word, str):
        raise ItemError(index, f"a word must be a string, not {type(word).__name__}")
    if not word.strip():
        raise WordNotFoundError(index, "the word is empty")
    # A lookahead finds overlapping matches: "no no" occurs twice in "no no no".
    pattern = rf"(?<!\w)(?=({re.escape(word)})(?!\w))"
    spans = [match.span(1) for match in re.finditer(pattern, text, re.IGNORECASE)]
    found = [(start, end) for start, end in spans if not _is_mark(text[end : end + 1])]
    if not found:
        raise WordNotFoundError(index, f"{word!r} is not in {quoted(text)}")
    if len(found) > 1:
        choices = ", ".join(str(span) for span in found)
        raise AmbiguousWordError(
            index, f"{word!r} occurs {len(found)} times in {quoted(text)}; encode one of {choices}"
        )
    return found[0]


def _is_mark(character: str) -> bool:
    """Return whether a character belongs to the letter before it, such as an accent or a Hindi vowel sign."""
    return character != "" and unicodedata.category(character).startswith("M")


def check_span(index: int, span: Any) -> None:
    """Raise SpanError unless this is a span, whether or not it fits its text."""
    if not _is_span(span):
        raise SpanError(index, f"a span must be a pair of integers, (start, end), not {span!r}")


def check_item(index: int, item: Any) -> None:
    """Raise ItemError unless this is a pair of a text and a span."""
    if not isinstance(item, _LISTS) or len(item) != 2:
        raise ItemError(index, f"an item must be a pair of a text and a span, not {quoted(repr(item))}")
    check_text(index, item[0])
    check_span(index, item[1])


def item_error(index: int, text: str, span: Span, reason: str) -> ItemError:
    """Return the error for a word without states, by the reason that the backbone gave."""
    return _SPAN_ERRORS[reason](index, f"{reason}: {span} of {quoted(text)}, which has {len(text)} characters")


def items_of(texts: str | Sequence[str], spans: Any) -> tuple[list[tuple[str, Span]], list[int] | None]:
    """Pair each text with each of its spans; also return the spans per text, or None if no text has a list."""
    many = [texts] if isinstance(texts, str) else list(texts)
    of_texts = [spans] if isinstance(texts, str) else list(spans)
    if len(of_texts) != len(many):
        raise ValueError(f"{len(many)} texts, but {len(of_texts)} spans; give one per text")
    listed = [list(own) if _is_list(own) else [own] for own in of_texts]
    items = [(text, span) for text, own in zip(many, listed, strict=True) for span in own]
    return items, [len(own) for own in listed] if any(map(_is_list, of_texts)) else None


def _is_span(value: Any) -> bool:
    return isinstance(value, _LISTS) and len(value) == 2 and all(map(_is_whole, value))


def _is_whole(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _is_list(value: Any) -> bool:
    """Return whether a value is meant as a list of the spans of one text, valid or not."""
    return isinstance(value, _LISTS) and all(isinstance(one, _LISTS) for one in value)


def finished(vectors: Vectors, normalize: bool, convert_to: str) -> Any:
    """Normalise and convert vectors as the caller asked."""
    if normalize:
        vectors = normalized(vectors)
    if convert_to not in ("numpy", "torch"):
        raise ValueError(f"convert_to must be 'numpy' or 'torch', not {convert_to!r}")
    return torch.from_numpy(vectors) if convert_to == "torch" else vectors


def normalized(vectors: Vectors) -> Vectors:
    """Scale vectors to unit length; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32, copy=False)


def means(vectors: Vectors, counts: npt.NDArray[np.int64]) -> Vectors:
    """Return the mean of each run of `counts` rows; zero for an empty run."""
    made = np.zeros((len(counts), vectors.shape[1]), np.float32)
    some = counts > 0
    if some.any():
        made[some] = np.add.reduceat(vectors, (np.cumsum(counts) - counts)[some], axis=0) / counts[some, None]
    return made


def shaped(vectors: Any, counts: list[int] | None, single: bool) -> Any:
    """Arrange rows (n, d) as the caller gave the items; see `items_of`."""
    if counts is None:
        return vectors[0] if single else vectors
    ends = np.cumsum(counts)
    of_texts = [vectors[end - count : end] for count, end in zip(counts, ends, strict=True)]
    return of_texts[0] if single else of_texts


def with_progress(parts: Iterator[tuple[Vectors, ...]], total: int, show: bool) -> Iterator[tuple[Vectors, ...]]:
    """Yield the parts of `total` vectors, with a progress bar on standard error if `show` is true."""
    if not show:
        yield from parts
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr)) as bar:
        task = bar.add_task("encoding", total=total)
        for part in parts:
            bar.advance(task, len(part[0]))
            yield part


def problem_of(index: int, item: Any) -> ItemError | None:
    """Return what is wrong with an item for any model; None if nothing is."""
    try:
        check_item(index, item)
    except ItemError as error:
        return error
    return None
