"""From pieces to the whole: intervals hold as often as they say, and words grow as they do in texts."""

import numpy as np
import pyarrow as pa
import pytest

from corpusgen.ops.estimate.extrapolate import WholeSource, distinct_words, most_candidates
from corpusgen.ops.estimate.measure import MeasuredPass
from corpusgen.ops.estimate.source import Piece, SourceSample
from corpusgen.targets.sampling import candidates
from corpusgen.targets.vocabulary import count_words, make_vocabulary, merge_counts
from tests.corpusgen.targets.support import sentence_table


def sample_of(population, number, chance, heads=False):
    """One of each stratum, as pieces of 1,000 bytes are chosen."""
    positions = ((np.arange(number) + chance.random(number)) / number * len(population)).astype(int)
    pieces = [Piece({}, 1000.0) for _ in positions]
    return SourceSample(pieces, 1000 * len(population), 1, 10, heads), population[positions]


@pytest.mark.parametrize("number", [6, 16, 64])
def test_the_interval_holds_nine_times_in_ten(number):
    """Of a source that changes from its beginning to its end, with pieces that differ from each other."""
    chance = np.random.default_rng(1)
    population = chance.poisson(np.linspace(20, 60, 500) * chance.lognormal(0, 0.4, 500))
    held, widths = 0, []
    for _ in range(200):
        source, values = sample_of(population, number, chance)
        value, low, high = WholeSource(source, chance).sum_of(values).interval()
        held += low <= population.sum() <= high
        widths.append((high - low) / value)
    assert held >= 168
    assert np.mean(widths) < 2.5 / np.sqrt(number)


def test_what_was_read_as_a_whole_is_known_and_a_single_piece_says_little():
    chance = np.random.default_rng(0)
    whole = SourceSample([Piece({}, 400.0), Piece({}, 600.0)], 1000, 1, 1, False)
    assert WholeSource(whole, chance).sum_of([3, 4]).interval() == (7, 7, 7)
    one = SourceSample([Piece({}, 100.0)], 1000, 1, 1, False)
    value, low, high = WholeSource(one, chance).sum_of([5]).interval()
    assert value == 50
    assert (low, high) == (pytest.approx(25, rel=0.1), pytest.approx(100, rel=0.1))


def test_beginnings_of_files_make_an_interval_wider():
    population = np.full(300, 7)
    values = [
        WholeSource(*(source, np.random.default_rng(0))).sum_of(found).interval()
        for source, found in (sample_of(population, 20, np.random.default_rng(0), heads) for heads in (False, True))
    ]
    assert values[0].high == pytest.approx(2100)
    assert values[1].high > 2300


def test_the_first_piece_is_taken_to_be_as_fast_as_the_others():
    source = SourceSample([Piece({}, 100.0)] * 4, 4000, 1, 1, False)
    assert WholeSource(source, np.random.default_rng(0)).seconds_of([50.0, 1.0, 1.0, 1.0]).value == pytest.approx(40)


def texts_of(number, seed):
    """Words as frequent as in a language: the r-th with a share of 1/r."""
    words = [f"{n:06d}".translate(str.maketrans("0123456789", "abcdefghij")) for n in range(200_000)]
    share = 1 / np.arange(1, len(words) + 1)
    drawn = np.random.default_rng(seed).choice(words, (number, 20), p=share / share.sum())
    return [" ".join(row) for row in drawn.tolist()]


@pytest.fixture(scope="module")
def corpus():
    return [sentence_table(texts_of(200, seed)) for seed in range(40)]


def harvested(tables):
    counts = [count_words(table) for table in tables]
    rows = {"counts": pa.concat_tables(counts)}
    part_rows = [{"sentences": 200, "counts": count.num_rows} for count in counts]
    return MeasuredPass("harvest", [], {}, [], part_rows, rows, 0.0)


@pytest.mark.parametrize("pieces", [4, 10])
def test_distinct_words_of_more_and_of_fewer_sentences_are_about_right(corpus, pieces):
    harvest = harvested(corpus[:pieces])
    for number in (1, pieces, 40):
        true = merge_counts(count_words(table) for table in corpus[:number]).num_rows
        assert distinct_words(harvest, 200 * number) == pytest.approx(true, rel=0.3)


@pytest.mark.parametrize("parts", [1, 8])
def test_candidates_of_a_larger_corpus_are_about_right(corpus, parts):
    counts = merge_counts(count_words(table) for table in corpus[:10])
    words = make_vocabulary(counts, 0.001, 2000)
    whole = make_vocabulary(merge_counts(count_words(table) for table in corpus), 0.001, 2000)

    def kept(tables, vocabulary):
        ids = [pa.array([f"{n} {row}" for row in range(table.num_rows)]) for n, table in enumerate(tables)]
        some = (candidates(table, id_, vocabulary, 0, 32).num_rows for table, id_ in zip(tables, ids, strict=True))
        return sum(some)

    merged = [pa.concat_tables(corpus[n::parts]) for n in range(parts)]
    found = kept(corpus[:10], words) / most_candidates(words, 1, 100, 10) * most_candidates(words, 4, 400, parts)
    assert found == pytest.approx(kept(merged, whole), rel=0.35)
