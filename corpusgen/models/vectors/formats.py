"""Open a file of word vectors, whatever its format."""

from __future__ import annotations

import os

from corpusgen.errors import StageError
from corpusgen.models.files import S3, is_on_s3, local_path
from corpusgen.models.vectors.binary import is_binary, read_binary
from corpusgen.models.vectors.fasttext import MAGIC, open_fasttext
from corpusgen.models.vectors.folder import open_folder
from corpusgen.models.vectors.lookup import Source, WordVectors
from corpusgen.models.vectors.tables import files_of_words, open_npy, open_text, read_text

_KNOWN = (
    "fastText .bin, word2vec text and binary and GloVe text (also .gz), .npy with a file of its words, "
    "and folders of model2vec with one vector per word"
)
_NUMPY = b"\x93NUMPY"
_HEAD = 4096


def open_vectors(path: str, words: str | None = None, max_words: int | None = None) -> WordVectors:
    """Open vectors as `open_source` does, to look up their directions."""
    return WordVectors(path, open_source(path, words, max_words))


def open_source(path: str, words: str | None = None, max_words: int | None = None) -> Source:
    """Open a file by its content: fastText's .bin, word2vec's .bin, text of word2vec, fastText or GloVe, or a numpy
    matrix; or a folder of model2vec.

    `words` is the file of words of a numpy matrix. `max_words` keeps only the first words; in a fastText model the
    others still have vectors from their sub-words. fastText models, numpy matrices and folders are mapped, so that all
    workers of a node share their memory; word2vec's formats are read into the memory of each. Files on S3 are fetched
    first.
    """
    if words is None and path.startswith(S3) and path.endswith(".npy"):
        words = next(filter(is_on_s3, files_of_words(path)), None)
    return _open(local_path(path), words and local_path(words), max_words)


def _open(path: str, words: str | None, max_words: int | None) -> Source:
    is_folder = os.path.isdir(path)
    if not is_folder and (not os.path.isfile(path) or not os.access(path, os.R_OK)):
        raise StageError(f"{path}: no such file of word vectors, or no permission to read it")
    head = b"" if is_folder else _head(path)
    if words is not None and not head.startswith(_NUMPY):
        raise StageError(
            f"{path}: only an .npy matrix takes a file of words ({words}); other formats contain their words"
        )
    if is_folder:
        return open_folder(path, max_words)
    if head.startswith(_NUMPY):
        return open_npy(path, words, max_words)
    if head.startswith(MAGIC):
        return open_fasttext(path, max_words)
    with open_text(path) as text:
        head = text.read(_HEAD)
    if is_binary(head):
        return read_binary(path, max_words)
    if b"\0" in head:  # never in text, and early in any other format
        packed = " Unpack it first." if head.startswith((MAGIC, _NUMPY)) else ""
        raise StageError(f"{path}: unknown format; supported are {_KNOWN}.{packed}")
    return read_text(path, max_words)


def _head(path: str) -> bytes:
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if not head:
        raise StageError(f"{path}: the file of word vectors is empty")
    return head
