"""Open a file of word vectors, whatever its format."""

from __future__ import annotations

import os

from corpusgen.errors import StageError
from corpusgen.models.files import local_path
from corpusgen.models.vectors.fasttext import MAGIC, open_fasttext
from corpusgen.models.vectors.lookup import Source, WordVectors
from corpusgen.models.vectors.tables import open_npy, open_text, read_text

_KNOWN = "fastText .bin, word2vec and GloVe text (also .gz), and .npy with a file of its words"
_NUMPY = b"\x93NUMPY"
_HEAD = 4096


def open_vectors(path: str, words: str | None = None, max_words: int | None = None) -> WordVectors:
    """Open a file by its content: fastText's .bin, text of word2vec, fastText or GloVe, or a numpy matrix.

    `words` is the file of words of a numpy matrix. `max_words` keeps only the first words; in a fastText model the
    others still have vectors from their sub-words. fastText models and numpy matrices are mapped, so that all workers
    of a node share their memory; text is read into the memory of each. Files on S3 are fetched first.
    """
    return WordVectors(path, _open(local_path(path), words and local_path(words), max_words))


def _open(path: str, words: str | None, max_words: int | None) -> Source:
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        raise StageError(f"{path}: no such file of word vectors, or no permission to read it")
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if not head:
        raise StageError(f"{path}: the file of word vectors is empty")
    if words is not None and not head.startswith(_NUMPY):
        raise StageError(
            f"{path}: only an .npy matrix takes a file of words ({words}); other formats contain their words"
        )
    if head.startswith(_NUMPY):
        return open_npy(path, words, max_words)
    if head.startswith(MAGIC):
        return open_fasttext(path, max_words)
    with open_text(path) as text:
        head = text.read(_HEAD)
    if b"\0" in head:  # never in text, and early in any other format
        packed = " Unpack it first." if head.startswith((MAGIC, _NUMPY)) else ""
        raise StageError(f"{path}: unknown format; supported are {_KNOWN}.{packed}")
    return read_text(path, max_words)
