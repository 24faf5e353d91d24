"""Texts are cut into the words of a table as `corpusgen` cuts them, apart from words that its rule would cut."""

import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from corpusgen.text.words import tokenize
from distiller.static.tokens import make_tokenizer


def words_of(tokenizer, text):
    return [text[slice(*span)] for span in tokenizer.encode(text).offsets]


NOTHING_KNOWN = make_tokenizer(["Known"])
# Those of Unicode 3.2: of younger ones the two libraries know different sets.
CHARACTERS = [
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.ucd_3_2_0.category(chr(code)) not in ("Cn", "Cs", "Co")
]
texts = st.text(st.one_of(st.sampled_from("ab -'’.,_3²é\u0301\n«"), st.sampled_from(CHARACTERS)), max_size=30)


@given(texts)
def test_a_text_is_cut_as_the_corpus_is(text):
    tokens = tokenize([text])
    wanted = [text[start:end] for start, end in zip(tokens.starts, tokens.ends, strict=True)]
    assert words_of(NOTHING_KNOWN, text) == wanted


def test_every_character_is_of_the_same_kind():
    text = " ".join(f"{character}a" for character in CHARACTERS)
    tokens = tokenize([text])
    wanted = [text[start:end] for start, end in zip(tokens.starts, tokens.ends, strict=True)]
    assert words_of(NOTHING_KNOWN, text) == wanted


def test_every_character_is_found_if_it_is_a_word():
    words = [chr(code) for code in [*range(0x3400), *range(0x1E000, 0x1FB00)] if not chr(code).isspace()]
    assert make_tokenizer(words).encode(" ".join(words)).ids == list(range(len(words)))


def test_words_that_the_rule_would_cut_are_found_whole():
    tokenizer = make_tokenizer(["the", "u.s.", "...", "c++", "'s", ".", "wait"])
    assert tokenizer.encode("The U.S., wait... C++ 's").tokens == ["the", "u.s.", "[UNK]", "wait", "...", "c++", "'s"]
    assert tokenizer.encode("fu.s. dog's").tokens == ["[UNK]", ".", "[UNK]"]  # not inside of longer words


def test_capitals_stay_if_the_table_has_some():
    assert make_tokenizer(["May", "may"]).encode("May MAY may").tokens == ["May", "[UNK]", "may"]
    assert make_tokenizer(["may"]).encode("May MAY may").tokens == ["may", "may", "may"]


def test_a_table_may_have_the_name_of_the_unknown_word():
    tokenizer = make_tokenizer(["[UNK]", "a", "a"])
    assert tokenizer.encode("[UNK] a b").ids == [0, 1, 3]
