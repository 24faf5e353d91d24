"""Sub-words: what a model's vocabulary asks for, from files in its folder or beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.errors import StageError
from corpusgen.models.translate import TranslatorSettings
from corpusgen.models.translate.subwords import BytePairs, SentencePieces, Words, open_subwords
from tests.testing.tiny_translators import PAIRS, train_sentencepiece

PLAIN = TranslatorSettings(model="m")
# As subword-nmt learns them: "lo", then "low" inside a word, then the ends "low" and "er" of words, and so on.
MERGES = ["l o", "lo w", "lo w</w>", "e r</w>", "b c</w>", "a b"]


def write(file, lines):
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def byte_pairs(tmp_path):
    return BytePairs(write(tmp_path / "codes", ["#version: 0.2", *MERGES]))


def test_byte_pairs_are_merged_in_the_order_they_were_learnt(byte_pairs):
    assert byte_pairs.encode("low lower slow owl") == ["low", "low@@", "er", "s@@", "low", "o@@", "w@@", "l"]
    assert byte_pairs.encode("abc abd") == ["a@@", "bc", "ab@@", "d"]


def test_codes_of_fastbpe_are_read_too(tmp_path, byte_pairs):
    counted = BytePairs(write(tmp_path / "bpecodes", [f"{merge} 7" for merge in MERGES]))
    assert counted.encode("low lower slow owl") == byte_pairs.encode("low lower slow owl")


def test_codes_of_the_first_version_keep_the_end_of_a_word_apart(tmp_path):
    # There "w </w>" is a merge like any other; without it the last letter stays alone.
    first = BytePairs(write(tmp_path / "code", ["l o", "w </w>", "lo w</w>", "lo w"]))
    assert first.encode("low lows") == ["low", "low@@", "s"]


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="@"), min_size=1), max_size=8))
def test_byte_pairs_come_back_as_the_text(tmp_path_factory, words):
    codes = write(tmp_path_factory.mktemp("codes") / "codes", ["#version: 0.2", *MERGES])
    text = " ".join(words)
    assert BytePairs(codes).decode(BytePairs(codes).encode(text)) == text


def test_a_file_that_holds_no_codes_is_named(tmp_path):
    with pytest.raises(StageError, match="codes: not a file of BPE codes from subword-nmt or fastBPE"):
        BytePairs(write(tmp_path / "codes", ["this is some text"]))


@pytest.mark.parametrize(
    ("vocabulary", "remedy"),
    [
        (["▁the", "▁cat", "s"], r"uses SentencePiece, .*put source.spm and target.spm, or sentencepiece.bpe.model"),
        (["the", "ca@@", "t"], r"uses byte pairs .*put bpecodes, or"),
    ],
)
def test_a_missing_file_is_named_with_the_folder_where_it_should_be(tmp_path, vocabulary, remedy):
    with pytest.raises(StageError, match=remedy):
        open_subwords(tmp_path / "model", vocabulary, PLAIN)


def test_a_vocabulary_of_words_needs_no_file(tmp_path):
    subwords = open_subwords(tmp_path, ["the", "cat", "sat", *map(str, range(30)), "▁"], PLAIN)
    assert isinstance(subwords, Words)
    assert subwords.encode(" the  cat\n") == ["the", "cat"]


def test_files_are_found_in_the_folder_or_beside_it(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    train_sentencepiece(PAIRS, tmp_path / "source.spm")
    train_sentencepiece(PAIRS.values(), tmp_path / "target.spm")
    beside = open_subwords(folder, ["▁a", "▁b"], PLAIN)
    assert isinstance(beside, SentencePieces)
    for text, translation in PAIRS.items():
        assert "".join(beside.encode(text)).replace("▁", " ").strip() == text
        assert beside.decode(["▁" + word for word in translation.split()]) == translation
    # What is in the folder wins, also over files of the better name.
    train_sentencepiece(map(str.upper, PAIRS), folder / "spm.model")
    assert "▁TO" in open_subwords(folder, ["▁a", "▁b"], PLAIN).encode("TOM")


def test_a_broken_sentencepiece_file_is_named(tmp_path):
    (tmp_path / "spm.model").write_bytes(b"nothing")
    with pytest.raises(StageError, match=r"cannot read .*spm.model.* as SentencePiece"):
        open_subwords(tmp_path, ["▁a"], PLAIN)


def test_moses_splits_marks_off_and_puts_them_back(tmp_path):
    pytest.importorskip("sacremoses")
    settings = TranslatorSettings(model="m", tokenizer="moses", source="en", target="en")
    subwords = open_subwords(tmp_path, ["words"], settings)
    pieces = subwords.encode('He said, "well-known (or not)!"')
    assert pieces == ["He", "said", ",", "&quot;", "well", "@-@", "known", "(", "or", "not", ")", "!", "&quot;"]
    assert subwords.decode(pieces) == 'He said, "well-known (or not)!"'
