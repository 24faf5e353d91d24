"""Read a folder that model2vec loads as a `StaticModel`, if it has one row per word; the matrix is mapped.

The files are `tokenizer.json`, whose vocabulary gives each word its row, and `model.safetensors` with the tensor
`embeddings`.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from corpusgen.errors import StageError
from corpusgen.models.vectors.tables import Table
from corpusgen.models.vectors.vocabulary import Vocabulary

TOKENIZER, MATRIX, TENSOR = "tokenizer.json", "model.safetensors", "embeddings"
_TYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
_QUANTISED = {"mapping", "weights"}


def open_folder(path: str, max_words: int | None = None) -> Table:
    """Map the matrix and read the words of its rows, without the row that stands for unknown words."""
    missing = [name for name in (TOKENIZER, MATRIX) if not os.path.isfile(os.path.join(path, name))]
    if missing:
        raise StageError(f"{path}: this folder has no {' and no '.join(missing)}: it holds no static vectors")
    words, unknown = _words(os.path.join(path, TOKENIZER))
    matrix = _matrix(os.path.join(path, MATRIX))
    if len(matrix) != len(words):
        raise StageError(
            f"{path}: {MATRIX} has {len(matrix)} rows, but {TOKENIZER} has {len(words)} words; "
            "one of them is damaged or does not belong here"
        )
    if unknown is not None:
        last = len(words) - 1
        matrix = matrix[:last] if unknown == last else np.delete(matrix, unknown, axis=0)
        del words[unknown]
    return Table(Vocabulary.of(words[:max_words]), matrix)


def _words(path: str) -> tuple[list[str], int | None]:
    """Return the words in the order of their rows, and the row of the unknown word if there is one."""
    try:
        with open(path, "rb") as file:
            content = json.load(file)
        model = content["model"]
        if model["type"] != "WordLevel":
            raise StageError(
                f"{path}: a tokenizer of the type {model['type']}, whose entries are pieces of words; "
                "only folders with one vector per word (WordLevel) are supported"
            )
        row_of: dict[str, int] = {
            **model["vocab"],
            **{token["content"]: token["id"] for token in content.get("added_tokens", [])},
        }
        words = sorted(row_of, key=row_of.__getitem__)
        if [row_of[word] for word in words] != list(range(len(words))):
            raise ValueError("the numbers of its words have gaps")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StageError(f"{path}: not a readable tokenizer: {error!r}; make or download it again") from error
    return words, row_of.get(model.get("unk_token"))


def _matrix(path: str) -> npt.NDArray[np.floating[Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:  # checks the header against the size of the file
            names = set(file.keys())
        with open(path, "rb") as raw:
            size = int.from_bytes(raw.read(8), "little")
            header = json.loads(raw.read(size))
    except (OSError, ValueError, SafetensorError) as error:
        raise StageError(f"{path}: damaged or incomplete: {error}; make or download it again") from error
    if TENSOR not in names or names & _QUANTISED:
        raise StageError(f"{path}: expected the tensor {TENSOR!r} alone, got {', '.join(sorted(names))}")
    kind, shape = header[TENSOR]["dtype"], header[TENSOR]["shape"]
    if kind not in _TYPES or len(shape) != 2 or 0 in shape:
        raise StageError(f"{path}: expected a matrix of floats, got {kind} of shape {shape}")
    offset = 8 + size + header[TENSOR]["data_offsets"][0]
    mapped = np.memmap(path, _TYPES[kind], "r", offset, (shape[0], shape[1]))
    return np.asarray(mapped)
