"""The table of tokens: the same words by characters and by bytes, and back and forth between arrays and columns."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.text.words import Tokens, tokenize

texts = st.lists(
    st.one_of(st.text(max_size=20), st.sampled_from(["The café's open.", "水 𝒳-ray 2nd", "(…)"])), max_size=6
)


@pytest.mark.parametrize("chunked", [False, True])
@given(sentences=texts)
def test_columns_hold_the_same_tokens(chunked, sentences):
    tokens = tokenize(sentences)
    columns = [pa.chunked_array([column]) if chunked else column for column in tokens.columns()]
    for ours, theirs in zip(Tokens.of_columns(*columns), tokens, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(texts.filter(lambda some: all(text.isprintable() for text in some)))
def test_surfaces_are_what_stands_there(sentences):
    tokens = tokenize(sentences)
    spans = zip(tokens.rows.tolist(), tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
    written = [sentences[row][start:end] for row, start, end in spans]
    assert tokens.surfaces(pa.array(sentences, pa.string())).to_pylist() == written
    assert tokens.lower(sentences) == [word.lower() for word in written]
    words = tokens.only_words(sentences)
    assert words.lower(sentences) == [word.lower() for word in written if word[0].isalnum()]
    assert len(words.counts) == len(sentences)
    assert words.counts.sum() == len(words.starts)


@given(texts, texts)
def test_joined_tokens_are_those_of_all_texts(first, second):
    joined = Tokens.joined([tokenize(first), tokenize(second)])
    for ours, theirs in zip(joined, tokenize([*first, *second]), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_token_that_starts_somewhere():
    tokens = tokenize(["The cat slept.", "A dog"])
    assert tokens.starting_at(np.array([4, 2], np.int32)).tolist() == [1, 5]
    assert tokens.starting_at(np.array([5, 0], np.int32)).tolist() == [4]  # the first text has none there


@pytest.mark.parametrize(("starts", "ends"), [([[0], [0, 1]], [[1], [1]]), ([[0], None], [[1], [1]])])
def test_columns_that_are_no_tokens_are_refused(starts, ends):
    kind = pa.list_(pa.int32())
    with pytest.raises(ValueError, match="token"):
        Tokens.of_columns(pa.array(starts, kind), pa.array(ends, kind))
