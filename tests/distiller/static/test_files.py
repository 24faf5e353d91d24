"""Every format gives back what was written: to this package, and to gensim and model2vec."""

import os
from pathlib import Path

import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import given
from hypothesis import strategies as st
from model2vec import StaticModel
from safetensors.numpy import load_file

from corpusgen.errors import ConfigError, StageError, StoreError
from corpusgen.models.vectors import open_vectors
from distiller.static.card import Card
from distiller.static.files import files_written, format_of, is_writable
from distiller.static.vectors import StaticVectors
from tests.distiller.static.support import COUNTS, MATRIX, WORDS, odd_words

PATHS = ["vectors.txt", "vectors.vec", "vectors.bin", "vectors.npy", "vectors"]


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("counts", [None, COUNTS])
def test_a_table_is_read_as_it_was_written(root, name, counts):
    odd_words(counts).save(f"{root}/{name}")
    again = StaticVectors.load(f"{root}/{name}")
    assert list(again.words) == WORDS
    assert again.vectors.tobytes() == MATRIX.tobytes()
    assert (again.counts is None) == (counts is None)
    assert counts is None or again.counts.tolist() == counts


@pytest.mark.parametrize("name", PATHS)
def test_corpusgen_reads_it(tmp_path, name):
    odd_words().save(str(tmp_path / name))
    vectors = open_vectors(str(tmp_path / name))
    assert list(vectors.vocabulary) == WORDS
    lengths = np.linalg.norm(MATRIX, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors.lookup(WORDS), MATRIX / np.where(lengths == 0, 1, lengths), atol=1e-6)


@pytest.mark.parametrize(("name", "binary"), [("vectors.txt", False), ("vectors.bin", True)])
def test_gensim_reads_it_with_its_counts(tmp_path, name, binary):
    path = str(tmp_path / name)
    odd_words().save(path)
    read = KeyedVectors.load_word2vec_format(path, fvocab=f"{path}.vocab", binary=binary)
    assert read.index_to_key == WORDS
    assert read.vectors.tobytes() == MATRIX.tobytes()
    assert [read.get_vecattr(word, "count") for word in WORDS] == COUNTS


def test_numpy_reads_the_matrix(tmp_path):
    odd_words().save(str(tmp_path / "vectors.npy"))
    assert np.load(tmp_path / "vectors.npy").tobytes() == MATRIX.tobytes()
    assert (tmp_path / "vectors.words.txt").read_text().splitlines() == WORDS


def test_model2vec_encodes_texts_as_we_do(tmp_path):
    vectors = odd_words()
    vectors.save(str(tmp_path / "vectors"))
    model = StaticModel.from_pretrained(tmp_path / "vectors")
    texts = ["The naïve U.S., don't «wait»...", "北京 3.5 C++", "zero", "1990 unknown 1990 " * 400]
    np.testing.assert_allclose(model.encode(texts), vectors.encode(texts), atol=1e-5)
    assert model.dim == 6
    assert load_file(tmp_path / "vectors/model.safetensors")["embeddings"].shape == (len(WORDS) + 1, 6)


def test_large_tables_are_written_block_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr("distiller.static.vectors._ROWS_AT_ONCE", 4)
    for name in PATHS:
        odd_words().save(str(tmp_path / name))
        again = StaticVectors.load(str(tmp_path / name))
        assert (list(again.words), again.vectors.tobytes()) == (WORDS, MATRIX.tobytes())


words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8)
# Of two dimensions and less, bytes of floats may all be printable, and be taken for text.
rows = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=12, max_size=12)


@given(st.dictionaries(words, rows, min_size=1, max_size=6), st.sampled_from(PATHS))
def test_any_words_and_numbers_survive(tmp_path_factory, table, name):
    path = str(tmp_path_factory.mktemp("any") / name)
    StaticVectors.of(list(table), np.array(list(table.values()), np.float32)).save(path)
    again = StaticVectors.load(path)
    assert list(again.words) == list(table)
    assert again.vectors.tobytes() == np.array(list(table.values()), np.float32).tobytes()


@pytest.mark.parametrize("word", ["new york", "", "a\tb", "a\nb", "a\u00a0b", "\x00", "\x85"])
@pytest.mark.parametrize("name", PATHS)
def test_words_that_no_file_can_hold_are_refused_and_can_be_left_out(tmp_path, word, name):
    path = tmp_path / name
    table = StaticVectors.of(["a", word, "b", "a"], np.arange(8).reshape(4, 2), [4, 3, 2, 1])
    with pytest.raises(ConfigError, match="cannot be written: a word in a file must not be empty nor contain white"):
        table.save(str(path))
    assert os.listdir(tmp_path) == []
    assert not is_writable(word)
    kept, left_out = table.writable()
    assert (list(kept.words), left_out, kept.counts.tolist()) == (["a", "b"], [word, "a"], [4, 2])
    assert kept.vectors.tolist() == [[0, 1], [4, 5]]
    kept.save(str(path))


def test_a_word_that_occurs_twice_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="'a' occurs twice"):
        StaticVectors.of(["a", "a"], np.ones((2, 3))).save(str(tmp_path / "v.txt"))


def test_the_ending_says_the_format_unless_somebody_does(tmp_path):
    assert [format_of(name) for name in (*PATHS, "some.model/", "s3://bucket/x")] == [
        *("text", "text", "binary", "npy", "model2vec"),
        *("model2vec", "model2vec"),
    ]
    with pytest.raises(ConfigError, match=r"glove\.300d: vectors are written as \.txt .* '\.300d' is none of these"):
        format_of("glove.300d")
    odd_words().save(str(tmp_path / "glove.300d"), "binary")
    assert list(StaticVectors.load(str(tmp_path / "glove.300d")).words) == WORDS
    with pytest.raises(ValueError, match="format must be one of text, binary, npy, model2vec, not 'parquet'"):
        odd_words().save(str(tmp_path / "v"), "parquet")


@pytest.mark.parametrize("name", PATHS)
def test_a_card_is_beside_the_vectors(tmp_path, name):
    card = Card("Combined vectors", {"of": "a | b", "c": 50}, "| task | score |\n|---|---|\n| RG-65 | 80 |")
    odd_words(None).save(str(tmp_path / name), card=card)
    path = tmp_path / name / "README.md" if name == "vectors" else tmp_path / f"{name}.README.md"
    text = path.read_text()
    assert text.startswith("---\nlibrary_name: wicdistil\n")
    for line in ("# Combined vectors", "| words | 15 |", "| dimension | 6 |", r"| of | a \| b |", "| RG-65 | 80 |"):
        assert f"\n{line}\n" in text
    written = {str(file) for file in tmp_path.rglob("*") if file.is_file()}
    assert written <= set(files_written(str(tmp_path / name), format_of(name)))


@pytest.mark.parametrize("name", PATHS)
def test_a_new_table_replaces_an_old_one_with_its_counts(tmp_path, name):
    odd_words().save(str(tmp_path / name))
    StaticVectors.of(["new"], np.ones((1, 3))).save(str(tmp_path / name))
    again = StaticVectors.load(str(tmp_path / name))
    assert (list(again.words), again.vectors.tolist(), again.counts) == (["new"], [[1, 1, 1]], None)


@pytest.mark.parametrize("name", PATHS)
def test_a_table_that_cannot_be_made_leaves_the_old_one(tmp_path, name):
    odd_words().save(str(tmp_path / name))
    damaged = StaticVectors.of(["a", "b"], [[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(StageError, match="the vector of 'b' is not a number"):
        damaged.save(str(tmp_path / name))
    assert StaticVectors.load(str(tmp_path / name)).counts.tolist() == COUNTS


def test_a_folder_of_someone_else_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ConfigError, match=r"this folder holds other files, such as README\.md; give a new folder"):
        odd_words().save(str(tmp_path), "model2vec")
    assert os.listdir(tmp_path) == ["README.md"]


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="a file or folder with that name is in the way"):
        odd_words().save(str(tmp_path / "file/vectors.txt"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("the 3\n", "its words are not those of the vectors"),
        ("a 1\nb x\n", "invalid literal"),
        ("a 1\nb -2\n", "below"),
    ],
)
def test_counts_of_something_else_are_refused(tmp_path, content, reason):
    path = str(tmp_path / "v.txt")
    StaticVectors.of(["a", "b"], np.ones((2, 3)), [3, 2]).save(path)
    Path(f"{path}.vocab").write_text(content)
    with pytest.raises(StageError, match=rf"v\.txt\.vocab: cannot read the counts of the words: .*{reason}"):
        StaticVectors.load(path)


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.bin", "vectors.npy"])
def test_the_first_words_may_be_enough(tmp_path, name):
    odd_words().save(str(tmp_path / name))
    first = StaticVectors.load(str(tmp_path / name), max_words=3)
    assert (list(first.words), first.vectors.tobytes()) == (WORDS[:3], MATRIX[:3].tobytes())
    assert first.counts.tolist() == COUNTS[:3]
