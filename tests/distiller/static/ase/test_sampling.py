"""The contexts of a word are its occurrences of lowest priority, however the text is divided into units."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.static.ase.sampling import ALL, find_occurrences, kept_per_word, limits, lowest, priorities, thresholds

WORDS = ["the", "river", "a", "é"]
NUMBERS = {word: number for number, word in enumerate(WORDS)}


def paragraphs(texts, first=0):
    """Paragraphs of words between spaces."""
    starts, ends = [], []
    for text in texts:
        places = np.cumsum([0, *(len(word) + 1 for word in text.split(" "))])
        starts.append(places[:-1].tolist())
        ends.append((places[1:] - 1).tolist())
    ids = [f"p{first + n}" for n in range(len(texts))]
    return pa.table({"id": ids, "text": texts, "token_starts": starts, "token_ends": ends})


def thresholds_of(texts, cuts, contexts, seed):
    """What units keep, merged."""
    counts = np.bincount(find_occurrences(paragraphs(texts), NUMBERS).words, minlength=len(WORDS))
    limit = limits(counts, contexts)
    kept = []
    for first, last in zip([0, *cuts], [*cuts, len(texts)], strict=True):
        unit = paragraphs(texts[first:last], first)
        found = find_occurrences(unit, NUMBERS)
        of = priorities(unit["id"].to_pylist(), found, seed)
        low = np.flatnonzero(of <= limit[found.words])
        low = low[lowest(found.words[low], of[low], contexts)]
        kept.append((found.words[low], of[low]))
    words, of = (np.concatenate(column) for column in zip(*kept, strict=True))
    return thresholds(words, of, limit, contexts)


texts_of_words = st.lists(
    st.lists(st.sampled_from([*WORDS, "River", "THE", "unknown"]), min_size=1, max_size=30).map(" ".join),
    min_size=1,
    max_size=12,
)


@given(texts_of_words, st.data(), st.integers(1, 5), st.integers(-3, 3))
def test_any_division_into_units_chooses_the_lowest_of_the_whole_text(texts, data, contexts, seed):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=4)))
    threshold = thresholds_of(texts, cuts, contexts, seed)
    found = find_occurrences(paragraphs(texts), NUMBERS)
    of = priorities([f"p{n}" for n in range(len(texts))], found, seed)
    for number in range(len(WORDS)):
        own = np.sort(of[found.words == number])
        np.testing.assert_array_equal(own[own <= threshold[number]], own[:contexts])


def test_words_are_found_in_lower_case_with_their_places():
    found = find_occurrences(paragraphs(["The old River", "É the é"]), NUMBERS)
    assert found.rows.tolist() == [0, 0, 1, 1, 1]
    assert found.places.tolist() == [0, 2, 0, 1, 2]
    assert found.words.tolist() == [0, 1, 3, 0, 3]


def test_text_without_words_has_no_occurrences():
    assert len(find_occurrences(paragraphs(["unknown"]), NUMBERS).words) == 0


@pytest.mark.parametrize("contexts", [1, 10, 100])
def test_frequent_words_keep_a_few_more_priorities_than_needed(contexts):
    of = np.random.default_rng(0).integers(0, ALL, 100_000, np.uint64, endpoint=True)
    kept = (of <= limits(np.array([len(of)]), contexts)[0]).sum()
    assert contexts < kept < 2 * kept_per_word(contexts)


def test_all_priorities_of_rare_words_are_kept():
    assert limits(np.array([1, 100, 0]), 100).tolist() == [ALL] * 3


def test_another_seed_gives_other_priorities():
    found = find_occurrences(paragraphs(["the the the"]), NUMBERS)
    first, second = (priorities(["p"], found, seed) for seed in (0, 1))
    assert len({*first.tolist(), *second.tolist()}) == 6
