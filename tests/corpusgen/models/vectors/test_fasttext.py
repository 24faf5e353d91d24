"""Models of fastText give what the package gives, to the bit."""

import mmap
import random
import struct
from pathlib import Path

import fasttext
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.errors import StageError
from corpusgen.models.vectors import WordVectors, open_vectors
from corpusgen.models.vectors.fasttext import NgramSettings, QuantisedModel, SubwordMatrix, ngram_rows, open_fasttext
from corpusgen.models.vectors.vocabulary import Vocabulary
from tests.testing.shared_data import shared_data

KNOWN = ["word", "naïve", "北京", "a", "é", "don't", "straße", "𝒳𝒴", "Здравствуй"]
UNKNOWN = ["wordy", "naïvely", "北", "b", "ü", "", "<", ">", "<>", "x" * 200, "𝒴", "</s>x", "a b", "привет", "\0"]
# Below ten threads fastText leaves part of its matrix uninitialised.
TINY = {"dim": 5, "minCount": 1, "epoch": 1, "thread": 12, "verbose": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fasttext")
    draw = random.Random(5)
    sentences = [" ".join(draw.choices(KNOWN, k=6)) for _ in range(200)]
    (folder / "plain.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    labelled = [f"__label__{draw.choice('xyz')} {sentence}" for sentence in sentences]
    (folder / "labelled.txt").write_text("\n".join(labelled) + "\n", encoding="utf-8")
    return folder


MODELS = {
    "subwords": {"minn": 2, "maxn": 4, "bucket": 97},
    "from single letters": {"minn": 1, "maxn": 3, "bucket": 50},
    "no subwords": {"minn": 0, "maxn": 0},
    "supervised": {"minn": 2, "maxn": 3, "bucket": 60},
    "supervised, large enough to compress": {"minn": 2, "maxn": 3, "bucket": 400},
    "supervised, word n-grams only": {"wordNgrams": 2, "bucket": 60},
}


@pytest.fixture(scope="module")
def trained(folder):
    """The path of a model by its name, trained once, and the package's own object."""
    models = {}

    def train(name: str):
        if name not in models:
            train = fasttext.train_supervised if "supervised" in name else fasttext.train_unsupervised
            text = folder / ("labelled.txt" if "supervised" in name else "plain.txt")
            path = str(folder / f"{name}.bin")
            train(str(text), **TINY, **MODELS[name]).save_model(path)
            models[name] = path, fasttext.load_model(path)
        return models[name]

    return train


def raw(path, words):
    source = open_fasttext(path)
    encoded = [word.encode() for word in words]
    return source.vectors(encoded, source.vocabulary.rows(encoded))


def units(model, words):
    vectors = np.stack([model.get_word_vector(word) for word in words]).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


@pytest.mark.parametrize("name", MODELS)
def test_vectors_are_those_of_the_package(trained, name):
    path, model = trained(name)
    words = [*KNOWN, *UNKNOWN, "</s>"]
    assert raw(path, words).tobytes() == np.stack([model.get_word_vector(word) for word in words]).tobytes()
    vectors = open_vectors(path)
    assert vectors.dimension == 5
    assert list(vectors.vocabulary) == model.words
    assert sorted(vectors.vocabulary) == sorted([*KNOWN, "</s>"])
    assert vectors.knows(words).tolist() == [word in KNOWN or word == "</s>" for word in words]
    np.testing.assert_allclose(vectors.lookup(words), units(model, words), atol=1e-6)
    has_subwords = name not in ("no subwords", "supervised, word n-grams only")
    assert vectors.lookup(["wordy"]).any() == has_subwords


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=8))
def test_ngrams_are_those_of_the_package(trained, words):
    model = trained("from single letters")[1]
    rows, bounds = ngram_rows([word.encode() for word in words], NgramSettings(1, 3, 50, len(model.words)))
    for word, start, end in zip(words, bounds[:-1], bounds[1:], strict=True):
        wanted = model.get_subwords(word)[1].tolist()
        assert rows[start:end].tolist() == [row for row in wanted if row >= len(model.words)]


@given(st.lists(st.one_of(st.sampled_from(KNOWN), st.text(max_size=12)), max_size=30))
def test_a_word_has_the_same_vector_in_any_company(words):
    encoded = [word.encode() for word in KNOWN]
    ends = np.cumsum([0, *map(len, encoded)])
    rows = np.random.default_rng(0).normal(size=(len(KNOWN) + 40, 300)).astype(np.float32)
    settings = NgramSettings(2, 5, 40, len(KNOWN))
    vocabulary = Vocabulary(b"".join(encoded), ends[:-1], ends[1:])
    source = SubwordMatrix(vocabulary, 300, rows.view(np.uint8), settings)
    alone = [WordVectors("", source, cache_bytes=1).lookup([word]).tobytes() for word in words]
    assert WordVectors("", source).lookup(words).tobytes() == b"".join(alone)


def test_hashes_take_bytes_as_signed():
    # FNV-1a of the bytes C3 A9, each extended by its sign, worked out by hand.
    value = 2166136261
    for byte in "é".encode():
        value = ((value ^ (byte | 0xFFFFFF00)) * 16777619) % 2**32
    rows, bounds = ngram_rows(["é".encode()], NgramSettings(1, 1, 1000, 10))
    assert (rows.tolist(), bounds.tolist()) == ([10 + value % 1000], [0, 1])


def test_lone_surrogates_are_words_like_others(trained):
    vectors = open_vectors(trained("subwords")[0])
    assert np.linalg.norm(vectors.lookup(["a\ud800"])) == pytest.approx(1)


def test_labels_are_no_words(trained):
    vectors = open_vectors(trained("supervised")[0])
    assert not vectors.knows(["__label__x"]).any()
    assert vectors.knows(["word"]).all()


def test_words_beyond_the_limit_have_vectors_by_their_subwords(trained):
    path, model = trained("subwords")
    vectors = open_vectors(path, max_words=2)
    assert list(vectors.vocabulary) == model.words[:2]
    last = model.words[-1]
    rows = model.get_subwords(last)[1][1:]
    wanted = model.get_input_matrix()[rows].sum(axis=0)
    np.testing.assert_allclose(vectors.lookup([last])[0], wanted / np.linalg.norm(wanted), atol=1e-5)


def test_the_matrix_is_mapped_and_not_read(trained):
    source = open_fasttext(trained("subwords")[0])
    assert isinstance(source, SubwordMatrix)
    base = source.matrix
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    assert isinstance(base, mmap.mmap)


@pytest.mark.parametrize("cutoff", [0, 300])
def test_compressed_models_go_through_the_package(trained, folder, cutoff):
    model = fasttext.load_model(trained("supervised, large enough to compress")[0])
    model.quantize(input=str(folder / "labelled.txt"), cutoff=cutoff, dsub=1, thread=12)
    path = str(folder / f"small{cutoff}.ftz")
    model.save_model(path)
    assert isinstance(open_fasttext(path), QuantisedModel)
    vectors = open_vectors(path)
    again = fasttext.load_model(path)
    assert list(vectors.vocabulary) == again.words
    words = [*KNOWN, "wordy", "</s>"]
    np.testing.assert_allclose(vectors.lookup(words), units(again, words), atol=1e-6)


def test_an_incomplete_model_is_refused(trained, tmp_path):
    data = Path(trained("subwords")[0]).read_bytes()
    path = tmp_path / "cut.bin"
    rows = len(KNOWN) + 1 + 97
    matrix_end = len(data) - (17 + (len(KNOWN) + 1) * 5 * 4)
    for size in (4, 7, 20, 80, 100, 150, matrix_end - rows * 5 * 4 - 3, matrix_end - 1):
        path.write_bytes(data[:size])
        with pytest.raises(StageError, match=r"cut\.bin: this fastText model is damaged or incomplete"):
            open_vectors(str(path))
    path.write_bytes(data[:matrix_end])  # the output matrix is not needed
    assert open_vectors(str(path)).lookup(["word"]).any()


@pytest.mark.parametrize(
    ("offset", "value", "complaint"),
    [
        (4, 13, "fastText format 13 is not supported"),
        (8, 6, "does not match its settings"),
        (40, 10**6, "does not match"),
    ],
)
def test_a_model_that_contradicts_itself_is_refused(trained, tmp_path, offset, value, complaint):
    data = bytearray(Path(trained("subwords")[0]).read_bytes())
    struct.pack_into("<i", data, offset, value)
    (tmp_path / "odd.bin").write_bytes(data)
    with pytest.raises(StageError, match=complaint):
        open_vectors(str(tmp_path / "odd.bin"))


def test_old_supervised_models_have_no_subwords(trained, tmp_path):
    data = bytearray(Path(trained("supervised")[0]).read_bytes())
    struct.pack_into("<i", data, 4, 11)
    path = str(tmp_path / "old.bin")
    Path(path).write_bytes(data)
    words = [*KNOWN, "wordy"]
    model = fasttext.load_model(path)
    assert raw(path, words).tobytes() == np.stack([model.get_word_vector(word) for word in words]).tobytes()
    assert not open_vectors(path).lookup(["wordy"]).any()


@pytest.mark.real
def test_vectors_of_a_real_model_are_those_of_the_package():
    path = str(shared_data("models/fasttext/enwiki-80d.bin"))
    model = fasttext.load_model(path)
    vectors = open_vectors(path)
    words = [
        *vectors.vocabulary[:3000],
        *vectors.vocabulary[-500:],
        *KNOWN,
        *UNKNOWN,
        "unbelievablenesses",
        "z",
        "</s>",
    ]
    assert raw(path, words).tobytes() == np.stack([model.get_word_vector(word) for word in words]).tobytes()
    np.testing.assert_allclose(vectors.lookup(words), units(model, words), atol=1e-6)
    assert vectors.knows(["founded", "unbelievablenesses"]).tolist() == [True, False]
    pairs = vectors.lookup(["promised", "founded"]) @ vectors.lookup(["assured", "established", "left"]).T
    assert pairs[[0, 1, 0], [0, 1, 2]].round(2).tolist() == pytest.approx([0.71, 0.84, 0.40])
