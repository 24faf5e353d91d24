"""Files of static vectors: word2vec's text and binary formats, a numpy matrix with its words, and a model2vec folder.

`corpusgen.models.vectors` reads all of them. Counts of the words, if there are any, are beside them in word2vec's
format for vocabularies, lines of a word and its count, and so is a card. Each file appears only when it is complete.
An old table stays until the new matrix is complete; then its other files are removed before the matrix takes its place,
so that no reader sees parts of two tables.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from corpusgen.errors import ConfigError, StageError
from corpusgen.io.files import Files, open_files
from corpusgen.models.files import S3, is_on_s3, local_path
from corpusgen.models.vectors.folder import MATRIX, TENSOR, TOKENIZER
from corpusgen.models.vectors.tables import files_of_words

Format = Literal["text", "binary", "npy", "model2vec"]
Counts = npt.NDArray[np.int64]

_ENDINGS: dict[str, Format] = {".txt": "text", ".vec": "text", ".bin": "binary", ".npy": "npy", "": "model2vec"}
_CONFIG, _CARD, _COUNTS = "config.json", "README.md", ".vocab"
_COUNTS_IN_FOLDER = "words.vocab"
_UNWRITABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def format_of(path: str) -> Format:
    """Return the format that the end of a path stands for; a path without an ending is a folder for model2vec."""
    ending = "" if path.endswith("/") else os.path.splitext(os.path.basename(path))[1]
    if ending not in _ENDINGS:
        raise ConfigError(
            f"{path}: vectors are written as .txt or .vec (word2vec's text), .bin (its binary format), .npy, or to a "
            f"folder for model2vec, whose name ends in / if it has a full stop; {ending!r} is none of these"
        )
    return _ENDINGS[ending]


def check_target(path: str, sources: Iterable[str] = ()) -> None:
    """Raise ConfigError if no vectors can be written to a path, or if that would overwrite what they are made of."""
    form = format_of(path)
    written = {_place(file) for file in (path, *files_written(path, form))}
    for source in sources:
        beside = files_of_words(source) if source.endswith(".npy") else []
        if written & {_place(file) for file in (source, *beside, source + _COUNTS)}:
            raise ConfigError(f"{path}: this would overwrite {source} or a file that belongs to it; give another name")
    if form == "model2vec":
        _check_folder(open_files(path.rstrip("/")))


def _place(path: str) -> str:
    return path.rstrip("/") if path.startswith(S3) else os.path.realpath(os.path.expanduser(path))


def files_written(path: str, form: Format) -> list[str]:
    """Return the files that saving vectors writes or removes."""
    if form == "model2vec":
        names = (_CONFIG, MATRIX, TOKENIZER, _COUNTS_IN_FOLDER, _CARD)
        return [f"{path.rstrip('/')}/{name}" for name in names]
    words = files_of_words(path)[:1] if form == "npy" else []
    return [path, *words, path + _COUNTS, f"{path}.{_CARD}"]


def is_writable(word: str) -> bool:
    """Return whether every format can hold a word: it is not empty, and has no white space or control character."""
    return bool(word) and not _UNWRITABLE.search(word)


def write_vectors(
    path: str,
    form: Format,
    words: Sequence[str],
    dimension: int,
    blocks: Iterable[npt.NDArray[np.float32]],
    counts: Counts | None,
    card: str,
) -> None:
    """Write a table, on a disk or on S3; `blocks` are its rows, some at a time."""
    if form not in get_args(Format):
        raise ValueError(f"format must be one of {', '.join(get_args(Format))}, not {form!r}")
    _check(path, words)
    if form == "model2vec":
        files = open_files(path.rstrip("/"))
        _check_folder(files)
        _write_folder(files, words, dimension, blocks, counts, card)
        return
    folder, _, name = path.rpartition("/")
    files = open_files(folder or ("/" if path.startswith("/") else "."))
    size, beside = (len(words), dimension), [name + _COUNTS]
    if form == "npy":
        beside += files_of_words(name)[:1]
        files.write_blocks(name, _clearing(files, beside, _npy(size, blocks)))
        files.write(files_of_words(name)[0], "".join(f"{word}\n" for word in words).encode())
    else:
        made = _text(words, size, blocks) if form == "text" else _binary(words, size, blocks)
        files.write_blocks(name, _clearing(files, beside, made))
    _write_counts(files, name + _COUNTS, words, counts)
    files.write(f"{name}.{_CARD}", card.encode())


def _check(path: str, words: Sequence[str]) -> None:
    seen: set[str] = set()
    for word in words:
        if not is_writable(word):
            raise ConfigError(
                f"{path}: {word!r} cannot be written: a word in a file must not be empty nor contain white space or "
                "control characters; leave it out (`StaticVectors.writable` does)"
            )
        if word in seen:
            raise ConfigError(f"{path}: {word!r} occurs twice; leave one of them out (`StaticVectors.writable` does)")
        seen.add(word)


def _clearing(files: Files, names: Iterable[str], blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the blocks of a file, then remove other files just before it takes its place."""
    yield from blocks
    for name in names:
        files.delete(name)


# ----------------------------------------------------------------- one format each


def _text(words: Sequence[str], size: tuple[int, int], blocks: Iterable[npt.NDArray[np.float32]]) -> Iterator[bytes]:
    yield b"%d %d\n" % size
    line = " ".join(["%s", *["%.9g"] * size[1]]) + "\n"  # nine digits are enough to restore any float32
    for some, block in _with_words(words, blocks):
        yield "".join(line % (word, *row) for word, row in zip(some, block.tolist(), strict=True)).encode()


def _binary(words: Sequence[str], size: tuple[int, int], blocks: Iterable[npt.NDArray[np.float32]]) -> Iterator[bytes]:
    yield b"%d %d\n" % size
    for some, block in _with_words(words, blocks):
        rows = block.astype("<f4")
        yield b"".join(b"%b %b\n" % (word.encode(), row.tobytes()) for word, row in zip(some, rows, strict=True))


def _npy(size: tuple[int, int], blocks: Iterable[npt.NDArray[np.float32]]) -> Iterator[bytes]:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": size})
    yield header.getvalue()
    yield from (block.astype("<f4").tobytes() for block in blocks)


def _safetensors(size: tuple[int, int], blocks: Iterable[npt.NDArray[np.float32]]) -> Iterator[bytes]:
    """The library's own writer takes a whole matrix; the format is a length, a header in JSON, and the rows."""
    described = {"dtype": "F32", "shape": size, "data_offsets": [0, 4 * size[0] * size[1]]}
    header = json.dumps({TENSOR: described}).encode()
    header += b" " * (-len(header) % 8)  # so that the rows are aligned
    yield len(header).to_bytes(8, "little") + header
    yield from (block.astype("<f4").tobytes() for block in blocks)


def _with_words(
    words: Sequence[str], blocks: Iterable[npt.NDArray[np.float32]]
) -> Iterator[tuple[Sequence[str], npt.NDArray[np.float32]]]:
    start = 0
    for block in blocks:
        yield words[start : start + len(block)], block
        start += len(block)


# ---------------------------------------------------------------- folders of model2vec


def _write_folder(
    files: Files,
    words: Sequence[str],
    dimension: int,
    blocks: Iterable[npt.NDArray[np.float32]],
    counts: Counts | None,
    card: str,
) -> None:
    from distiller.static.tokens import make_tokenizer

    rows = _safetensors((len(words) + 1, dimension), _and_a_zero_row(blocks, dimension))
    files.write_blocks(MATRIX, _clearing(files, (_CONFIG, TOKENIZER, _COUNTS_IN_FOLDER), rows))
    files.write(TOKENIZER, make_tokenizer(words).to_str().encode())
    _write_counts(files, _COUNTS_IN_FOLDER, words, counts)
    files.write(_CARD, card.encode())
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "hidden_dim": dimension,
        "embedding_dtype": "float32",
        "normalize": False,
        "max_length": None,  # long texts are not cut
    }
    files.write(_CONFIG, json.dumps(config, indent=1).encode())


def _and_a_zero_row(blocks: Iterable[npt.NDArray[np.float32]], dimension: int) -> Iterator[npt.NDArray[np.float32]]:
    """The tokenizer needs a word for the unknown ones; model2vec leaves its row out of every mean."""
    yield from blocks
    yield np.zeros((1, dimension), np.float32)


def _check_folder(files: Files) -> None:
    """A folder with a file of someone else's is not a place for a table: README.md may be theirs."""
    names = {info.path for info in files.list("")}
    if names and not {MATRIX, TOKENIZER} & names:
        raise ConfigError(
            f"{files.url}: this folder holds other files, such as {min(names)}; give a new folder, or a file name "
            "that ends in .txt, .vec, .bin or .npy"
        )


# --------------------------------------------------------------- words and their counts


def _write_counts(files: Files, name: str, words: Sequence[str], counts: Counts | None) -> None:
    if counts is not None:
        lines = (f"{word} {count}\n" for word, count in zip(words, counts.tolist(), strict=True))
        files.write(name, "".join(lines).encode())


def read_counts(path: str, words: Sequence[str]) -> Counts | None:
    """Return the counts beside vectors, None if there are none; raise StageError if they are of other words."""
    is_folder = os.path.isdir(local_path(path))
    name = f"{path.rstrip('/')}/{_COUNTS_IN_FOLDER}" if is_folder else path + _COUNTS
    there = is_on_s3(name) if name.startswith(S3) else os.path.isfile(os.path.expanduser(name))
    if not there:
        return None
    try:
        with open(local_path(name), encoding="utf-8", newline="\n") as file:
            rows: list[Any] = [line.rstrip("\n").rpartition(" ") for line in file][: len(words)]
        if [word for word, _, _ in rows] != list(words):
            raise ValueError("its words are not those of the vectors")
        counts = np.array([int(count) for _, _, count in rows], np.int64)
        if (counts < 0).any():
            raise ValueError("a count is below zero")
    except (OSError, ValueError, OverflowError) as error:
        raise StageError(f"{name}: cannot read the counts of the words: {error}; remove it or make it again") from error
    return counts
