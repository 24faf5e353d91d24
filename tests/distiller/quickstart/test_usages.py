"""The quickstart's usages: enough pairs of enough words, and a word's form does not tell its sense."""

from collections import Counter
from importlib.resources import as_file, files

import pytest

from distiller.evaluation.word_files import read_usages

FILE = files("distiller.quickstart") / "usages.tsv"
LINES = [line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def usages():
    with as_file(FILE) as path:
        return read_usages(path)


def test_at_least_a_thousand_pairs_of_sixty_words(usages):
    assert not usages.skipped  # each sentence has its word, and has it once
    assert len({word for word, _, _ in LINES}) >= 60
    assert len(usages.pairs) >= 1000


def test_each_word_is_in_one_form(usages):
    forms = {(pair.item.split(":")[0], text[slice(*span)]) for pair in usages.pairs for text, span in pair.occurrences}
    assert all(word == form for word, form in forms)


def test_each_word_has_several_senses_and_each_sense_several_sentences():
    sentences = Counter((word, sense) for word, sense, _ in LINES)
    senses = Counter(word for word, _ in sentences)
    assert min(senses.values()) >= 2
    assert min(sentences.values()) >= 2


def test_each_word_has_the_same_number_of_sentences():
    """Else some words would weigh more than others in the score."""
    assert len(set(Counter(word for word, _, _ in LINES).values())) == 1


def test_no_sentence_is_there_twice():
    assert len({sentence for _, _, sentence in LINES}) == len(LINES)
