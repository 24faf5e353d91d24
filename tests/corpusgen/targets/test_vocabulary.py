"""Counting is what a plain Counter does; the vocabulary is what stands after the very top."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.tables import COUNTS, TOKEN_VOCABULARY, VOCABULARY
from corpusgen.targets import vocabulary
from corpusgen.targets.vocabulary import count_tokens, count_words, frequent_tokens, make_vocabulary, merge_counts
from corpusgen.text.words import tokenize
from tests.corpusgen.targets.support import sentence_table, texts, words_of


def counts_table(counts: dict[str, int]) -> pa.Table:
    return pa.table([list(counts), list(counts.values())], schema=COUNTS)


def as_dict(counts: pa.Table) -> dict[str, int]:
    return dict(zip(*counts.to_pydict().values(), strict=True))


def plain_counts(sentences: list[str]) -> Counter[str]:
    return Counter(word for text in sentences for word in words_of(text) if word.isalpha())


@given(st.lists(texts, max_size=12))
def test_count_words_is_a_counter_of_the_alphabetic_tokens(sentences):
    counts = count_words(sentence_table(sentences))
    assert counts.schema == COUNTS
    assert as_dict(counts) == plain_counts(sentences)
    assert counts["word"].to_pylist() == sorted(plain_counts(sentences))


@given(st.lists(texts, max_size=12), st.integers(1, 5), st.integers(0, 3))
def test_counting_does_not_care_how_arrow_holds_the_rows(sentences, chunk_rows, skipped):
    table = sentence_table(["Not counted"] * skipped + sentences)
    chunked = pa.Table.from_batches(table.to_batches(max_chunksize=chunk_rows), table.schema).slice(skipped)
    assert as_dict(count_words(chunked)) == plain_counts(sentences)


@given(st.text(max_size=30), st.data())
def test_a_token_is_the_characters_between_its_offsets_whatever_they_are(text, data):
    offset = st.integers(0, len(text))
    spans = [sorted(span) for span in data.draw(st.lists(st.tuples(offset, offset), max_size=6))]
    table = pa.table({"text": [text], "token_starts": [[s for s, _ in spans]], "token_ends": [[e for _, e in spans]]})
    expected = Counter(text[start:end] for start, end in spans if text[start:end].isalpha())
    assert as_dict(count_words(table)) == expected


def test_more_sentences_than_are_read_at_once_are_all_counted():
    sentences = [f"the {'bank' if i % 3 else 'river'} été" for i in range(10_000)]
    assert as_dict(count_words(sentence_table(sentences))) == plain_counts(sentences)


@pytest.mark.parametrize(("starts", "ends"), [([0], [9]), ([2], [1]), ([-1], [1]), ([0, 1], [1]), (None, None)])
def test_a_sentence_whose_tokens_are_not_in_its_text_is_an_error(starts, ends):
    kind = pa.list_(pa.int32())
    table = pa.table({"text": ["word"], "token_starts": pa.array([starts], kind), "token_ends": pa.array([ends], kind)})
    with pytest.raises(ValueError, match="token"):
        count_words(table)


@given(st.lists(st.dictionaries(st.sampled_from("abcdeé"), st.integers(1, 2**40)), max_size=8), st.randoms())
def test_merged_counts_are_the_exact_sum_in_any_order(parts, random):
    total: Counter[str] = sum((Counter(part) for part in parts), Counter())
    random.shuffle(parts)
    merged = merge_counts(counts_table(part) for part in parts)
    assert merged.schema == COUNTS
    assert as_dict(merged) == total
    assert merged["word"].to_pylist() == sorted(total)


@given(st.lists(texts, max_size=12), st.integers(0, 12))
def test_counts_of_units_add_up_to_the_counts_of_the_corpus(sentences, cut):
    table = sentence_table(sentences)
    units = [count_words(table.slice(0, cut)), count_words(table.slice(cut))]
    assert merge_counts(units).equals(count_words(table))


def test_merging_holds_on_to_the_words_and_not_to_the_tables():
    """A thousand tables of the same 5,000 words never take the room of a hundred."""
    words = [f"word{i}" for i in range(5_000)]
    in_use: list[int] = []

    def tables() -> Iterator[pa.Table]:
        for i in range(1000):
            yield pa.table([words, [i] * len(words)], schema=COUNTS)
            in_use.append(pa.total_allocated_bytes() - before)

    gc.collect()
    before = pa.total_allocated_bytes()
    merged = merge_counts(tables())
    assert set(merged["count"].to_pylist()) == {sum(range(1000))}
    assert max(in_use) < 100 * merged.nbytes


def test_vocabulary_drops_the_top_and_orders_ties_by_word():
    counts = counts_table({"the": 90, "of": 80, "sea": 7, "bank": 7, "Bank": 7, "river": 8, "once": 1, "ice": 2})
    vocabulary = make_vocabulary(counts, drop_top_share=0.25, size=4)
    assert vocabulary.schema == VOCABULARY
    assert vocabulary.to_pydict() == {
        "word": ["river", "Bank", "bank", "sea"],
        "count": [8, 7, 7, 7],
        "rank": [3, 4, 5, 6],
        "capital_share": [0, 0.5, 0.5, 0],
    }


@pytest.mark.parametrize(
    ("types", "dropped"), [(0, 0), (1, 0), (499, 0), (500, 1), (1499, 1), (1500, 2), (2500, 3), (10_000, 10)]
)
def test_a_thousandth_of_the_types_is_dropped_rounded_to_nearest(types, dropped):
    counts = counts_table({f"w{i:05}": types - i for i in range(types)})
    vocabulary = make_vocabulary(counts)
    assert vocabulary["rank"].to_pylist() == list(range(dropped + 1, types + 1))
    assert vocabulary["word"].to_pylist() == [f"w{i:05}" for i in range(dropped, types)]


@given(st.dictionaries(st.text("abAé", min_size=1, max_size=4), st.integers(1, 5)), st.randoms())
def test_vocabulary_does_not_depend_on_the_order_of_the_counts(counts, random):
    shuffled = list(counts.items())
    random.shuffle(shuffled)
    vocabulary = make_vocabulary(counts_table(dict(shuffled)), drop_top_share=0.2, size=5)
    assert vocabulary.equals(make_vocabulary(counts_table(counts), drop_top_share=0.2, size=5))
    expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[int(len(counts) * 0.2 + 0.5) :][:5]
    assert list(zip(vocabulary["word"].to_pylist(), vocabulary["count"].to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("wrong", [{"drop_top_share": -0.1}, {"drop_top_share": 1.1}, {"size": -1}])
def test_an_impossible_vocabulary_is_refused(wrong):
    with pytest.raises(ValueError, match="vocabulary"):
        make_vocabulary(counts_table({"a": 1}), **wrong)


# --- tokens of whole paragraphs ---


@given(st.lists(st.text(max_size=30), max_size=12))
def test_count_tokens_is_a_counter_of_all_tokens_in_lower_case(paragraphs):
    tokens = tokenize(paragraphs, whole=True)
    spans = zip(tokens.rows.tolist(), tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
    expected = Counter(paragraphs[row][start:end].lower() for row, start, end in spans)
    columns = dict(zip(("token_starts", "token_ends"), tokens.columns(), strict=True))
    found = count_tokens(pa.table({"text": pa.array(paragraphs, pa.string()), **columns}))
    assert found.schema == COUNTS
    assert as_dict(found) == expected
    assert found["word"].to_pylist() == sorted(expected)


def test_lower_case_is_that_of_python():
    text = "ΟΔΟΣ İstanbul STRASSE 3.5 U.S. ,"
    columns = dict(zip(("token_starts", "token_ends"), tokenize([text], whole=True).columns(), strict=True))
    assert set(as_dict(count_tokens(pa.table({"text": [text], **columns})))) == set(text.lower().split())


part_counts = st.lists(st.dictionaries(st.sampled_from("abcdefgé𝒳"), st.integers(1, 9)), max_size=8)


@given(part_counts, st.integers(1, 20), st.integers(1, 8), st.integers(1, 6), st.randoms())
def test_frequent_tokens_are_exact_in_any_order_and_however_few_words_fit_into_memory(
    parts, min_count, size, most_words, random
):
    total: Counter[str] = sum((Counter(part) for part in parts), Counter())
    ordered = sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))
    expected = [(word, count) for word, count in ordered if count >= min_count][:size]
    random.shuffle(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "_ROWS_WORTH_MERGING", 1)
        found = frequent_tokens(lambda: map(counts_table, parts), min_count, size, most_words)
    assert found.schema == TOKEN_VOCABULARY
    assert list(zip(found["word"].to_pylist(), found["count"].to_pylist(), strict=True)) == expected
    assert found["rank"].to_pylist() == list(range(1, len(expected) + 1))


def test_of_more_words_than_fit_only_some_are_in_memory_at_once():
    """A hundred tables of 2,000 new words each never take the room of fifty, and the frequent one is found."""
    in_use: list[int] = []
    reads = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal reads
        reads += 1
        for i in range(100):
            table = pa.table([[f"{j:04d}-{i}" for j in range(2000)] + ["the"], [1] * 2001], schema=COUNTS)
            yield table
            in_use.append(pa.total_allocated_bytes() - before)

    gc.collect()
    before = pa.total_allocated_bytes()
    found = frequent_tokens(tables, 2, 10, most_words=5_000)
    assert found.to_pylist() == [{"word": "the", "count": 100, "rank": 1}]
    assert reads > 5
    one = next(tables())
    assert max(in_use) < 50 * one.nbytes
