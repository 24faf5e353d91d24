"""Every format gives the same vectors, and says clearly what is wrong with a file."""

import gzip
import mmap
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusgen.errors import StageError
from corpusgen.models.vectors import open_vectors
from corpusgen.models.vectors.tables import open_npy, read_text
from tests.corpusgen.models.vectors.support import KINDS, MATRIX, WORDS, lines, write


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_same_vectors(tmp_path, kind):
    vectors = open_vectors(write(tmp_path, kind))
    lengths = np.linalg.norm(MATRIX.astype(np.float64), axis=1, keepdims=True)
    wanted = (MATRIX / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    assert list(vectors.vocabulary) == WORDS
    assert vectors.dimension == 7
    assert vectors.lookup([*WORDS, "unknown"]).tobytes() == np.vstack([wanted, np.zeros(7, np.float32)]).tobytes()
    assert vectors.knows([*WORDS, "unknown", ""]).tolist() == [True] * len(WORDS) + [False, False]


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_first_words_are_taken(tmp_path, kind):
    vectors = open_vectors(write(tmp_path, kind), max_words=3)
    assert list(vectors.vocabulary) == WORDS[:3]
    assert vectors.lookup(WORDS).any(axis=1).tolist() == [True] * 3 + [False] * 7


def test_more_words_than_there_are_is_all_of_them(tmp_path):
    assert list(open_vectors(write(tmp_path, "vec"), max_words=1000).vocabulary) == WORDS


def test_words_of_a_matrix_may_have_any_name(tmp_path):
    path = write(tmp_path, "npy")
    (tmp_path / "vectors.words").rename(tmp_path / "elsewhere")
    with pytest.raises(StageError, match=r"no file with its words.*\.words\.txt, .*\.txt or .*\.words"):
        open_vectors(path)
    with pytest.raises(StageError, match="nowhere: cannot read the words: No such file"):
        open_vectors(path, words=str(tmp_path / "nowhere"))
    assert list(open_vectors(path, words=str(tmp_path / "elsewhere")).vocabulary) == WORDS


def test_words_of_a_matrix_may_be_a_column_of_parquet(tmp_path):
    path = write(tmp_path, "npy")
    words = tmp_path / "words.parquet"
    pq.write_table(pa.table({"word": WORDS, "count": range(len(WORDS))}), words)
    assert list(open_vectors(path, words=str(words)).vocabulary) == WORDS
    pq.write_table(pa.table({"count": range(len(WORDS))}), words)
    with pytest.raises(StageError, match="the first column does not hold words"):
        open_vectors(path, words=str(words))


def test_a_matrix_is_mapped_and_not_read(tmp_path):
    base = open_npy(write(tmp_path, "npy")).matrix
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)


def test_text_needs_little_more_memory_than_its_matrix(tmp_path):
    path = tmp_path / "big.txt"
    numbers = " ".join(["0.25", "-1.5"] * 100)
    path.write_text("".join(f"w{number} {numbers}\n" for number in range(20_000)))
    tracemalloc.start()
    table = read_text(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.matrix.shape == (20_000, 200)
    assert (table.matrix == np.array([0.25, -1.5] * 100, np.float32)).all()
    assert peak < 2 * table.matrix.nbytes


def test_the_first_of_two_equal_words_counts(tmp_path):
    path = tmp_path / "twice.txt"
    path.write_text("a 0 1\nb 0 1\na 1 0\n")
    assert open_vectors(str(path)).lookup(["a"]).tolist() == [[0, 1]]


def test_a_second_space_before_the_numbers_is_not_part_of_the_word(tmp_path):
    path = tmp_path / "spaces.vec"
    path.write_text("2 2\na  0 1\nb c  1 0\n")
    assert list(open_vectors(str(path)).vocabulary) == ["a", "b c"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [("word 1 2", "word 1 2"), ("word 1 two 3", "word 1 two 3"), ("word 1 nan 3", "nan"), ("", "''"), ("1 2", "1 2")],
)
@pytest.mark.parametrize("header", ["", "30001 3\n"])
def test_a_broken_line_is_named(tmp_path, line, shown, header):
    path = tmp_path / "broken.txt"
    good = "".join(f"word{number} 0.12345 -0.12345 1e-3\n" for number in range(30_000))
    path.write_text(header + good + line + "\n")
    number = 30_002 if header else 30_001
    with pytest.raises(StageError, match=rf"broken\.txt, line {number}: expected a word and 3 numbers, got .*{shown}"):
        open_vectors(str(path))


def binary_word2vec():
    return b"2 3\n" + b"".join(word + b" " + np.ones(3, np.float32).tobytes() + b"\n" for word in (b"a", b"b"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "no such file of word vectors"),
        (b"", "is empty"),
        (binary_word2vec()[:-3], "2 words expected, 1 found: it is damaged"),
        (binary_word2vec().replace(b"2 3", b"1 3"), "1 words expected, more found: it is damaged"),
        (b"2 3\na " + np.full(6, np.nan, "<f4").tobytes(), "a vector after row 0 is not a number"),
        (b"9 3\na " + bytes(12) + b"\xff" * 200_000, "9 words expected, 1 found"),
        (b"PK\x03\x04\x14\0\0\0", "unknown format"),
        (gzip.compress(b"\x93NUMPY\x01\0", mtime=0), "Unpack it first"),
        (gzip.compress(b"\xba\x16\x4f\x2f\x0c\0\0\0", mtime=0), "Unpack it first"),
        (gzip.compress(lines().encode(), mtime=0)[:-20], "damaged or incomplete"),
        (b"\x1f\x8bnonsense", "damaged or incomplete"),
        (b"just some prose\nof two lines\n", "first line is neither"),
        (b"\n", "first line is neither"),
        (b"3 2\na 1 2\nb 3 4\n", "3 words expected, 2 found: it is incomplete"),
        (b"1 2\na 1 2\nb 3 4\n", "1 words expected, 2 found"),
        (b"\x93NUMPY\x01\0", "as a matrix"),
    ],
)
def test_an_unusable_file_is_refused(tmp_path, content, complaint):
    path = tmp_path / "some.vectors"
    (tmp_path / "some.vectors.txt").write_text("a\nb\n")
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StageError, match=complaint) as error:
        open_vectors(str(path))
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("matrix", "complaint"),
    [
        (np.ones((2, 3), np.float32), "has 2 rows, but .*m.txt has 3 words"),
        (np.ones(3, np.float32), "expected a matrix of floats"),
        (np.ones((3, 2), np.int64), "expected a matrix of floats, got int64"),
        (np.array([[None]]), "cannot map .* as a matrix"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(tmp_path, matrix, complaint):
    np.save(tmp_path / "m.npy", matrix)
    (tmp_path / "m.txt").write_text("a\nb\nc")
    with pytest.raises(StageError, match=complaint):
        open_vectors(str(tmp_path / "m.npy"))


def test_words_for_a_file_that_has_its_own_are_refused(tmp_path):
    with pytest.raises(StageError, match=r"only an \.npy matrix takes a file of words"):
        open_vectors(write(tmp_path, "vec"), words=str(tmp_path / "words"))


def test_a_row_that_is_no_number_is_refused_when_it_is_used(tmp_path):
    np.save(tmp_path / "m.npy", np.array([[1, 0], [np.nan, 1]], np.float32))
    (tmp_path / "m.txt").write_text("good\nbad\n")
    vectors = open_vectors(str(tmp_path / "m.npy"))
    assert vectors.lookup(["good"]).tolist() == [[1, 0]]
    with pytest.raises(StageError, match=r"m\.npy: the vector of 'bad' is not a number"):
        vectors.lookup(["good", "bad"])
