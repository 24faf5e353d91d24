"""The filters: one reason each, each one switchable."""

import pyarrow as pa
import pytest

from corpusgen.config.build import FilterSettings
from corpusgen.text.filters import FilterSentences
from corpusgen.text.words import tokenize

GOOD = "The old bank by the river was never quite still because the water took some of it every single day."


def reason(text, language="en", **settings):
    rows = pa.Table.from_pylist([sentence(GOOD), sentence(text)])
    result = FilterSentences(language, FilterSettings(**settings)).process(rows)
    assert result.rows.num_rows == 2 - result.rejects.num_rows
    reasons = dict(zip(result.rejects["text"].to_pylist(), result.rejects["reason"].to_pylist(), strict=True))
    return reasons.get(text)


def sentence(text):
    _, starts, ends = tokenize([text])
    provenance = {"source": "dir/s", "article": "1", "title": "T", "revision": None, "paragraph": 0, "sentence": 0}
    return {**provenance, "text": text, "token_starts": starts, "token_ends": ends}


CASES = [
    ("too short", "The bank was closed.", {"min_words": None}),
    ("too long", GOOD[:-1] + " and" * 40 + " so.", {"max_words": None}),
    ("no capital first", "the" + GOOD[3:], {"capital_first": False}),
    ("no end of sentence", GOOD[:-1], {"ends_as_sentence": False}),
    ("hyphens", GOOD.replace("old", "old-old").replace("quite", "quite-quite"), {"max_hyphens": None}),
    (
        "commas",
        GOOD.replace(" was", ", was").replace(" because", ", because").replace(" some", ", some"),
        {"max_commas": None},
    ),
    ("numbers", GOOD.replace("old", "12").replace("some", "3,000"), {"max_numbers": None}),
    ("repeated character", GOOD.replace("still", "stillll"), {"no_repeated_characters": False}),
    ("wide character", GOOD.replace("still", "静か"), {"no_wide_characters": False}),
    ("unbalanced", GOOD.replace("old", '"old'), {"balanced": False}),
    ("debris", GOOD.replace("old", "old[[bank]]"), {"no_debris": False}),
    ("debris", GOOD.replace("old", "old ()"), {"no_debris": False}),
    ("debris", GOOD.replace("old", "\ufffc"), {"no_debris": False}),
    ("debris", GOOD.replace("quite", "quite ,"), {"no_debris": False}),
]


def test_a_good_sentence_is_kept():
    assert reason(GOOD) is None


@pytest.mark.parametrize(("expected", "text", "off"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_each_filter_has_its_reason_and_can_be_switched_off(expected, text, off):
    assert reason(text) == expected
    assert reason(text, **off) is None


def test_wide_characters_are_at_home_in_cjk():
    assert reason(GOOD.replace("still", "静か"), language="ja") is None
