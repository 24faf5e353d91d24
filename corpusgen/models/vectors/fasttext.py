"""Read fastText's binary models; the matrix is mapped, so that all workers of a node share its memory.

Layout (little-endian): magic number, version; settings; dictionary; a flag and the input matrix; the output matrix.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusgen.errors import StageError
from corpusgen.extras import missing_extra
from corpusgen.models.vectors.lookup import Floats, Source
from corpusgen.models.vectors.vocabulary import Rows, Vocabulary

MAGIC = struct.pack("<i", 793712314)
_NEWEST_VERSION = 12
_SUPERVISED = 3
_SETTINGS = struct.Struct("<12id")
_DICTIONARY = struct.Struct("<iiiqq")
_MATRIX = struct.Struct("<?qq")
_BEHIND_WORD = 1 + 8 + 1  # zero byte, count, kind
_END_OF_SENTENCE = b"</s>"  # the one word without sub-words


@dataclass(frozen=True)
class NgramSettings:
    """The character n-grams that have rows of their own: `buckets` rows from `first_row` on, chosen by hash."""

    shortest: int
    longest: int
    buckets: int
    first_row: int


@dataclass(frozen=True)
class SubwordMatrix:
    """A dense model: a word's vector is the mean of its own row and those of its n-grams."""

    vocabulary: Vocabulary
    dimension: int
    matrix: npt.NDArray[np.uint8]
    """Its rows as bytes: in the file the floats may begin at any address; copied rows are aligned."""
    ngrams: NgramSettings

    def vectors(self, words: Sequence[bytes], rows: Rows) -> Floats:
        """Return the means, added up in fastText's order and so the same to the bit."""
        members, bounds = ngram_rows(words, self.ngrams)
        known = rows >= 0
        members = np.insert(members, bounds[:-1][known], rows[known])
        bounds = bounds + np.append(0, np.cumsum(known))
        result = np.empty((len(words), self.dimension), np.float32)
        for word in range(len(words)):
            some = self.matrix[members[bounds[word] : bounds[word + 1]]]
            some.view(np.float32).sum(axis=0, out=result[word])
        result *= (1 / np.maximum(1, np.diff(bounds))).astype(np.float32)[:, None]
        return result


@dataclass(frozen=True)
class QuantisedModel:
    """A compressed model, loaded by the fasttext package: it is small, so each worker may have its own."""

    vocabulary: Vocabulary
    dimension: int
    model: Any

    def vectors(self, words: Sequence[bytes], rows: Rows) -> Floats:
        """Return the vectors, one at a time as the package gives them."""
        return np.stack([self.model.get_word_vector(word.decode("utf-8", "replace")) for word in words])


def ngram_rows(words: Sequence[bytes], settings: NgramSettings) -> tuple[Rows, Rows]:
    """Return the rows of the n-grams of all words, one word after the other, and the bounds of each word's rows.

    An n-gram consists of characters, not bytes, of `<word>`; a border alone is not an n-gram. Its hash is 32-bit
    FNV-1a, but fastText treats bytes as signed. All words are hashed together: first all n-grams of one character,
    which are then extended.
    """
    text = np.frombuffer(b"<" + b"><".join(words) + b">", np.uint8)
    signed = text.view(np.int8).astype(np.uint32)
    starts = np.flatnonzero((text & 0xC0) != 0x80)  # the bytes that begin a character
    widths = np.diff(starts, append=len(text))
    word_ends = np.searchsorted(starts, np.cumsum([len(word) + 2 for word in words]))
    lengths = np.diff(word_ends, prepend=0)
    here, ends = np.arange(len(starts)), np.repeat(word_ends, lengths)
    is_border = (here == ends - 1) | (here == ends - np.repeat(lengths, lengths))

    hashes = np.full(len(starts), 2166136261, np.uint32)
    chosen = np.zeros((len(starts), settings.longest), np.bool_)
    found = np.empty(chosen.shape, np.int64)
    for length in range(1, settings.longest + 1):
        last = here + length - 1  # character
        inside = last < ends
        last = np.where(inside, last, 0)
        for byte in range(int(widths.max(initial=0))):
            has_byte = inside & (widths[last] > byte)
            index = np.where(has_byte, starts[last] + byte, 0)
            hashes = np.where(has_byte, (hashes ^ signed[index]) * np.uint32(16777619), hashes)
        if length >= settings.shortest:
            chosen[:, length - 1] = inside & ~is_border if length == 1 else inside
            found[:, length - 1] = hashes % np.uint32(settings.buckets)
    chosen &= np.repeat([word != _END_OF_SENTENCE for word in words], lengths)[:, None]
    bounds = np.append(0, np.cumsum(chosen.sum(axis=1)))[np.append(0, word_ends)]
    return settings.first_row + found[chosen], bounds


def open_fasttext(path: str, max_words: int | None = None) -> Source:
    """Read the dictionary and map the matrix; load a compressed model with the fasttext package."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return _open(path, data, max_words)
    except (struct.error, EOFError) as error:
        raise StageError(f"{path}: this fastText model is damaged or incomplete; download it again") from error


def _open(path: str, data: mmap.mmap, max_words: int | None) -> Source:
    (version,) = struct.unpack_from("<i", data, len(MAGIC))
    if version > _NEWEST_VERSION:
        raise StageError(
            f"{path}: fastText format {version} is not supported; the newest supported is {_NEWEST_VERSION}"
        )
    position = len(MAGIC) + 4
    dimension, *_, model, buckets, shortest, longest, _, _ = _SETTINGS.unpack_from(data, position)
    if version < _NEWEST_VERSION and model == _SUPERVISED:
        longest = 0  # such models had the setting but did not use it
    position += _SETTINGS.size
    entries, word_count, _, _, pruned = _DICTIONARY.unpack_from(data, position)
    starts, ends = _find_words(data, position + _DICTIONARY.size, entries)
    vocabulary = Vocabulary(data, starts[:word_count][:max_words], ends[:word_count][:max_words])  # without labels
    position = int(ends[-1]) + _BEHIND_WORD + 8 * max(pruned, 0)
    quantised, rows, columns = _MATRIX.unpack_from(data, position)
    position += _MATRIX.size
    if quantised:
        return QuantisedModel(vocabulary, dimension, _load(path))
    ngrams = NgramSettings(shortest, longest if buckets > 0 else 0, buckets, word_count)
    if columns != dimension or rows < word_count + (buckets if ngrams.longest else 0) or pruned >= 0:
        raise StageError(
            f"{path}: its {rows} × {columns} matrix does not match its settings: it is damaged; download it again"
        )
    if position + rows * columns * 4 > len(data):
        raise EOFError
    matrix = np.frombuffer(data, np.uint8, rows * columns * 4, position).reshape(rows, columns * 4)
    return SubwordMatrix(vocabulary, dimension, matrix, ngrams)


def _find_words(data: mmap.mmap, position: int, count: int) -> tuple[Rows, Rows]:
    """Return where each entry of the dictionary starts and ends."""
    if count < 1:
        raise EOFError
    starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    for entry in range(count):
        end = data.find(b"\0", position)
        if end < 0:
            raise EOFError
        starts[entry], ends[entry] = position, end
        position = end + _BEHIND_WORD
    return starts, ends


def _load(path: str) -> Any:
    try:
        import fasttext
    except ImportError as missing:
        raise StageError(missing_extra(f"{path}: a compressed model", "fasttext-numpy2", "corpus")) from missing
    try:
        return fasttext.load_model(path)
    except (ValueError, RuntimeError) as error:
        raise StageError(f"fastText cannot load {path}: {error}") from error
