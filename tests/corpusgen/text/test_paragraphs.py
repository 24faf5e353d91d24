"""Whole paragraphs: exact offsets of sentences and tokens, and a reason for each that is not kept."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.engine import time_limit
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.tables import KEPT_PARAGRAPHS, PARAGRAPHS
from corpusgen.text.paragraphs import SegmentParagraphs
from corpusgen.text.segment import LONGEST_PARAGRAPH
from corpusgen.text.words import tokenize

GOOD = "The river rose in May. Nobody crossed it for weeks, and the mill stood still. Then the water fell at last."
pieces = st.sampled_from(
    [
        "Dr. Smith",
        " left.",
        "\u00a0",
        "  ",
        "“No!”",
        " he said",
        "3.14",
        "1,000",
        "e.g.",
        "U.S.",
        "don't",
        "…",
        "e\u0301",
    ]
)
texts = st.one_of(st.text(max_size=200), st.lists(pieces, max_size=25).map("".join))


def rows_of(*texts):
    provenance = {"source": "a/s", "article": "1", "title": "T", "revision": "9"}
    rows = [{**provenance, "paragraph": number, "text": text} for number, text in enumerate(texts)]
    return pa.Table.from_pylist(rows, PARAGRAPHS)


def stage_of(**settings):
    stage = SegmentParagraphs(**settings)
    stage.setup()
    return stage


ALL = stage_of(min_sentences=1, min_characters=1)


def run(*texts, stage=None, **settings):
    return run_stage(stage or stage_of(**settings), Batch(rows_of(*texts)))


def words_of(text):
    (_, starts, ends) = tokenize([text], whole=True)
    return [text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]


# --- tokens ---


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The U.S. grew 3.5 percent.", "The U.S. grew 3.5 percent ."),
        ("It cost 1,000,000 dollars, or 50%.", "It cost 1,000,000 dollars , or 50 % ."),
        ("In 1990, e.g. a Ph.D. (from the U.S.S.R.)", "In 1990 , e.g. a Ph.D. ( from the U.S.S.R. )"),
        ("See example.com. It stood in the U.S.", "See example.com . It stood in the U.S."),
        ("U.S.-based, at 5 a.m.; don't!?", "U.S.-based , at 5 a.m. ; don't ! ?"),
        ("J. K. met Mr. No.", "J . K . met Mr . No ."),
        ("cafe\u0301 naïve हिन्दी می\u200cخواهم", "cafe\u0301 naïve हिन्दी می\u200cخواهم"),
        ("", ""),
    ],
)
def test_numbers_and_abbreviations_stay_whole_and_every_mark_is_a_token(text, words):
    assert words_of(text) == words.split()


@given(texts)
def test_tokens_cover_every_character_but_spaces_and_do_not_overlap(text):
    _, starts, ends = tokenize([text], whole=True)
    position = 0
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        assert position <= start < end <= len(text)
        assert not text[position:start].strip()
        assert not any(map(str.isspace, text[start:end]))
        position = end
    assert not text[position:].strip()


@given(st.lists(texts, max_size=5))
def test_texts_do_not_see_each_other(some):
    alone = [tokenize([text], whole=True) for text in some]
    together = tokenize(some, whole=True)
    assert together.counts.tolist() == [one.counts[0] for one in alone]
    assert together.starts.tolist() == [start for one in alone for start in one.starts.tolist()]


# --- offsets ---


def sentences_of(row):
    """The spans of the sentences of a row, each with those of its tokens."""
    tokens = iter(zip(row["token_starts"], row["token_ends"], strict=True))
    spans = zip(row["sentence_starts"], row["sentence_ends"], row["sentence_tokens"], strict=True)
    found = [((start, end), list(itertools.islice(tokens, number))) for start, end, number in spans]
    assert next(tokens, None) is None
    return found


@given(st.lists(texts, min_size=1, max_size=4))
def test_offsets_are_exact_and_every_token_is_in_one_sentence(some):
    batch = run(*some, stage=ALL)
    counted = batch.stages["segment"]
    assert counted.rows_out + sum(counted.rejected.values()) == len(some)
    for row in batch.rows.to_pylist() if batch.rows else ():
        text, covered = some[row["paragraph"]], 0
        assert row["text"] == text
        for (start, end), tokens in sentences_of(row):
            assert covered <= start < end <= len(text)
            assert not text[covered:start].strip()
            assert tokens
            for a, b in tokens:
                assert max(covered, start) <= a < b <= end
                assert not text[covered:a].strip()
                covered = b
            assert covered == end
        assert not text[covered:].strip()


def test_a_full_stop_inside_a_number_or_an_abbreviation_ends_no_sentence():
    text = "The U.S. grew 3.5 percent. It cost $1,000. That was all!"
    (row,) = run(text, min_characters=1).rows.to_pylist()
    found = [(text[a:b], [text[c:d] for c, d in tokens]) for (a, b), tokens in sentences_of(row)]
    assert found == [
        ("The U.S. grew 3.5 percent.", ["The", "U.S.", "grew", "3.5", "percent", "."]),
        ("It cost $1,000.", ["It", "cost", "$", "1,000", "."]),
        ("That was all!", ["That", "was", "all", "!"]),
    ]


# --- what is kept ---


def test_a_kept_paragraph_has_all_columns_and_an_id_of_its_own():
    rows = run(f"  {GOOD}", GOOD.upper(), min_characters=10).rows
    assert set(rows.schema.names) == set(KEPT_PARAGRAPHS.names)
    assert rows.select(KEPT_PARAGRAPHS.names).cast(KEPT_PARAGRAPHS).num_rows == 2
    assert len(set(rows["id"].to_pylist())) == 2
    moved = rows_of(f"  {GOOD}").set_column(0, "source", pa.array(["elsewhere/s"]))
    assert ALL.process(moved).rows["id"][0] == rows["id"][0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD[: GOOD.index("Then")], "too short"),
        (GOOD.replace(". N", ", n").replace(". T", ", t") * 2, "too few sentences"),
        (GOOD.replace("mill", "\ufffc"), "damaged"),
        (GOOD.replace("mill", "m\ufffdll"), "damaged"),
        (GOOD.replace("mill", "m\x07ill"), "damaged"),
        (GOOD.replace("mill", "[[mill]]"), "damaged"),
        (GOOD.replace("mill", "{{mill}}"), "damaged"),
        (GOOD.replace("mill", '<ref name="x">mill'), "damaged"),
        (GOOD.replace("mill", "formula_4"), "damaged"),
    ],
)
def test_what_is_not_kept_has_a_reason(text, reason):
    batch = run(GOOD, text, GOOD, min_characters=100)
    assert batch.rows["paragraph"].to_pylist() == [0, 2]
    assert batch.stages["segment"].rejected == {reason: 1}


def test_marks_that_are_no_damage_are_kept():
    assert run(GOOD.replace("mill", "a < b > c [sic] {x} ’’ 50 °\u200e\u00ad"), min_characters=100).num_rows == 1


def test_the_filters_of_sentences_do_not_apply():
    odd = "aaaa bbbb ,, ;; (. no capital, many, many, commas, 1 2 3 4. x! Y? and no end " * 2
    assert run(odd).num_rows == 1


def test_a_paragraph_that_cannot_be_split_is_quarantined_with_its_place_and_nothing_else_suffers(monkeypatch):
    monkeypatch.setattr(time_limit, "SECONDS", 0.1)
    stage = stage_of(min_characters=1)
    asked = stage._segmenter._sentence_spans

    def endless(piece):
        yield from asked(piece)
        while "hang" in piece:
            pass

    monkeypatch.setattr(stage._segmenter, "_sentence_spans", endless)
    long = "Four. " * (LONGEST_PARAGRAPH // 6 + 1)
    batch = run(GOOD, "It will hang! Or will it? Yes!", "No.", long, GOOD, stage=stage)
    assert batch.rows["paragraph"].to_pylist() == [0, 4]
    assert [failure["record"]["paragraph"] for failure in batch.quarantined] == [1, 3]
    counted = batch.stages["segment"]
    assert (counted.rows_in, counted.rows_out, counted.rejected, counted.quarantined) == (
        *(5, 2),
        {"too few sentences": 1},
        2,
    )


def test_slices_of_a_table_give_what_the_whole_table_gives():
    texts = [GOOD.replace("May", f"May {number}") * (1 + number % 3) for number in range(40)]
    stage = stage_of(min_characters=250)
    whole, rows = stage.process(rows_of(*texts)), rows_of(*texts)
    parts = [stage.process(rows.slice(first, 7)) for first in range(0, 40, 7)]
    assert pa.concat_tables([part.rows for part in parts]).to_pylist() == whole.rows.to_pylist()
