"""Folders of model2vec: one vector per word is read, anything else is refused with a reason."""

import json
import mmap

import numpy as np
import pytest
from model2vec import StaticModel
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel, WordPiece
from tokenizers.pre_tokenizers import Whitespace

from corpusgen.errors import StageError
from corpusgen.models.vectors import open_source, open_vectors

WORDS = ["the", "naïve", "北京", "«", "1990"]
MATRIX = np.random.default_rng(5).normal(0, 0.3, (len(WORDS) + 1, 6)).astype(np.float32)


def save(folder, tokens, matrix=MATRIX, kind=WordLevel):
    """As model2vec itself writes it."""
    tokenizer = Tokenizer(kind({token: row for row, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    StaticModel(matrix, tokenizer).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("place", [0, 2, len(WORDS)])
def test_words_have_their_rows_and_the_unknown_word_has_none(tmp_path, place):
    tokens = [*WORDS[:place], "[UNK]", *WORDS[place:]]
    source = open_source(save(tmp_path / "model", tokens))
    assert list(source.vocabulary) == WORDS
    assert source.vectors([b""] * 5, np.arange(5)).tobytes() == np.delete(MATRIX, place, axis=0).tobytes()
    assert list(open_vectors(str(tmp_path / "model"), max_words=2).vocabulary) == WORDS[:2]


def test_the_matrix_is_mapped_and_not_read(tmp_path):
    base = open_source(save(tmp_path / "model", [*WORDS, "[UNK]"])).matrix
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, mmap.mmap)


def test_added_tokens_are_words(tmp_path):
    tokenizer = Tokenizer(WordLevel({"the": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.add_tokens(["u.s."])
    StaticModel(MATRIX[:3], tokenizer).save_pretrained(tmp_path / "model")
    assert list(open_vectors(str(tmp_path / "model")).vocabulary) == ["the", "u.s."]


def test_pieces_of_words_are_refused(tmp_path):
    path = save(tmp_path / "model", [*WORDS, "[UNK]"], kind=WordPiece)
    with pytest.raises(StageError, match=r"tokenizer\.json: a tokenizer of the type WordPiece, .* only folders"):
        open_vectors(path)


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(StageError, match=r"has no tokenizer\.json and no model\.safetensors: it holds no"):
        open_vectors(str(tmp_path))


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda path: (path / "tokenizer.json").write_text("{"), "not a readable tokenizer"),
        (lambda path: (path / "tokenizer.json").write_text("[]"), "not a readable tokenizer"),
        (lambda path: (path / "model.safetensors").write_bytes(b"\0" * 20), "damaged or incomplete"),
        (lambda path: cut(path / "model.safetensors"), "damaged or incomplete"),
        (lambda path: save_file({"embeddings": MATRIX[:3]}, path / "model.safetensors"), "has 3 rows, but .* 6 words"),
        (
            lambda path: save_file({"other": MATRIX}, path / "model.safetensors"),
            "expected the tensor .* alone",
        ),
        (
            lambda path: save_file({"embeddings": MATRIX.astype(np.int8)}, path / "model.safetensors"),
            "expected a matrix of floats, got I8",
        ),
        (lambda path: renumber(path / "tokenizer.json"), "the numbers of its words have gaps"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, spoil, complaint):
    save(tmp_path / "model", [*WORDS, "[UNK]"])
    spoil(tmp_path / "model")
    with pytest.raises(StageError, match=complaint):
        open_vectors(str(tmp_path / "model"))


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def renumber(path):
    content = json.loads(path.read_text())
    content["model"]["vocab"]["the"] = 99
    path.write_text(json.dumps(content))


def test_words_for_a_folder_are_refused(tmp_path):
    path = save(tmp_path / "model", [*WORDS, "[UNK]"])
    with pytest.raises(StageError, match=r"only an \.npy matrix takes a file of words"):
        open_vectors(path, words=str(tmp_path / "words"))
