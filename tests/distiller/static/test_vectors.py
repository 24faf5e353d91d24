"""`StaticVectors`: looking words up, comparing them, and encoding texts."""

import doctest
import mmap

import fasttext
import numpy as np
import pytest
from gensim.models import KeyedVectors
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.errors import StageError
from distiller import StaticVectors
from distiller.errors import EmptyTextError, ItemError, UnknownWordError
from distiller.static import vectors as module
from tests.distiller.static.support import COUNTS, MATRIX, WORDS, odd_words, random_table


def test_the_examples_of_the_documentation():
    result = doctest.testmod(module)
    assert (result.failed, result.attempted >= 5) == (0, True)


def test_words_are_looked_up_as_written_and_unknown_ones_are_marked():
    vectors = odd_words()
    assert (len(vectors), vectors.dimension) == (15, 6)
    assert ["u.s." in vectors, "U.S." in vectors, "" in vectors, 3 in vectors] == [True, False, False, False]
    found, known = vectors.lookup(["«", "nothing", "the"])
    assert known.tolist() == [True, False, True]
    assert found.tobytes() == np.stack([MATRIX[3], np.zeros(6, np.float32), MATRIX[0]]).tobytes()
    assert vectors["3.5"].tobytes() == MATRIX[WORDS.index("3.5")].tobytes()
    assert vectors.lookup([])[0].shape == (0, 6)


def test_an_unknown_word_is_a_key_error_that_says_so():
    with pytest.raises(UnknownWordError, match=r"^'NAÏVE' has no vector, but 'naïve' has one$"):
        odd_words()["NAÏVE"]
    with pytest.raises(KeyError, match=r"^'something else' has no vector$"):
        odd_words().nearest("something else")


def test_arrays_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match=r"2 words, but vectors of shape \(3, 1\)"):
        StaticVectors.of(["a", "b"], [[1], [2], [3]])
    with pytest.raises(ValueError, match="2 words, but 1 counts"):
        StaticVectors.of(["a", "b"], [[1], [2]], counts=[1])


@pytest.mark.parametrize("name", ["vectors.npy", "vectors"])
def test_matrices_and_folders_are_mapped(tmp_path, name):
    odd_words().save(str(tmp_path / name))
    base = StaticVectors.load(str(tmp_path / name)).vectors
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)


def test_neighbours_and_analogies_are_those_of_gensim():
    vectors = random_table(200, 8)
    gensim = KeyedVectors(8)
    gensim.add_vectors(list(vectors.words), vectors.vectors)
    for word in ("w0", "w77"):
        ours, theirs = vectors.nearest(word, k=5), gensim.most_similar(word, topn=5)
        assert [each.word for each in ours] == [name for name, _ in theirs]
        np.testing.assert_allclose([each.cosine for each in ours], [cosine for _, cosine in theirs], atol=1e-5)
    theirs = gensim.most_similar(positive=["w2", "w3"], negative=["w1"], topn=4)
    assert [each.word for each in vectors.analogy("w1", "w2", "w3", k=4)] == [name for name, _ in theirs]
    assert vectors.similarity("w1", "w2") == pytest.approx(float(gensim.similarity("w1", "w2")), abs=1e-6)


def test_a_vector_has_neighbours_too(monkeypatch):
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 4)
    vectors = odd_words()
    assert vectors.nearest(3 * vectors["«"], k=1)[0].word == "«"
    assert len(vectors.nearest(vectors["«"], k=100)) == 15
    assert len(vectors.nearest("«", k=100)) == 14  # without itself
    assert vectors.nearest(vectors["zero"], k=2) == [("the", 0), (",", 0)]
    with pytest.raises(ValueError, match=r"expected one vector of 6 dimensions, got an array of shape \(2,\)"):
        vectors.nearest([1, 2])
    with pytest.raises(ValueError, match="k must be at least 0"):
        vectors.nearest("«", k=-1)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_the_nearest_have_the_highest_cosines(seed, k):
    vectors = random_table(12, 3, seed)
    found = vectors.nearest("w0", k)
    cosines = {word: vectors.similarity("w0", word) for word in vectors.words if word != "w0"}
    assert [each.cosine for each in found] == pytest.approx(sorted(cosines.values(), reverse=True)[:k], abs=1e-5)


# ---------------------------------------------------------------------- texts


def test_a_text_is_the_mean_of_its_known_words():
    vectors = odd_words()
    wanted = MATRIX[[WORDS.index(word) for word in ("the", "u.s.", ",", "the")]].mean(axis=0)
    np.testing.assert_allclose(vectors.encode("The U.S., the unknown"), wanted, atol=1e-6)
    assert vectors.split(["The U.S., the Unknown"]) == [["the", "u.s.", ",", "the", "unknown"]]
    both = vectors.encode(["naïve", "The U.S., the"], normalize=True)
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1, atol=1e-6)
    assert vectors.encode([]).shape == (0, 6)


def test_frequent_words_weigh_less_with_sif():
    vectors = odd_words()
    share = np.array(COUNTS) / sum(COUNTS)
    weights = 1e-2 / (1e-2 + share[[0, 4]])
    wanted = weights @ MATRIX[[0, 4]] / weights.sum()
    np.testing.assert_allclose(vectors.encode("the naïve", sif=1e-2), wanted, atol=1e-6)


def test_sif_needs_counts():
    with pytest.raises(ValueError, match="sif needs the counts of the words"):
        odd_words(None).encode("the", sif=1e-3)
    with pytest.raises(ValueError, match="sif must be above 0, not 0"):
        odd_words().encode("the", sif=0)


def test_a_text_without_known_words_is_an_error_or_zeros(monkeypatch):
    monkeypatch.setattr(module, "_TEXTS_AT_ONCE", 2)
    vectors = odd_words()
    with pytest.raises(EmptyTextError, match="item 2: no word of 'nothing here' has a vector"):
        vectors.encode(["the", "naïve", "nothing here"])
    with pytest.raises(EmptyTextError, match="item 0: the text is empty"):
        vectors.encode("  ")
    assert vectors.encode(["the", "nothing here", " "], zeros=True).any(axis=1).tolist() == [True, False, False]
    with pytest.raises(ItemError, match="item 1: a text must be a string, not int"):
        vectors.encode(["the", 3], zeros=True)


@given(st.lists(st.sampled_from([*WORDS, "unknown", "The"]), min_size=1, max_size=12), st.randoms())
def test_a_text_does_not_depend_on_the_order_of_its_words(words, random):
    vectors = odd_words()
    shuffled = random.sample(words, len(words))
    first, second = vectors.encode([" ".join(words), " ".join(shuffled)], zeros=True)
    np.testing.assert_allclose(first, second, atol=1e-6)


# ------------------------------------------------------------------- sub-words


@pytest.fixture(scope="module")
def fasttext_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fasttext")
    (folder / "texts.txt").write_text("river bank water\nmoney bank loan\n" * 100)
    options = {"dim": 5, "minCount": 1, "epoch": 1, "thread": 12, "verbose": 0, "minn": 2, "maxn": 3, "bucket": 97}
    model = fasttext.train_unsupervised(str(folder / "texts.txt"), **options)
    model.save_model(str(folder / "model.bin"))
    return str(folder / "model.bin"), model


def test_a_model_of_fasttext_has_vectors_of_unknown_words(fasttext_model):
    path, model = fasttext_model
    vectors = StaticVectors.load(path)
    assert list(vectors.words) == model.words
    found, has_vector = vectors.lookup(["bank", "banks"])
    assert has_vector.tolist() == [True, True]
    assert vectors.knows(["bank", "banks"]).tolist() == [True, False]
    assert "banks" not in vectors
    assert found.tobytes() == np.stack([model.get_word_vector(word) for word in ("bank", "banks")]).tobytes()
    assert vectors.vectors.tobytes() == np.stack([model.get_word_vector(word) for word in model.words]).tobytes()
    np.testing.assert_allclose(vectors.encode("Bank, banks."), vectors.lookup(["bank", ",", "banks", "."])[0].mean(0))


def test_a_saved_model_of_fasttext_has_its_words_only(fasttext_model, tmp_path):
    vectors = StaticVectors.load(fasttext_model[0])
    vectors.save(str(tmp_path / "words.bin"))
    again = StaticVectors.load(str(tmp_path / "words.bin"))
    assert again.vectors.tobytes() == vectors.vectors.tobytes()
    assert again.lookup(["banks"])[1].tolist() == [False]


def test_a_damaged_vector_is_named():
    vectors = StaticVectors.of(["good", "bad"], [[1.0, 2.0], [np.inf, 0.0]])
    assert vectors["good"].tolist() == [1, 2]
    with pytest.raises(StageError, match="the vector of 'bad' is not a number"):
        vectors.nearest("good")


def test_a_missing_file_is_an_error_with_its_name(tmp_path):
    with pytest.raises(StageError, match=r"nowhere\.txt: no such file of word vectors"):
        StaticVectors.load(str(tmp_path / "nowhere.txt"))
