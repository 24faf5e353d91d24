"""How words are compared by their letters, whether they fit in a slot, and which may be positive or negative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from corpusgen.config.rules import PAPER, RuleSettings
from corpusgen.corpus.triples.contexts import SlotContext, class_of_slot, is_name, unfit
from corpusgen.corpus.triples.negatives import largest_cosine, why_not_negative
from corpusgen.corpus.triples.positives import looks_like, match_case, why_not_positive
from corpusgen.models.lexical import article_fits, classes, edit_distance, is_function_word, same_kind, stem

STRICT = RuleSettings()
AS_IN_PAPER = RuleSettings(preset="paper")
ANYTHING = RuleSettings(preset="paper", similar_edit_distance=0)
MEAN_DISTANCE = RuleSettings(preset="paper", negatives="mean_distance")
NAMES = {"dog": False, "dogs": False, "owl": False, "bark": False, "of": False, "hit": False, "paris": True}


def context(target="cat", **known):
    nothing = {"name": False, "abbreviation": False, "before": "", "others": (), "best": 0.0, "word_class": None}
    return SlotContext(target, **nothing | known)


# Letters.


def plain_edit_distance(a, b, substitution):
    """The textbook's table, row by row."""
    row = list(range(len(b) + 1))
    for i, of_a in enumerate(a, 1):
        above, row = row, [i]
        for j, of_b in enumerate(b, 1):
            replaced = above[j - 1] + (0 if of_a == of_b else substitution)
            row.append(min(above[j] + 1, row[-1] + 1, replaced))
    return row[-1]


few_letters = st.text("abcé", max_size=8)


@given(few_letters, few_letters, st.sampled_from([1, 2]))
def test_edit_distance_equals_the_textbook(a, b, substitution):
    assert edit_distance(a, b, substitution) == plain_edit_distance(a, b, substitution)


def test_edit_distance_counts_a_replaced_letter_once_unless_told_otherwise():
    assert edit_distance("cat", "cut") == 1
    assert edit_distance("cat", "cut", substitution=2) == 2


@pytest.mark.parametrize(
    ("word", "target", "by_paper", "by_published_code"),
    [
        ("cat", "cat", True, True),
        ("Cats", "cat", True, True),
        ("cat", "dog", True, False),  # three replaced letters: within the paper's distance
        ("house", "mouse", True, True),
        ("tables", "cabled", True, False),
        ("house", "table", False, False),
        ("cart", "charted", True, True),  # three letters put in
        ("cart", "charting", False, False),
        ("cat", "chaste", True, False),  # three letters put into a short word
        ("cat", "coast", True, True),  # two
        ("government", "governs", False, True),  # one stem
        ("happiness", "happy", False, True),
    ],
)
def test_words_that_look_alike(word, target, by_paper, by_published_code):
    assert looks_like(word, target, AS_IN_PAPER, "en") == by_paper
    assert looks_like(target, word, AS_IN_PAPER, "en") == by_paper
    assert looks_like(word, target, STRICT, "en") == by_published_code
    assert looks_like(target, word, STRICT, "en") == by_published_code


def test_looking_alike_follows_its_settings():
    assert not looks_like("cat", "cats", RuleSettings(similar_edit_distance=0, same_stem=False), "en")
    assert looks_like("cat", "cats", RuleSettings(similar_edit_distance=0), "en")
    assert looks_like("cat", "cats", RuleSettings(similar_edit_distance=1, same_stem=False), "en")
    assert not looks_like("cat", "coast", RuleSettings(similar_edit_distance=1), "en")  # of short words too


def test_stems_are_of_the_language_and_words_themselves_where_none_is_known():
    assert stem("gatos", "es") == stem("gato", "es")
    assert stem("gatos", "xx") == "gatos"
    for language in ["ar", "da", "de", "en", "es", "fi", "fr", "hu", "it", "nl", "no", "pt", "ro", "ru", "sv", "tr"]:
        assert stem("ab", language)


@pytest.mark.parametrize(
    ("word", "like", "written"),
    [
        ("dog", "cat", "dog"),
        ("dog", "Cat", "Dog"),
        ("dog", "CAT", "DOG"),
        ("dog", "I", "Dog"),  # one capital is no sign of a word in capitals
        ("dog", "McCat", "Dog"),
        ("Dog", "cat", "dog"),
        ("dOG", "Cat", "Dog"),
        ("dog", "3D", "DOG"),
        ("dog", "3d", "dog"),
        ("école", "Cat", "École"),
        ("", "Cat", ""),
    ],
)
def test_a_word_is_written_like_another(word, like, written):
    assert match_case(word, like) == written


# Kinds of words.


def test_function_words_and_content_words_are_of_different_kinds():
    assert is_function_word("because", "en")
    assert not is_function_word("cause", "en")
    assert not is_function_word("because", "de")  # nothing is known of other languages
    assert same_kind("because", "the", "en")
    assert same_kind("cat", "cause", "en")
    assert not same_kind("because", "cause", "en")
    assert not same_kind("cause", "because", "en")
    assert same_kind("because", "cause", "de")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("information", {"noun"}),
        ("sheep", {"noun"}),
        ("women", {"plural noun"}),
        ("games", {"noun", "plural noun", "verb with s"}),
        ("people", {"noun", "plural noun", "verb"}),
        ("bacteria", {"noun", "plural noun"}),
        ("colour", {"noun", "verb"}),
        ("colours", {"plural noun", "verb with s"}),
        ("went", {"past verb"}),
        ("written", {"past verb"}),
        ("walking", {"verb with ing"}),
        ("quickly", {"adverb"}),
        ("happier", {"comparative"}),
        ("happiest", {"superlative"}),
        ("interesting", {"adjective", "verb with ing"}),
        ("xyzzy", set()),
        ("", set()),
    ],
)
def test_classes_of_words(word, expected):
    assert classes(word, "en") == expected


def test_nothing_is_known_of_the_classes_of_other_languages():
    assert classes("colours", "fr") == set()


@pytest.mark.parametrize(
    ("words", "probabilities", "expected"),
    [
        (["women", "gives"], [0.3, 0.2], "plural noun"),
        (["women", "gives"], [0.2, 0.3], "verb with s"),
        (["wOMEN", "Gives"], [0.3, 0.2], "plural noun"),
        (["women", "gives", "is"], [0.3, 0.2, 0.2], "verb with s"),
        (["runs", "gives", "women"], [0.8, 0.2, 0.1], "verb with s"),  # runs is either, and votes for both by half
        (["people", "gives"], [0.3, 0.2], "verb with s"),  # only a third of its vote is for the plural
        (["quickly", "gives"], [0.9, 0.01], "verb with s"),  # the target is no adverb
        (["quickly", "xyzzy"], [0.9, 0.1], "plural noun"),  # nobody votes: always the same
        ([], [], "plural noun"),
    ],
)
def test_predicted_words_vote_on_what_the_target_is(words, probabilities, expected):
    assert class_of_slot("colours", words, np.array(probabilities, np.float32), "en") == expected


def test_a_word_of_one_class_or_of_none_needs_no_votes():
    votes = np.array([0.9], np.float32)
    assert class_of_slot("women", ["gives"], votes, "en") == "plural noun"
    assert class_of_slot("xyzzy", ["gives"], votes, "en") is None
    assert class_of_slot("colours", ["gives"], votes, "fr") is None


@pytest.mark.parametrize(
    ("article", "other", "words"),
    [
        ("a", "an", "cat university unidirectional usage european one history utopia ukrainian"),
        ("an", "a", "apple hour honest unknown unimportant uninhabited unidentified onerous urban utter"),
    ],
)
def test_articles_go_by_the_sound(article, other, words):
    for word in words.split():
        assert article_fits(article, word, "en"), word
        assert not article_fits(other, word, "en"), word


def test_other_words_and_other_languages_have_no_article_to_fit():
    assert article_fits("the", "apple", "en")
    assert article_fits("", "apple", "en")
    assert article_fits("a", "apple", "pt")


# Slots.


def test_names_are_written_with_a_capital_that_no_sentence_begins_with():
    assert is_name("Paris", 7)
    assert not is_name("Paris", 0)
    assert not is_name("paris", 7)
    assert not is_name("", 7)


@pytest.mark.parametrize(
    ("word", "where", "reason", "rule"),
    [
        ("elephant", context(), "not in the vocabulary", "in_vocabulary"),
        ("paris", context(), "a name", "in_vocabulary"),
        ("dog", context("london", name=True), "no name", "in_vocabulary"),
        ("dog", context("nato", abbreviation=True), "the target is an abbreviation", "in_vocabulary"),
        ("of", context(), "a function word", "same_kind"),
        ("dog", context("because"), "the target is a function word", "same_kind"),
        ("dogs", context(word_class="noun"), "another part of speech, number or tense", "same_class"),
        ("owl", context(before="a"), "another article", "same_class"),
        ("dog", context(before="an"), "another article", "same_class"),
        ("dog", context(others={"dog", "barked"}), "repeats a word", "unrepeated"),
    ],
)
def test_why_a_word_does_not_fit(word, where, reason, rule):
    assert unfit(word, where, STRICT, NAMES, "en") == reason
    assert unfit(word, where, RuleSettings(**{rule: False}), NAMES, "en") is None
    assert unfit(word, where, AS_IN_PAPER, NAMES, "en") is None


@pytest.mark.parametrize(
    ("word", "where"),
    [
        ("dog", context()),
        ("dog", context(before="a", others={"barked"}, word_class="noun")),
        ("owl", context(before="an", word_class="noun")),
        ("bark", context("meow", word_class="verb")),
        ("dogs", context("cats", word_class="plural noun")),
        ("dog", context("xyzzy")),
        ("paris", context("london", name=True, word_class="noun")),  # names have no class
    ],
)
def test_a_word_that_fits(word, where):
    assert unfit(word, where, STRICT, NAMES, "en") is None


# Positive words.


def positive(word="dog", where=None, cosine=1.0, probability=1.0, rules=STRICT):
    return why_not_positive(word, where or context(), cosine, probability, rules, NAMES, "en")


def test_thresholds_of_positive_words_are_inclusive():
    rules = RuleSettings(enrich_min_cosine=0.65, enrich_min_probability=0.01)
    assert positive(cosine=0.65, probability=0.01, rules=rules) is None
    assert positive(cosine=0.6499, probability=0.01, rules=rules) == "too far"
    assert positive(cosine=0.65, probability=0.0099, rules=rules) == "improbable"


def test_reasons_against_a_positive_word_in_their_order():
    assert positive("elephant", context(name=True), cosine=-1.0, probability=0.0) == "the target is a name"
    assert positive("elephant", cosine=-1.0, probability=0.0) == "improbable"
    assert positive("elephant", context("elephants"), cosine=-1.0) == "too far"
    assert positive("elephant", context("elephants")) == "looks like the target"
    assert positive("elephant", context("the")) == "the target is a function word"
    assert positive("elephant") == "not in the vocabulary"
    assert positive("dog") is None


def test_in_the_paper_only_numbers_and_letters_decide_on_a_positive_word():
    assert positive("elephant", where=context("the"), rules=AS_IN_PAPER) is None
    assert positive("elephant", cosine=0.6, probability=0.003, rules=AS_IN_PAPER) is None
    assert positive("elephant", cosine=0.5999, rules=AS_IN_PAPER) == "too far"
    assert positive("cats", rules=AS_IN_PAPER) == "looks like the target"
    assert positive("elephant", where=context("cat", name=True), rules=AS_IN_PAPER) == "the target is a name"


# Negative words.


def negative(word="dog", where=None, cosine=-1.0, probability=1.0, largest=0.45, rules=STRICT, language="en"):
    return why_not_negative(word, where or context(), cosine, probability, largest, rules, NAMES, language)


def test_a_negative_word_is_probable_enough_and_below_the_largest_cosine():
    rules = RuleSettings(negative_min_probability=0.005, negative_min_share=0.0)
    assert negative(cosine=0.4499, probability=0.005, rules=rules) is None
    assert negative(cosine=0.45, probability=0.005, rules=rules) == "too near"
    assert negative(cosine=0.4499, probability=0.0049, rules=rules) == "improbable"
    assert negative(cosine=float("nan")) == "too near"


def test_a_negative_word_has_its_share_of_the_best_probability():
    rules = RuleSettings(negative_min_probability=0.005, negative_min_share=0.25)
    sure, unsure = context(best=0.5), context(best=0.01)
    assert negative(where=sure, probability=0.125, rules=rules) is None
    assert negative(where=sure, probability=0.1249, rules=rules) == "improbable"
    assert negative(where=unsure, probability=0.005, rules=rules) is None
    assert negative(where=sure, probability=0.005, rules=AS_IN_PAPER) is None
    assert negative(where=sure, probability=0.005, rules=MEAN_DISTANCE) is None


def test_reasons_against_a_negative_word_in_their_order():
    assert negative("cat", cosine=1.0, probability=0.0) == "the target"
    assert negative("elephant", cosine=1.0, probability=0.0) == "improbable"
    assert negative("elephant", context("elephants"), cosine=1.0) == "too near"
    assert negative("elephant", context("elephants")) == "looks like the target"
    assert negative("elephant") == "not in the vocabulary"
    assert negative("dog") is None


def test_in_the_paper_only_numbers_decide_on_a_negative_word():
    assert negative("elephant", where=context("elephants"), rules=AS_IN_PAPER) is None
    assert negative("the", probability=0.003, rules=AS_IN_PAPER) is None
    assert negative("the", probability=0.0029, rules=AS_IN_PAPER) == "improbable"


def test_mean_distance_asks_for_more_than_its_least_probability():
    assert negative(probability=0.001, rules=MEAN_DISTANCE) == "improbable"
    assert negative(probability=0.0011, rules=MEAN_DISTANCE) is None


def largest(words, cosines, probabilities, rules=MEAN_DISTANCE):
    return largest_cosine(words, np.array(cosines, np.float32), np.array(probabilities, np.float32), "cat", rules)


def test_the_largest_cosine_is_a_setting_or_the_mean_of_the_candidates():
    words, cosines, probabilities = ["dog", "owl", "tree"], [0.8, 0.5, 0.2], [0.5, 0.3, 0.1]
    assert largest(words, cosines, probabilities, AS_IN_PAPER) == 0.6
    assert largest(words, cosines, probabilities) == pytest.approx(0.5)
    assert largest([], [], [], AS_IN_PAPER) == 0.6


def test_the_target_and_improbable_words_do_not_count_in_the_mean():
    words, cosines = ["cat", "dog", "owl", "tree", "sea"], [1.0, 0.8, 0.5, 0.2, -1.0]
    assert largest(words, cosines, [0.5, 0.2, 0.1, 0.05, 0.001]) == pytest.approx(0.5)
    assert largest(words, cosines, [0.5, 0.2, 0.1, 0.05, 0.002]) == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("words", "probabilities"),
    [
        ([], []),
        (["dog", "owl"], [0.5, 0.3]),
        (["dog", "owl", "cat"], [0.5, 0.3, 0.1]),
        (["dog", "owl", "tree"], [0.5, 0.3, 0.001]),
    ],
)
def test_of_too_few_candidates_nothing_is_chosen(words, probabilities):
    limit = largest(words, [-0.9] * len(words), probabilities)
    assert negative("dog", cosine=-1.0, largest=limit, rules=MEAN_DISTANCE) == "too few candidates"
    fewer = RuleSettings(negatives="mean_distance", mean_distance_min_candidates=1)
    if words:
        assert negative("dog", cosine=-1.0, largest=largest(words, [-0.9] * len(words), probabilities, fewer)) is None


@given(st.floats(-1, 1, width=32), st.integers(3, 100))
def test_of_candidates_that_are_equally_far_none_is_farther_than_the_mean(cosine, count):
    limit = largest(["dog"] * count, [cosine] * count, [0.5] * count)
    assert negative("dog", cosine=cosine, largest=limit, rules=MEAN_DISTANCE) == "too near"


CASES = [str, str.lower, str.upper, str.title, str.capitalize, str.swapcase, str.casefold]


@given(
    target=st.text().filter(lambda text: "ı" not in text),  # of all letters the only one that case changes for good
    case=st.sampled_from(CASES),
    cosine=st.floats(),
    probability=st.floats(),
    limit=st.floats(),
    rules=st.sampled_from([STRICT, AS_IN_PAPER, ANYTHING, MEAN_DISTANCE]),
    known=st.booleans(),
    name=st.booleans(),
    language=st.sampled_from(["en", "de", "xx"]),
)
def test_the_target_itself_is_never_the_negative_word(
    target, case, cosine, probability, limit, rules, known, name, language
):
    word, where = case(target), context(target, name=name)
    names = {word: name} if known else {}
    assert why_not_negative(word, where, cosine, probability, limit, rules, names, language) == "the target"


# Presets.


def test_the_paper_preset_is_the_paper():
    values = AS_IN_PAPER.model_dump()
    assert values == {**values, **PAPER}
    assert (values["aligner"], values["negatives"], values["enrich"]) == ("cosine", "threshold", True)
    assert {values[f"{name}_cosine"] for name in ("align_min", "enrich_min", "negative_max")} == {0.6}
    assert {values[f"{name}_min_probability"] for name in ("enrich", "negative")} == {0.003}
    assert (values["similar_edit_distance"], values["substitution_cost"]) == (3, 1)
    assert (values["context_min_cosine"], values["negative_min_share"]) == (None, 0)
    assert not any(values[name] for name in ("same_stem", "same_kind", "in_vocabulary", "same_class", "unrepeated"))


def test_strict_rules_are_the_default_and_no_laxer_than_the_paper():
    assert RuleSettings() == RuleSettings(preset="strict")
    assert STRICT.enrich_min_cosine >= AS_IN_PAPER.enrich_min_cosine
    assert STRICT.enrich_min_probability >= AS_IN_PAPER.enrich_min_probability
    assert STRICT.negative_max_cosine <= AS_IN_PAPER.negative_max_cosine
    assert STRICT.negative_min_probability >= AS_IN_PAPER.negative_min_probability
    assert all([STRICT.same_stem, STRICT.same_kind, STRICT.in_vocabulary, STRICT.same_class, STRICT.unrepeated])


def test_given_values_win_over_the_preset():
    rules = RuleSettings(preset="paper", same_kind=True, enrich_min_cosine=0.7, context_min_cosine=0.5)
    assert (rules.same_kind, rules.enrich_min_cosine, rules.context_min_cosine) == (True, 0.7, 0.5)
    assert (rules.same_class, rules.negative_max_cosine) == (False, 0.6)


def test_rules_survive_being_written_down():
    rules = RuleSettings(preset="paper", same_kind=True, negative_max_cosine=0.3)
    assert RuleSettings.model_validate(rules.model_dump()) == rules
    assert RuleSettings.model_validate_json(rules.model_dump_json()) == rules


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"same_kinds": True}, "same_kinds"),
        ({"preset": "paper", "lambda": 0.6}, "lambda"),
        ({"preset": "best"}, "preset"),
        ({"align_min_cosine": 1.1}, "align_min_cosine"),
        ({"align_max_score": 0.5}, "align_max_score"),
        ({"negative_min_probability": -0.1}, "negative_min_probability"),
        ({"substitution_cost": 3}, "substitution_cost"),
        ({"mean_distance_min_candidates": 0}, "mean_distance_min_candidates"),
        ("paper", "RuleSettings"),
    ],
)
def test_wrong_rules_are_refused_by_name(given, named):
    with pytest.raises(ValidationError, match=named):
        RuleSettings.model_validate(given)


def test_no_rule_looks_at_candidates_below_the_least_probability():
    assert RuleSettings(enrich_min_probability=0.02, negative_min_probability=0.01).least_probability == 0.01
    alone = {"enrich_min_probability": 0.02, "negative_min_probability": 0.03}
    assert RuleSettings(**alone, negative_min_agreement=0.0).least_probability == 0.02
    assert RuleSettings(**alone, negative_min_agreement=0.004).least_probability == 0.004
    assert AS_IN_PAPER.least_probability == 0.003
    assert MEAN_DISTANCE.least_probability == 0.001
    assert RuleSettings(negatives="mean_distance", enrich_min_probability=0.0005).least_probability == 0.0005


def test_rules_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        STRICT.same_kind = False
