"""The sample is balanced, valid, and the same however the work is divided."""

from __future__ import annotations

import hashlib
import logging
import random
import resource
from collections import Counter, defaultdict
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.tables import CANDIDATES
from corpusgen.targets import sampling, tokens
from corpusgen.targets.sampling import candidates, default_per_word, fitted_per_word, select
from corpusgen.targets.vocabulary import count_words, make_vocabulary
from tests.corpusgen.targets.support import sentence_table, texts, words_of

WRAP = 2**64 - 1
NO_LIMIT = float("inf")


@dataclass(frozen=True)
class Corpus:
    """Sentences, what to call them, and the words that may become targets."""

    sentences: list[str]
    vocabulary: pa.Table
    prefix: str = "s"

    @property
    def ids(self) -> list[str]:
        return [f"{self.prefix}{i}" for i in range(len(self.sentences))]

    def candidates(self, rows: list[int], seed: int = 1, per_word: int = 3, slack: float = NO_LIMIT) -> pa.Table:
        """Those of a unit that consists of these rows."""
        table = sentence_table([self.sentences[row] for row in rows])
        ids = pa.array([self.ids[row] for row in rows], pa.string())
        return candidates(table, ids, self.vocabulary, seed, per_word, slack)

    def sample(
        self, size: int, seed: int = 1, per_word: int = 3, slack: float = NO_LIMIT, at_once: int = 1
    ) -> list[dict]:
        unit = self.candidates(list(range(len(self.sentences))), seed, per_word, slack)
        return select([unit], size, seed, per_word, at_once).to_pylist()


@st.composite
def corpora(draw: st.DrawFn) -> Corpus:
    sentences = draw(st.lists(texts, max_size=25))
    return Corpus(sentences, make_vocabulary(count_words(sentence_table(sentences)), drop_top_share=0.1))


def divided(corpus: Corpus, chance: random.Random) -> list[list[int]]:
    """The rows of the corpus in units, in any order, some of them empty."""
    units: list[list[int]] = [[] for _ in range(chance.randint(1, 5))]
    rows = list(range(len(corpus.sentences)))
    chance.shuffle(rows)
    for row in rows:
        chance.choice(units).append(row)
    return units


# --- the same thing written down as simply as possible ---


def plain_hash(value: str, seed: int, purpose: bytes) -> int:
    salt = seed.to_bytes(16, "little", signed=True)
    return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8, salt=salt, person=purpose).digest(), "little")


def plain_priority(word: str, sentence: str, seed: int) -> int:
    x = (plain_hash(word, seed, b"word") + plain_hash(sentence, seed, b"sentence")) & WRAP
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WRAP
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WRAP
    return x ^ (x >> 31)


def plain_candidates(corpus: Corpus, seed: int, per_word: int, slack: float) -> dict[str, list[tuple[int, str]]]:
    """(priority, sentence) of every word, lowest first."""
    found = {}
    for entry in corpus.vocabulary.to_pylist():
        word = entry["word"]
        pairs = [
            (plain_priority(word, sentence, seed), sentence)
            for sentence, text in zip(corpus.ids, corpus.sentences, strict=True)
            if words_of(text).count(word) == 1
        ]
        share = slack * per_word / entry["count"]
        low = sorted(pair for pair in pairs if share >= 1 or pair[0] <= share * 2**64)
        if low:
            found[word] = low[:per_word]
    return found


def plain_sample(
    corpus: Corpus, size: int, seed: int, per_word: int, slack: float = NO_LIMIT, at_once: int = 1
) -> list[tuple[str, str, int]]:
    """(sentence, word, round), by sentence."""
    left = plain_candidates(corpus, seed, per_word, slack)
    order = sorted(left, key=lambda word: (len(left[word]), plain_hash(word, seed, b"order"), word))
    chosen: dict[str, tuple[str, int]] = {}

    def free(word: str) -> list[str]:
        return [sentence for _, sentence in left[word] if sentence not in chosen][:at_once]

    def give(word: str) -> None:
        for sentence in free(word):
            if len(chosen) < size:
                chosen[sentence] = (word, 1 + sum(owner == word for owner, _ in chosen.values()))

    while order:
        if len(order) * at_once > size - len(chosen):
            order.sort(key=lambda word: (plain_hash(word, seed, b"order"), word))
        had = []
        for word in order:
            if len(free(word)) == at_once:
                give(word)
                had.append(word)
        for word in order:
            if word not in had:
                give(word)
        order = had if len(chosen) < size else []
    return [(sentence, word, round_) for sentence, (word, round_) in sorted(chosen.items())]


@given(
    *(corpora(), st.integers(0, 30), st.integers(-5, 5), st.integers(1, 6), st.sampled_from([1, 2, NO_LIMIT])),
    st.integers(1, 4),
)
def test_the_sample_is_that_of_the_plain_algorithm(corpus, size, seed, per_word, slack, at_once):
    sample = corpus.sample(size, seed, per_word, slack, at_once)
    expected = plain_sample(corpus, size, seed, per_word, slack, at_once)
    assert [(row["sentence"], row["word"], row["round"]) for row in sample] == expected


# --- what makes a sample valid ---


@given(corpora(), st.integers(0, 30))
def test_each_sentence_is_used_once_and_its_span_is_the_word_that_stands_there_once(corpus, size):
    sample = corpus.sample(size)
    text_of = dict(zip(corpus.ids, corpus.sentences, strict=True))
    assert len({row["sentence"] for row in sample}) == len(sample)
    for row in sample:
        text = text_of[row["sentence"]]
        assert text[row["start"] : row["end"]] == row["word"]
        assert words_of(text).count(row["word"]) == 1
        assert row["word"] in corpus.vocabulary["word"].to_pylist()


@given(corpora(), st.integers(0, 30), st.integers(1, 6))
def test_a_round_starts_only_when_no_word_could_get_more_in_the_round_before(corpus, size, per_word):
    sample = corpus.sample(size, per_word=per_word)
    pairs = plain_candidates(corpus, 1, per_word, NO_LIMIT)
    rounds = {word: sorted(row["round"] for row in sample if row["word"] == word) for word in pairs}
    last = max((row["round"] for row in sample), default=0)
    for word, own in rounds.items():
        assert own == list(range(1, len(own) + 1))  # one sentence a round, none left out
        if len(own) < last - 1:  # it fell behind: then in its next round everything it had was gone
            used = {row["sentence"] for row in sample if row["round"] <= len(own) + 1}
            assert all(sentence in used for _, sentence in pairs[word])


@given(corpora(), st.integers(0, 30), st.integers(1, 4))
def test_the_budget_is_filled_exactly_or_nothing_is_left(corpus, size, at_once):
    per_word = 25
    sample = corpus.sample(size, per_word=per_word, at_once=at_once)
    assert len(sample) <= size
    if len(sample) < size:
        used = {row["sentence"] for row in sample}
        pairs = plain_candidates(corpus, 1, per_word, NO_LIMIT)
        assert all(sentence in used for word in pairs for _, sentence in pairs[word])


@given(corpora(), st.integers(0, 30), st.integers(2, 4))
def test_a_word_with_too_few_sentences_is_sampled_only_if_the_budget_has_room_for_all_others(corpus, size, at_once):
    sample = corpus.sample(size, per_word=25, at_once=at_once)
    number = Counter(row["word"] for row in sample)
    few = [word for word in number if number[word] < at_once]
    used = {row["sentence"] for row in sample}
    pairs = plain_candidates(corpus, 1, 25, NO_LIMIT)
    if len(few) > 1:  # the last word of a full sample may have been cut short
        for word in pairs.keys() - number.keys():
            assert len([sentence for _, sentence in pairs[word] if sentence not in used]) < at_once


def test_a_small_sample_has_several_sentences_of_fewer_words():
    corpus = many_sentences(3000)
    assert len({row["word"] for row in corpus.sample(40, per_word=40)}) == 40
    several = Counter(row["word"] for row in corpus.sample(40, per_word=40, at_once=4))
    assert set(several.values()) == {4}
    others = Counter(row["word"] for row in corpus.sample(40, seed=2, per_word=40, at_once=4))
    assert several.keys() != others.keys()


def test_a_large_sample_is_as_balanced_with_several_sentences_at_once():
    sample = many_sentences(3000).sample(400, per_word=40, at_once=4)
    assert set(Counter(row["word"] for row in sample).values()) == {8}
    assert Counter(row["round"] for row in sample) == dict.fromkeys(range(1, 9), 50)


def test_a_word_that_differs_only_in_case_is_another_word():
    corpus = Corpus(["Bank bank", "bank bank"], pa.table({"word": ["bank"], "count": [4]}))
    assert corpus.sample(10) == [{"sentence": "s0", "word": "bank", "start": 5, "end": 9, "round": 1}]


def test_rare_words_choose_first():
    """The one sentence of the rare word also has the frequent one, which must make do with another."""
    vocabulary = pa.table({"word": ["often", "rare"], "count": [9, 1]})
    corpus = Corpus(["rare often"] + ["often"] * 8, vocabulary)
    for seed in range(20):
        sample = corpus.sample(2, seed, per_word=9)
        assert sorted(row["word"] for row in sample) == ["often", "rare"]


def test_a_last_round_that_is_cut_short_is_no_alphabetical_choice():
    words = [f"w{chr(ord('a') + i)}" for i in range(26)]
    corpus = Corpus(words * 2, pa.table({"word": words, "count": [2] * 26}))
    seen = Counter(row["word"] for seed in range(200) for row in corpus.sample(3, seed))
    assert set(seen) == set(words)
    assert max(seen.values()) < 60  # 600 choices, 26 words: about 23 each


def test_a_round_that_is_cut_short_does_not_prefer_rare_words():
    rare, often = [f"rare{chr(ord('a') + i)}" for i in range(10)], [f"often{chr(ord('a') + i)}" for i in range(10)]
    counts = {"word": rare + often, "count": [1] * 10 + [9] * 10}
    corpus = Corpus(rare + often * 9, pa.table(counts))
    seen = Counter(row["word"][:4] for seed in range(100) for row in corpus.sample(5, seed, per_word=9))
    assert abs(seen["rare"] - seen["ofte"]) < 100  # 250 each, give or take


# --- what must not matter ---


@given(
    *(corpora(), st.randoms(use_true_random=False), st.integers(0, 30), st.integers(1, 5), st.sampled_from([1, 2])),
    st.integers(1, 3),
)
def test_division_into_units_and_any_order_do_not_matter(corpus, chance, size, per_word, slack, at_once):
    whole = corpus.sample(size, 1, per_word, slack, at_once)
    with patch.object(tokens, "_ROWS_AT_ONCE", 2), patch.object(sampling, "_ROWS_WORTH_MERGING", 1):
        units = [corpus.candidates(rows, 1, per_word, slack) for rows in divided(corpus, chance)]
        assert select(iter(units), size, 1, per_word, at_once).to_pylist() == whole
    joined = pa.concat_tables(units)
    shuffled = joined.take(pa.array(chance.sample(range(joined.num_rows), joined.num_rows), pa.int64()))
    assert select([shuffled], size, 1, per_word, at_once).to_pylist() == whole


@given(corpora(), st.randoms(use_true_random=False), st.integers(1, 4), st.sampled_from([1, 2, NO_LIMIT]))
def test_merged_sketches_are_the_sketch_of_the_whole(corpus, chance, per_word, slack):
    merged: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for rows in divided(corpus, chance):
        for row in corpus.candidates(rows, 1, per_word, slack).to_pylist():
            merged[row["word"]].add((row["priority"], row["sentence"]))
    lowest = {word: sorted(pairs)[:per_word] for word, pairs in merged.items()}
    assert lowest == plain_candidates(corpus, 1, per_word, slack)


@given(corpora(), st.integers(1, 4))
def test_a_limit_that_leaves_too_few_leaves_the_lowest(corpus, per_word):
    """However frequent the vocabulary says a word is: what is kept begins where the full sketch begins."""
    full = plain_candidates(corpus, 1, per_word, NO_LIMIT)
    exaggerated = corpus.vocabulary.set_column(
        1, "count", pa.array([1000 * n for n in corpus.vocabulary["count"].to_pylist()], pa.int64())
    )
    rows = list(range(len(corpus.sentences)))
    few = Corpus(corpus.sentences, exaggerated).candidates(rows, 1, per_word, 100)
    kept: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row in few.to_pylist():
        kept[row["word"]].append((row["priority"], row["sentence"]))
    for word, pairs in kept.items():
        assert pairs == full[word][: len(pairs)]


def test_the_limit_bounds_what_all_units_keep():
    sentences = [f"often {'seldom' if i % 100 == 0 else 'x'}" for i in range(20_000)]
    table = sentence_table(sentences)
    vocabulary = pa.table({"word": ["often", "seldom"], "count": [20_000, 200]})
    kept: Counter[str] = Counter()
    for start in range(0, 20_000, 200):
        ids = pa.array(range(start, start + 200))
        kept.update(candidates(table.slice(start, 200), ids, vocabulary, 1, 100, 2.0)["word"].to_pylist())
    assert kept["seldom"] == 200
    assert 100 <= kept["often"] < 300  # about 200 of 20,000; without the limit 100 of each of 100 units


def test_pairs_of_the_same_priority_are_ordered_by_sentence():
    def unit(*sentences: str) -> pa.Table:
        n = len(sentences)
        return pa.table([["bank"] * n, [7] * n, list(sentences), [0] * n, [4] * n], schema=CANDIDATES)

    for units in ([unit("c", "a"), unit("d", "b")], [unit("b", "d", "a", "c")]):
        assert select(units, 10, 1, per_word=2)["sentence"].to_pylist() == ["a", "b"]


# --- seeds, ids, edges ---


def many_sentences(number: int, words: int = 50) -> Corpus:
    chance = random.Random(3)
    vocabulary = ["w" + "".join(chr(ord("a") + int(digit)) for digit in str(i)) for i in range(words)]
    sentences = [" ".join(chance.choices(vocabulary, k=6)) for _ in range(number)]
    return Corpus(sentences, make_vocabulary(count_words(sentence_table(sentences))))


def test_another_seed_gives_another_sample_and_the_same_seed_the_same():
    corpus = many_sentences(500)
    assert corpus.sample(100, seed=1) == corpus.sample(100, seed=1)
    assert corpus.sample(100, seed=1) != corpus.sample(100, seed=2)


def test_the_sample_is_the_same_in_every_version_of_this_program():
    """A change here changes every corpus that is built from now on: raise the version of the stage with it."""
    words = ["bank", "river", "été"]
    corpus = Corpus([word for word in words for _ in range(5)], pa.table({"word": words, "count": [5] * 3}))
    assert [row["sentence"] for row in corpus.sample(5)] == ["s0", "s12", "s2", "s8", "s9"]


def test_enough_sentences_fill_every_round():
    sample = many_sentences(3000).sample(500, per_word=40)
    assert set(Counter(row["word"] for row in sample).values()) == {10}
    assert Counter(row["round"] for row in sample) == dict.fromkeys(range(1, 11), 50)


def test_every_sentence_of_a_word_is_as_likely_as_any_other():
    corpus = Corpus(["bank"] * 10, pa.table({"word": ["bank"], "count": [10]}))
    seen = Counter(row["sentence"] for seed in range(1000) for row in corpus.sample(1, seed))
    assert min(seen.values()) > 60
    assert max(seen.values()) < 140


def test_integer_ids_stay_integers_and_are_sorted_as_such():
    corpus = many_sentences(200)
    ids = pa.chunked_array([pa.array(range(0, 150)), pa.array(range(150, 200))])
    unit = candidates(sentence_table(corpus.sentences), ids, corpus.vocabulary, 1, 5)
    sample = select([unit], 100, 1, 5)
    assert sample.schema.types == [pa.int64(), pa.string(), pa.int32(), pa.int32(), pa.int32()]
    assert sample["sentence"].to_pylist() == sorted(sample["sentence"].to_pylist())


def test_nothing_gives_nothing():
    corpus = Corpus([], pa.table({"word": pa.array([], pa.string()), "count": pa.array([], pa.int64())}))
    assert corpus.candidates([]).schema == CANDIDATES
    assert select([], 10, 1, 3).num_rows == 0
    assert select([corpus.candidates([])], 10, 1, 3).num_rows == 0
    assert Corpus(["bank"], corpus.vocabulary).sample(10) == []
    assert many_sentences(10).sample(0) == []


def test_what_makes_no_sense_is_refused():
    corpus = many_sentences(10)
    with pytest.raises(ValueError, match="10 sentences have 2 ids"):
        candidates(sentence_table(corpus.sentences), pa.array([1, 2]), corpus.vocabulary, 1, 5)
    with pytest.raises(ValueError, match="slack"):
        corpus.candidates([0], slack=0.5)


def test_per_word_has_room_over_the_mean():
    assert default_per_word(1_000_000, 50_000) == 80
    assert default_per_word(1_000_001, 50_000) == 84
    assert default_per_word(10, 50_000) == 32
    assert default_per_word(10, 0) == 40


@given(st.lists(st.integers(1, 200), max_size=30), st.integers(0, 3000))
def test_fitted_per_word_reaches_the_budget_even_if_most_words_are_rare(counts, size):
    vocabulary = pa.table({"word": [f"w{i}" for i in range(len(counts))], "count": pa.array(counts, pa.int64())})
    per_word = fitted_per_word(vocabulary, size)
    within_reach = sum(min(count, per_word) for count in counts)
    assert within_reach >= min(size, sum(counts))
    assert within_reach <= max(4 * (size + len(counts)), 32 * len(counts))
    if counts and min(counts) * len(counts) >= size:
        assert per_word == default_per_word(max(size, 1), len(counts))
    assert fitted_per_word(vocabulary, size, 50) == max(per_word, 200)


def synthetic_units(units: int, rows: int, length: int = 25, words: int = 50_000):
    """Zipf-distributed words of seven letters: text and offsets are made without a loop over tokens."""
    rng = np.random.default_rng(5)
    share = 1.0 / np.arange(1, words + 1)
    codes = np.arange(words)[:, None] // 26 ** np.arange(4) % 26
    alphabet = np.concatenate([np.full((words, 3), ord("w")), ord("a") + codes, np.full((words, 1), ord(" "))], axis=1)
    starts = pa.array([list(range(0, 8 * length, 8))] * rows, pa.list_(pa.int32()))
    ends = pa.array([list(range(7, 8 * length, 8))] * rows, pa.list_(pa.int32()))
    for _ in range(units):
        picks = rng.choice(words, (rows, length), p=share / share.sum())
        lines = alphabet[picks].astype(np.uint8).reshape(rows, 8 * length)
        yield pa.table(
            {"text": [line.tobytes().decode() for line in lines], "token_starts": starts, "token_ends": ends}
        )


@pytest.mark.slow
def test_a_sample_of_200_000_sentences_stays_balanced(caplog):
    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    tables = list(synthetic_units(20, 10_000))
    vocabulary = make_vocabulary(count_words(pa.concat_tables(tables)), size=20_000)
    size = 100_000
    per_word = fitted_per_word(vocabulary, size)
    before = peak()
    units = [
        candidates(table, pa.array([f"unit-{i:04}-{row:06}" for row in range(table.num_rows)]), vocabulary, 1, per_word)
        for i, table in enumerate(tables)
    ]
    kept, after_candidates = sum(unit.num_rows for unit in units), peak()
    sample = select(units, size, 1, per_word)
    with caplog.at_level(logging.INFO):
        logging.getLogger(__name__).info(
            "per_word %d, %d candidates; peak MB: %.0f before, %.0f with candidates, %.0f with the sample",
            *(per_word, kept, before, after_candidates, peak()),
        )
    assert sample.num_rows == size
    assert len(set(sample["sentence"].to_pylist())) == size
    rounds = Counter(sample["round"].to_pylist())
    assert [rounds[r] for r in sorted(rounds)][:-1] == sorted((rounds[r] for r in sorted(rounds)[:-1]), reverse=True)
    assert peak() - before < 1000
