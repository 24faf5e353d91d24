"""A look-up gives the same to the bit in any order, in any company, with any cache."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.models.vectors import WordVectors, vocabulary
from corpusgen.models.vectors.tables import Table, read_text
from corpusgen.models.vectors.vocabulary import Vocabulary
from tests.corpusgen.models.vectors.support import WORDS, write

queries = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=5)), max_size=40)


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Table:
    return read_text(write(tmp_path_factory.mktemp("vectors"), "vec"))


def as_vocabulary(words: list[str]) -> Vocabulary:
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    ends = np.cumsum([0, *map(len, encoded)])
    return Vocabulary(b"".join(encoded), ends[:-1], ends[1:])


@given(queries, st.integers(1, 12))
def test_a_list_is_looked_up_as_one_by_one(table, words, capacity):
    small = WordVectors("small", table, cache_bytes=capacity * 4 * table.dimension)
    large = WordVectors("large", table)
    for _ in range(2):
        wanted = [large.lookup([word]).tobytes() for word in words]
        assert small.lookup(words).tobytes() == b"".join(wanted)
        assert small.knows(words).tolist() == [word in WORDS for word in words]


@given(queries)
def test_rows_have_unit_length_or_are_zero(table, words):
    lengths = np.linalg.norm(WordVectors("", table).lookup(words), axis=1)
    has_vector = [word in WORDS and word != "zero" for word in words]
    np.testing.assert_allclose(lengths, has_vector, atol=1e-6)


def test_rows_that_were_given_do_not_change_with_the_cache(table):
    vectors = WordVectors("", table, cache_bytes=2 * 4 * table.dimension)
    before = vectors.lookup(["the"])
    kept = before.copy()
    vectors.lookup(WORDS)
    assert (before == kept).all()


@given(st.lists(st.text(max_size=4), max_size=20), st.lists(st.text(max_size=4), max_size=20), st.booleans())
def test_a_vocabulary_finds_the_first_row_of_each_word(words, others, same_hashes):
    with pytest.MonkeyPatch.context() as patch:
        if same_hashes:
            patch.setattr(vocabulary, "hash", len, raising=False)
        found = as_vocabulary(words)
        rows = found.rows([word.encode("utf-8", "surrogatepass") for word in words + others])
    assert rows.tolist() == [words.index(word) if word in words else -1 for word in words + others]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=20), st.slices(20))
def test_a_vocabulary_is_a_sequence(words, some):
    found = as_vocabulary(words)
    assert list(found) == words
    assert found[some] == words[some]


def test_bytes_that_are_no_text_do_not_hide_the_other_words():
    found = Vocabulary(b"a\xffb", np.array([0, 1, 2]), np.array([1, 2, 3]))
    assert list(found) == ["a", r"\xff", "b"]
    assert found.rows([b"b", b"\xff"]).tolist() == [2, 1]
