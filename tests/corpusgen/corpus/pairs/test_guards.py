"""Each guard by example: what it excludes, and what it lets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.config.build import DiscourseSettings
from corpusgen.corpus.pairs import guards
from corpusgen.corpus.pairs.guards import Occurrence, find_pairs, skeleton, word_reason
from corpusgen.targets.names import capital_share_limit
from tests.corpusgen.corpus.pairs.support import PLENTY, Corpus

RIVER = ["They crossed the river at dawn .", "A wide river runs through our town ."]


def outcome(word: str, *documents: list[str], language: str = "en", per_word: int = PLENTY, **settings) -> set[str]:
    """What becomes of a word in the documents that repeat it: "pair", or the reasons why not."""
    found, rejects = Corpus(documents, language).repeats(DiscourseSettings(**settings), per_word=per_word)
    reasons = {row["reason"] for row in rejects.to_pylist() if row["word"] == word}
    pairs = {"pair" for row in found.to_pylist() if row["word"] == word and row["second"] is not None}
    return reasons | pairs


def test_a_word_that_a_document_repeats_is_a_pair():
    assert outcome("river", RIVER) == {"pair"}


def test_a_word_in_one_sentence_of_each_document_is_neither_pair_nor_reject():
    assert outcome("river", *([text] for text in RIVER)) == set()


def test_a_word_that_stands_twice_in_a_sentence_is_not_looked_at_there():
    twice = "One river joins another river far away ."
    assert outcome("river", [*RIVER, twice]) == {"pair"}
    assert outcome("river", [RIVER[0], twice]) == {guards.TWICE}
    assert outcome("river", [twice, "Each river feeds that river over there ."]) == {guards.TWICE}
    assert outcome("river", [twice]) == set()  # in one sentence: the document does not repeat it
    assert outcome("the", ["The dog and the cat saw the fox .", RIVER[0]]) == {guards.FUNCTION_WORD}


def test_such_a_sentence_is_no_negative_and_no_neighbour():
    corpus = Corpus([RIVER, ["One river joins another river far away ."]])
    (pair,) = (row for row in corpus.choice(DiscourseSettings()) if row["word"] == "river")
    assert pair["negative"] is None
    (pair,) = Corpus([["Our river , stone on stone", "A river , stone under stone"]]).choice(DiscourseSettings())
    assert (pair["word"], pair["neighbour_start"], pair["neighbour_end"]) == ("river", None, None)


# --- words ---


def test_function_words_are_not_paired():
    document = ["She came before noon .", "He ate soup before his long walk ."]
    assert outcome("before", document) == {guards.FUNCTION_WORD}
    assert outcome("Before", [text.replace("before", "Before") for text in document]) == {guards.FUNCTION_WORD}
    assert outcome("before", document, language="nl") == {"pair"}  # of Dutch nothing is known


@pytest.mark.parametrize("language", ["en", "nl", "fr"])
def test_words_of_two_letters_are_taken_for_function_words_in_any_language(language):
    document = ["An ox pulls that cart .", "Her ox eats grass all day ."]
    assert outcome("ox", document, language=language) == {guards.FUNCTION_WORD}


def test_short_words_in_other_scripts_are_words():
    document = ["他 喝 水 了", "山 有 水 吗"]
    assert outcome("水", document, language="zh") == {"pair"}


def test_names_are_not_paired():
    document = ["They met Rose in Rome .", "Later Rose became famous there .", "Every Rose and every rose differs ."]
    assert outcome("Rose", document) == {guards.NAME}
    assert outcome("Rome", [*document, "All Rome was there ."]) == {guards.NAME}


def test_a_word_that_mostly_has_a_capital_is_a_name_however_it_is_written():
    document = ["They met Rose in town .", "Later Rose became famous there .", "He sold a rose .", "Any rose will do ."]
    often = [*document, "Nobody saw Rose again ."]
    assert outcome("rose", often) == {"pair"}  # three of five
    always = [*often, *(f"Nobody saw Rose in room {number} ." for number in range(20))]
    assert outcome("rose", always) == {guards.NAME}
    assert outcome("rose", often, max_capital_share=0.55) == {guards.NAME}
    assert outcome("rose", often, max_capital_share=0.65) == {"pair"}
    assert outcome("Rose", often, max_capital_share=0.65) == {guards.NAME}
    assert outcome("Rose", often, max_capital_share=1) == {"pair"}
    assert outcome("rose", document, max_capital_share=0.4) == {guards.NAME}


@pytest.mark.parametrize("language", ["de", "lb"])
def test_where_nouns_have_capitals_a_capital_makes_no_name(language):
    document = ["Wir sahen den Fluss am Morgen .", "Ein breiter Fluss fließt durch unsere Stadt ."]
    assert outcome("Fluss", document, language=language) == {"pair"}
    assert outcome("Fluss", document, language=language, max_capital_share=0.5) == {guards.NAME}
    assert outcome("Fluss", document, language="en") == {guards.NAME}


def test_the_limit_of_capitals_is_the_one_given_or_that_of_the_language():
    assert [capital_share_limit(None, code) for code in ("en", "fr", "xx", "de")] == [0.9, 0.9, 0.9, 1.0]
    assert capital_share_limit(0.2, "de") == 0.2
    assert word_reason("rose", 0.5, 0.5, "en") is None
    assert word_reason("rose", 0.51, 0.5, "en") == guards.NAME


# --- boilerplate ---


def template(name: str, number: int) -> str:
    return f"The census of {number} counted the people of {name} in every household ."


def test_a_sentence_that_many_documents_have_is_boilerplate():
    names = ("Arden", "Belmont", "Corvin")
    documents = [[template(name, 1900 + i), f"Most people there fish ; {i} do not ."] for i, name in enumerate(names)]
    assert outcome("people", *documents) == {guards.BOILERPLATE}
    assert outcome("people", *documents[:2]) == {"pair"}
    assert outcome("people", *documents[:2], boilerplate_documents=2) == {guards.BOILERPLATE}
    assert outcome("people", *documents, boilerplate_documents=None) == {"pair"}


def test_a_sentence_that_one_document_repeats_is_no_boilerplate_but_both_say_the_same():
    assert outcome("people", [template("Arden", 1900)] * 4) == {guards.SAME_NEIGHBOURS}


def test_a_document_with_boilerplate_pairs_the_word_elsewhere():
    others = [[template(name, 1900)] for name in ("Belmont", "Corvin")]
    document = [template("Arden", 1900), "Most people there fish .", "All the young people moved away ."]
    assert outcome("people", document, *others) == {"pair"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The census of 1900 counted Arden .", "the census of # counted * ."),
        ("the census of 2nd counted Bo .", "the census of # counted * ."),
        ("", ""),
    ],
)
def test_a_skeleton_leaves_out_names_and_numbers(text, expected):
    assert skeleton(text.split()) == expected


# --- occurrences and pairs ---


def test_a_verb_with_a_particle_is_another_word():
    up, off = "They put up a fence .", "He put off our trip ."
    assert outcome("put", [up, off]) == {guards.MULTI_WORD}
    assert outcome("put", [up, "She put salt into soup ."]) == {guards.MULTI_WORD}
    assert outcome("put", [up, "She put salt into soup .", "Someone has put money there ."]) == {"pair"}
    assert outcome("put", ["They put .", "Up there someone put salt ."]) == {"pair"}  # a sentence later
    assert outcome("put", [up, off], language="nl") == {"pair"}


def test_a_term_that_the_document_repeats_is_not_paired_with_the_bare_word():
    term = ["We love natural history .", "A natural history museum opened ."]
    bare = "It has a long history indeed ."
    assert outcome("history", [*term, bare]) == {"pair"}  # the term with itself
    assert outcome("history", [term[0], bare]) == {"pair"}  # once is no term
    ends_alike = [bare, term[0], "A natural history ."]  # so that not even the term can be paired with itself
    places = [occurrence(text, "history", row) for row, text in enumerate(ends_alike)]
    assert find_pairs(places, 1, 0.5, "en") == ([], guards.MULTI_WORD)
    assert outcome("history", ends_alike) < {guards.MULTI_WORD, guards.SAME_NEIGHBOURS}


def test_a_term_may_begin_with_the_word():
    document = ["Our bank account is empty .", "Her bank account too .", "They robbed some bank yesterday ."]
    found = Corpus([document]).repeats(DiscourseSettings()).found.to_pylist()
    (pair,) = [row for row in found if row["word"] == "bank" and row["second"] is not None]
    assert {pair["first"], pair["second"]} == {"d0s0", "d0s1"}


def test_neighbours_that_are_function_words_marks_or_very_short_make_no_term():
    for neighbour in ("the", "of", "ox", ",", "12b"):
        document = [f"Ten {neighbour} river boats .", f"Did {neighbour} river flow ?", "My river is long ."]
        assert guards.terms([occurrence(text, "river", row) for row, text in enumerate(document)], "en")[0] == set()


def test_in_other_languages_any_repeated_word_of_three_letters_may_make_a_term():
    repeated = [occurrence(text, "fleuve", row) for row, text in enumerate(["dans les fleuve", "par les fleuve"])]
    assert guards.terms(repeated, "fr") == ({"les"}, set())


def test_the_same_word_on_both_sides_teaches_nothing():
    assert outcome("river", ["They saw the river again today .", "Boats on the river again sank !"]) == {
        guards.SAME_NEIGHBOURS
    }
    assert outcome("river", ["They saw the river again today .", "Boats on THE river Again sank !"]) == {
        guards.SAME_NEIGHBOURS
    }
    assert outcome("river", ["They saw the river again today .", "Boats on the river often sank !"]) == {"pair"}


def test_sentences_that_are_nearly_the_same_are_not_paired():
    document = ["They crossed our old river at dawn today .", "They crossed one old river at dawn today ."]
    alike = ["They crossed an old river at dawn today .", "They crossed one young river at dawn today ."]
    assert outcome("crossed", document) == {guards.NEAR_DUPLICATE}
    assert outcome("river", alike) == {guards.NEAR_DUPLICATE}
    assert outcome("river", alike, max_overlap=0.7) == {"pair"}
    assert outcome("river", alike, max_overlap=7 / 11 - 0.01) == {guards.NEAR_DUPLICATE}
    assert outcome("river", alike, max_overlap=7 / 11) == {"pair"}


def test_documents_beyond_the_most_pairs_of_a_word_are_rejected_as_enough():
    documents = [[f"They{i} crossed one river at dawn .", f"A wide river runs{i} through ."] for i in range(5)]
    assert outcome("river", *documents, per_word=2) == {"pair", guards.ENOUGH}
    assert outcome("river", *documents, per_word=5) == {"pair"}


# --- pairs of one word in one document ---


def occurrence(text: str, word: str, row: int = 0) -> Occurrence:
    written = text.split()
    return Occurrence(row, text.index(word), text.index(word) + len(word), written, written.index(word))


occurrences = st.lists(
    st.lists(st.sampled_from(["natural", "the", "long", "bank", ",", "of"]), min_size=1, max_size=6), max_size=8
).map(
    lambda sentences: [
        occurrence(" ".join([*tokens[: row % 3], "history", *tokens[row % 3 :]]), "history", row)
        for row, tokens in enumerate(sentences)
    ]
)


@given(occurrences, st.integers(1, 4), st.sampled_from([0.2, 0.5, 1.0]))
def test_pairs_use_no_occurrence_twice_keep_their_order_and_have_a_reason_only_if_there_are_none(
    occurrences, most, max_overlap
):
    pairs, reason = find_pairs(occurrences, most, max_overlap, "en")
    rows = [occurrence.row for first, second, _ in pairs for occurrence in (first, second)]
    assert len(set(rows)) == len(rows)
    assert all(first.row < second.row for first, second, _ in pairs)
    assert len(pairs) <= most
    assert (reason is None) == (bool(pairs) or len(occurrences) < 2)
    for first, second, overlap in pairs:
        assert (first.before, first.after) != (second.before, second.after)
        assert 0 < overlap <= max_overlap


@given(occurrences, st.sampled_from([0.2, 0.5, 1.0]), st.randoms(use_true_random=False))
def test_whether_there_is_a_pair_does_not_depend_on_the_order_of_the_sentences(occurrences, max_overlap, chance):
    shuffled = chance.sample(occurrences, len(occurrences))
    assert bool(find_pairs(occurrences, 1, max_overlap, "en")[0]) == bool(find_pairs(shuffled, 1, max_overlap, "en")[0])
