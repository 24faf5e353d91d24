"""Small files of vectors in every format."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

WORDS = ["the", "naïve", "of", "北京", "a", ". . .", "at name@domain.com", "don't", "zero", "1990"]
MATRIX = np.random.default_rng(3).normal(0, 0.3, (len(WORDS), 7)).astype(np.float32)
MATRIX[WORDS.index("zero")] = 0


def lines(words=WORDS, matrix=MATRIX, end="\n") -> str:
    rows = (" ".join(map(str, row.tolist())) for row in matrix)
    return "".join(f"{word} {row}{end}" for word, row in zip(words, rows, strict=True))


def write(folder: Path, kind: str) -> str:
    """The words and the matrix as a file of that kind."""
    header = f"{len(WORDS)} {MATRIX.shape[1]}\n"
    path = folder / f"vectors.{kind}"
    if kind in ("npy", "float64.npy"):
        np.save(path, MATRIX.astype(np.float64 if kind == "float64.npy" else np.float32))
        path.with_suffix(".words").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
        return str(path)
    text = {
        "txt": lines(),
        "txt.gz": lines(),
        "dos.txt": lines(end="\r\n"),
        "vec": header + lines(),
        "vec.gz": header + lines(),
        "fasttext.vec": header + lines(end=" \n"),
    }[kind]
    data = text.encode()
    path.write_bytes(gzip.compress(data) if kind.endswith(".gz") else data)
    return str(path)


KINDS = ["txt", "txt.gz", "dos.txt", "vec", "vec.gz", "fasttext.vec", "npy", "float64.npy"]
