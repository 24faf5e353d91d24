"""word2vec's binary format, as gensim and the original program write it."""

import gzip
from pathlib import Path

import gensim
import numpy as np
import pytest

from corpusgen.errors import StageError
from corpusgen.models.vectors import open_source, open_vectors
from corpusgen.models.vectors.binary import is_binary
from corpusgen.models.vectors.tables import Table

WORDS = ["the", "naïve", "北京", "u.s.", "«", "don't", "1990", "zero"]
MATRIX = np.random.default_rng(4).normal(0, 0.3, (len(WORDS), 7)).astype(np.float32)
MATRIX[-1] = 0


def write_with_gensim(path, words=WORDS, matrix=MATRIX):
    table = gensim.models.KeyedVectors(matrix.shape[1])
    table.add_vectors(words, matrix)
    table.save_word2vec_format(path, binary=True)
    return str(path)


def write_as_the_original(path):
    """It ends each row with a line feed."""
    rows = [word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(WORDS, MATRIX, strict=True)]
    Path(path).write_bytes(f"{len(WORDS)} 7\n".encode() + b"".join(rows))
    return str(path)


@pytest.mark.parametrize("write", [write_with_gensim, write_as_the_original])
def test_words_and_vectors_are_those_that_were_written(tmp_path, write):
    source = open_source(write(tmp_path / "vectors.bin"))
    assert isinstance(source, Table)
    assert list(source.vocabulary) == WORDS
    assert source.matrix.tobytes() == MATRIX.tobytes()
    assert list(open_vectors(str(tmp_path / "vectors.bin"), max_words=3).vocabulary) == WORDS[:3]


def test_a_gzipped_file_is_read_as_it_is(tmp_path):
    data = Path(write_with_gensim(tmp_path / "vectors.bin")).read_bytes()
    (tmp_path / "vectors.bin.gz").write_bytes(gzip.compress(data))
    assert open_vectors(str(tmp_path / "vectors.bin.gz")).knows([*WORDS, "other"]).tolist() == [True] * 8 + [False]


def test_rows_longer_than_a_block_and_many_rows_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("corpusgen.models.vectors.binary._BLOCK", 64)
    monkeypatch.setattr("corpusgen.models.vectors.binary._ROWS_AT_ONCE", 3)
    words = [f"w{number}" for number in range(50)]
    matrix = np.random.default_rng(0).normal(size=(50, 40)).astype(np.float32)
    source = open_source(write_with_gensim(tmp_path / "vectors.bin", words, matrix))
    assert list(source.vocabulary) == words
    assert source.vectors([b""] * 50, np.arange(50)).tobytes() == matrix.tobytes()


def test_text_is_not_taken_for_binary():
    assert not is_binary(b"2 2\nna\xc3\xafve 0.1 -2e-5\n")
    assert not is_binary(b"word 0.1 0.2\n")
    assert is_binary(b"2 2\nna\xc3\xafve " + np.array([0.1, 0.2], "<f4").tobytes())


def test_a_file_that_was_cut_is_refused(tmp_path):
    data = Path(write_with_gensim(tmp_path / "vectors.bin")).read_bytes()
    (tmp_path / "vectors.bin").write_bytes(data[:-1])
    with pytest.raises(StageError, match=r"vectors\.bin: 8 words expected, 7 found: it is damaged"):
        open_vectors(str(tmp_path / "vectors.bin"))
