"""Pairs are valid and balanced, negatives come from elsewhere, and nothing depends on how the work is divided."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.config.build import DiscourseSettings
from corpusgen.corpus.pairs import guards, repeats
from corpusgen.corpus.pairs.repeats import WordFilter, choose, documents_of
from corpusgen.models.lexical import particles
from corpusgen.tables import CHOICE, REPEATS
from corpusgen.targets import tokens
from tests.corpusgen.corpus.pairs.support import (
    PLENTY,
    Corpus,
    corpora,
    document_number,
    sentence_id,
    settings,
)

# --- documents ---


def names_table(names: list[tuple[str, str]]) -> pa.Table:
    """Sentences in a row, of which only file, article and id matter."""
    rows = np.arange(len(names))
    return pa.table(
        {
            "paragraph": pa.array(rows, pa.int32()),
            "sentence": pa.array(0 * rows, pa.int32()),
            "source": pa.array([source for source, _ in names], pa.string()),
            "article": pa.array([article for _, article in names], pa.string()),
            "id": pa.array([f"s{row}" for row in range(len(names))], pa.string()),
        }
    )


@given(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(["1", "2", ""])), max_size=20))
def test_a_document_is_a_run_of_neighbours_of_one_article_of_one_file(names):
    found = documents_of(names_table(names))
    of_row = found.of_row.tolist()
    assert len(of_row) == len(names)
    expected = 0
    for row, name in enumerate(names):
        if row and name != names[row - 1]:
            expected += 1
        assert of_row[row] == expected
    assert len(found.keys) == len(set(found.keys)) == len(set(of_row))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20))
def test_a_sentence_that_does_not_come_after_the_one_before_begins_a_document(positions):
    """As when neighbouring records have no id, or the same one."""
    table = names_table([("x", "1")] * len(positions))
    for column, values in zip(("paragraph", "sentence"), zip(*positions, strict=True), strict=False):
        table = table.set_column(table.schema.get_field_index(column), column, pa.array(values, pa.int32()))
    of_row = documents_of(table).of_row.tolist()
    for row in range(1, len(positions)):
        assert of_row[row] - of_row[row - 1] == (positions[row] <= positions[row - 1])


@given(st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 500)), max_size=20), st.integers(1, 200))
def test_lines_in_the_same_block_of_a_file_are_a_document(lines, block):
    lines = sorted(set(lines))
    of_row = documents_of(names_table([(file, str(offset)) for file, offset in lines]), block).of_row.tolist()
    for row, (file, offset) in enumerate(lines):
        for other, (other_file, other_offset) in enumerate(lines):
            together = file == other_file and offset // block == other_offset // block
            assert (of_row[row] == of_row[other]) == together


@given(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("123")), min_size=1, max_size=20), st.integers(0, 20))
def test_the_key_of_a_document_does_not_depend_on_what_else_is_in_the_table(names, cut):
    table = names_table(names)
    whole = documents_of(table)
    starts = [row for row in range(len(names)) if row == 0 or names[row] != names[row - 1]]
    start = starts[min(cut, len(starts) - 1)]
    assert documents_of(table.slice(start)).keys == whole.keys[starts.index(start) :]


# --- the same thing written down as simply as possible ---


def plain_hash(value: str, seed: int, purpose: bytes) -> int:
    salt = seed.to_bytes(16, "little", signed=True)
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8, salt=salt, person=purpose).digest(), "little")


def key_of(document: int) -> str:
    return hashlib.blake2b(sentence_id(document, 0).encode(), digest_size=8).hexdigest()


def priority_of(document: int, seed: int) -> tuple[int, str]:
    """What documents are ordered by."""
    return plain_hash(key_of(document), seed, b"document") >> 7, key_of(document)


def boilerplate(corpus: Corpus, most: int | None) -> set[str]:
    """The ids of sentences that are in so many documents."""
    in_documents = defaultdict(set)
    for sentence, text in corpus.text_of.items():
        in_documents[guards.skeleton(text.split())].add(document_number(sentence))
    return {
        sentence
        for sentence, text in corpus.text_of.items()
        if most is not None and len(in_documents[guards.skeleton(text.split())]) >= most
    }


def usable_words(corpus: Corpus, settings: DiscourseSettings) -> list[str]:
    words = WordFilter(corpus.vocabulary, settings, corpus.language)
    return [word for word, reason in zip(words.words.to_pylist(), words.reasons, strict=True) if reason is None]


def having(corpus: Corpus, document: int, word: str) -> list[str]:
    """The sentences of a document in which a word stands exactly once."""
    texts = enumerate(corpus.documents[document])
    return [sentence_id(document, place) for place, text in texts if text.split().count(word) == 1]


def usable_sentences(corpus: Corpus, document: int, word: str, settings: DiscourseSettings) -> list[str]:
    """Those in which the word may be used."""
    excluded = boilerplate(corpus, settings.boilerplate_documents)
    found = []
    for sentence in having(corpus, document, word):
        written = [*corpus.text_of[sentence].split(), ""]
        if sentence not in excluded and written[written.index(word) + 1] not in particles(corpus.language):
            found.append(sentence)
    return found


def plain_pairs(corpus: Corpus, document: int, word: str, settings: DiscourseSettings) -> list[tuple[str, str]]:
    """The pairs of a word in a document, as two sentences."""
    usable = usable_sentences(corpus, document, word, settings)
    usable.sort(key=lambda sentence: plain_hash(sentence, corpus.seed, b"sentence"))
    occurrences = []
    for number, sentence in enumerate(usable):
        written = corpus.text_of[sentence].split()
        occurrences.append(guards.Occurrence(number, 0, 0, written, written.index(word)))
    found, _ = guards.find_pairs(occurrences, settings.per_document, settings.max_overlap, corpus.language)
    return [(usable[first.row], usable[second.row]) for first, second, _ in found]


def plain_choice(corpus: Corpus, settings: DiscourseSettings, per_word: int) -> list[tuple[Any, ...]]:
    """(word, first, second, negative, round) of the chosen pairs, sorted."""
    numbers = sorted(range(len(corpus.documents)), key=lambda number: priority_of(number, corpus.seed))
    by_round: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for word in usable_words(corpus, settings):
        pairs = [(n, *pair) for n in numbers for pair in plain_pairs(corpus, n, word, settings)][:per_word]
        first_usable = {}
        for number in numbers:
            usable = usable_sentences(corpus, number, word, settings)
            if usable and len(first_usable) < 2:
                first_usable[number] = min(usable, key=lambda sentence: plain_hash(sentence, corpus.seed, b"sentence"))
        offered = defaultdict(list)
        for number, sentence in [*((n, first) for n, first, _ in pairs), *first_usable.items()]:
            offered[number].append(sentence)
        order = sorted(offered, key=numbers.index)
        for round_, (number, first, second) in enumerate(pairs, 1):
            other = order[(order.index(number) + 1) % len(order)]
            negative = min(offered[other]) if other != number else None
            by_round[round_].append((word, first, second, negative, round_))
    chosen: list[tuple[Any, ...]] = []
    for round_ in sorted(by_round):
        in_turn = sorted(by_round[round_], key=lambda pair: (plain_hash(pair[0], corpus.seed, b"order"), pair[0]))
        chosen += in_turn[: settings.size - len(chosen)]
    return sorted(chosen, key=str)


@given(corpora, settings, st.integers(1, 4), st.integers(-3, 3))
def test_the_choice_is_that_of_the_plain_algorithm(corpus, settings, per_word, seed):
    corpus = Corpus(corpus.documents, seed=seed)
    found = [
        tuple(pair[name] for name in ("word", "first", "second", "negative", "round"))
        for pair in corpus.choice(settings, per_word)
    ]
    assert sorted(found, key=str) == plain_choice(corpus, settings, per_word)


# --- what makes a pair valid ---


@given(corpora, settings)
def test_a_pair_is_one_word_in_two_sentences_of_a_document_and_one_of_another(corpus, settings):
    text_of = corpus.text_of
    for pair in corpus.choice(settings):
        first, second, negative = (pair[name] for name in ("first", "second", "negative"))
        assert first != second
        assert document_number(first) == document_number(second)
        assert pair["document"] == key_of(document_number(first))
        for side in ("first", "second", "negative"):
            if pair[side] is not None:
                text = text_of[pair[side]]
                assert text[pair[f"{side}_start"] : pair[f"{side}_end"]] == pair["word"]
                assert text.split().count(pair["word"]) == 1
        ours, theirs = ({token.lower() for token in text_of[one].split()} for one in (first, second))
        assert pair["overlap"] == pytest.approx(len(ours & theirs) / len(ours | theirs))
        assert pair["overlap"] <= settings.max_overlap + 1e-6
        elsewhere = [
            number
            for number in range(len(corpus.documents))
            if number != document_number(first) and usable_sentences(corpus, number, pair["word"], settings)
        ]
        if negative is None:
            assert not elsewhere
            assert pair["negative_start"] is pair["negative_end"] is None
        else:
            assert document_number(negative) in elsewhere
            assert negative in usable_sentences(corpus, document_number(negative), pair["word"], settings)


@given(corpora, settings)
def test_ids_are_unique_and_begin_with_the_document(corpus, settings):
    choice = corpus.choice(settings)
    assert len({pair["id"] for pair in choice}) == len(choice)
    assert all(pair["id"].startswith(f"{pair['document']}-") for pair in choice)


@given(corpora, settings)
def test_no_sentence_is_twice_in_the_pairs_of_a_word(corpus, settings):
    used = Counter((pair["word"], pair[side]) for pair in corpus.choice(settings) for side in ("first", "second"))
    assert set(used.values()) <= {1}


# --- balance and bounds ---


@given(corpora, settings, st.integers(1, 4))
def test_words_take_turns_until_there_are_enough_pairs(corpus, settings, per_word):
    found = corpus.repeats(settings, per_word=per_word).found.to_pylist()
    offered = Counter(row["word"] for row in found if row["second"] is not None)
    choice = corpus.choice(settings, per_word)
    taken = Counter(pair["word"] for pair in choice)
    assert len(choice) == min(settings.size, offered.total())
    most = max(taken.values(), default=0)
    for word, number in offered.items():
        assert taken[word] >= min(most - 1, number)
        assert sorted(pair["round"] for pair in choice if pair["word"] == word) == list(range(1, taken[word] + 1))
    assert set(taken) <= set(offered)


@given(corpora, settings, st.integers(1, 4))
def test_no_word_and_no_document_gives_more_than_it_may(corpus, settings, per_word):
    found = [row for row in corpus.repeats(settings, per_word=per_word).found.to_pylist() if row["second"]]
    assert max(Counter(row["word"] for row in found).values(), default=0) <= per_word
    of_document = Counter((row["word"], row["document"]) for row in found)
    assert max(of_document.values(), default=0) <= settings.per_document


def test_many_pairs_of_a_word_in_a_document_are_found_if_they_are_wanted():
    texts = [f"left{i} river right{i}" for i in range(60)]
    for wanted, expected in ((1, 1), (8, 8), (25, 25), (100, 30)):
        assert len(Corpus([texts]).choice(DiscourseSettings(per_document=wanted))) == expected


def test_a_last_round_that_is_cut_short_is_no_alphabetical_choice():
    words = [f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    documents = [[f"one {word} here", f"that {word} there"] for word in words]
    seen = Counter(
        pair["word"]
        for seed in range(100)
        for pair in Corpus(documents, seed=seed).choice(DiscourseSettings(size=3, boilerplate_documents=None))
    )
    assert set(seen) == set(words)
    assert max(seen.values()) < 40  # 300 choices, 26 words: about 12 each


# --- what must not matter ---


def divided(corpus: Corpus, chance: random.Random) -> list[list[int]]:
    """The documents in units, in any order, some of them empty."""
    units: list[list[int]] = [[] for _ in range(chance.randint(1, 5))]
    for number in chance.sample(range(len(corpus.documents)), len(corpus.documents)):
        chance.choice(units).append(number)
    return units


@given(corpora, settings, st.integers(1, 4), st.randoms(use_true_random=False))
def test_division_into_units_and_any_order_do_not_matter(corpus, settings, per_word, chance):
    settings = settings.model_copy(update={"boilerplate_documents": None})  # which is looked for within a unit
    whole = corpus.choice(settings, per_word)
    with patch.object(tokens, "_ROWS_AT_ONCE", 2), patch.object(repeats, "_ROWS_WORTH_MERGING", 1):
        units = [corpus.repeats(settings, numbers, per_word).found for numbers in divided(corpus, chance)]
        assert choose(iter(units), settings.size, corpus.seed, per_word).to_pylist() == whole
    joined = pa.concat_tables(units)
    shuffled = joined.take(pa.array(chance.sample(range(joined.num_rows), joined.num_rows), pa.int64()))
    assert choose([shuffled], settings.size, corpus.seed, per_word).to_pylist() == whole


@given(corpora, settings, st.integers(1, 4))
def test_documents_given_twice_count_once(corpus, settings, per_word):
    settings = settings.model_copy(update={"boilerplate_documents": None})
    once, numbers = corpus.choice(settings, per_word), range(len(corpus.documents))
    units = [corpus.repeats(settings, numbers, per_word).found] * 2
    assert choose(units, settings.size, corpus.seed, per_word).to_pylist() == once
    together = corpus.repeats(settings, [*numbers, *numbers], per_word).found
    assert choose([together], settings.size, corpus.seed, per_word).to_pylist() == once


@given(corpora, settings)
def test_the_size_of_batches_does_not_matter(corpus, settings):
    whole = corpus.repeats(settings)
    with patch.object(tokens, "_ROWS_AT_ONCE", 2):
        batched = corpus.repeats(settings)
    assert batched.found.equals(whole.found)
    assert batched.rejects.equals(whole.rejects)


def many_documents(number: int, seed: int = 1) -> Corpus:
    chance = random.Random(3)
    words = [f"word{a}{b}" for a in "abcdef" for b in "abcdef"]
    return Corpus([[" ".join(chance.sample(words, 9)) for _ in range(6)] for _ in range(number)], seed=seed)


def test_another_seed_gives_another_choice_and_the_same_seed_the_same():
    settings = DiscourseSettings(size=100)
    choices = [many_documents(40, seed).choice(settings) for seed in (1, 1, 2)]
    assert choices[0] == choices[1]
    assert len(choices[0]) == len(choices[2]) == 100
    ids = [{pair["id"] for pair in choice} for choice in choices]
    assert len(ids[0] & ids[2]) < 60


def test_words_prefer_the_same_documents_and_sentences():
    """A model that reads a sentence once then has the states of all its words."""
    choice = many_documents(60).choice(DiscourseSettings(size=100))
    assert len(choice) == 100
    assert len({pair["document"] for pair in choice}) < 20
    assert len({pair[side] for pair in choice for side in ("first", "second")}) < 100  # of 200


# --- the books ---


@given(corpora, settings, st.integers(1, 4))
def test_every_word_in_two_sentences_of_a_document_is_a_pair_or_a_reject(corpus, settings, per_word):
    found, rejects = corpus.repeats(settings, per_word=per_word)
    pairs = {(row["word"], row["document"]) for row in found.to_pylist() if row["second"] is not None}
    rejected = [(row["word"], row["document"]) for row in rejects.to_pylist()]
    assert len(rejected) == len(set(rejected))
    assert not pairs & set(rejected)
    assert pairs | set(rejected) == {
        (word, key_of(number))
        for number, texts in enumerate(corpus.documents)
        for word in corpus.vocabulary["word"].to_pylist()
        if sum(word in text.split() for text in texts) > 1
    }
    assert rejects["reason"].null_count == 0
    assert all(row["second_start"] is None for row in found.to_pylist() if row["second"] is None)


@given(corpora, settings)
def test_twice_is_the_reason_where_too_few_sentences_have_the_word_once(corpus, settings):
    usable = set(usable_words(corpus, settings))
    rejects = corpus.repeats(settings).rejects.to_pylist()
    assert {(row["word"], row["document"]) for row in rejects if row["reason"] == guards.TWICE} == {
        (word, key_of(number))
        for number, texts in enumerate(corpus.documents)
        for word in usable
        if sum(word in text.split() for text in texts) > 1 and len(having(corpus, number, word)) < 2
    }


@given(corpora, settings)
def test_enough_is_the_reason_only_where_a_word_has_enough(corpus, settings):
    some, all_ = corpus.repeats(settings, per_word=1), corpus.repeats(settings)

    def reasons(found: repeats.Repeats) -> dict[tuple[str, str], str]:
        return {(row["word"], row["document"]): row["reason"] for row in found.rejects.to_pylist()}

    before, after = reasons(all_), reasons(some)
    assert guards.ENOUGH not in before.values()
    assert before.items() <= after.items()
    assert {reason for place, reason in after.items() if place not in before} <= {guards.ENOUGH}
    kept = {row["word"] for row in some.found.to_pylist() if row["second"] is not None}
    assert {word for word, _ in after.keys() - before.keys()} <= kept


def test_nothing_gives_nothing():
    nothing = Corpus([]).repeats(DiscourseSettings())
    assert nothing.found.schema == REPEATS
    assert nothing.found.num_rows == nothing.rejects.num_rows == 0
    for tables in ([], [nothing.found], [Corpus([["one river here"]]).repeats(DiscourseSettings()).found]):
        choice = choose(tables, 10, 1, PLENTY)
        assert choice.schema == CHOICE
        assert choice.num_rows == 0
