"""Translations that are visibly none, and good ones that must pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.corpus.paraphrases.checks import fault, has_loop

TEXT = "The operational requirement for the missile was issued in 1955, and the project was completed in 1957."
GOOD = "O requisito operacional para o míssil foi emitido em 1955, e o projeto foi concluído em 1957."


@pytest.mark.parametrize(
    ("text", "translation", "language"),
    [
        (TEXT, GOOD, "pt"),
        (TEXT, "导弹的作战要求于1955年发布，该项目于1957年完成。", "zh"),
        ("导弹的作战要求于1955年发布，该项目于1957年完成。", TEXT, "en"),
        ("What did he say?", "Τι είπε;", "el"),
        (TEXT, "ข้อกำหนดในการปฏิบัติงานของขีปนาวุธออกในปี 1955 และโครงการเสร็จสมบูรณ์ในปี 1957", "th"),
        ('He said "no."', "Il a dit « non. »", "fr"),
        ("Hello.", "Bom dia, senhores.", "pt"),
        ("Congratulations on your retirement!", "祝贺退休！", "zh"),
        ("A heading without a mark", "Um título sem sinal", "pt"),
        ("Ha ha ha ha ha ha ha ha ha ha, he laughed.", "Ha ha ha ha ha ha ha ha ha ha, riu ele.", "pt"),
    ],
)
def test_a_good_translation_passes(text, translation, language):
    assert fault(text, translation, language) is None


@pytest.mark.parametrize(
    ("translation", "reason"),
    [
        ("", "empty translation"),
        (" \n", "empty translation"),
        (TEXT.lower() + " ", "untranslated"),
        (GOOD[:-1], "truncated translation"),
        (GOOD[:70], "truncated translation"),
        ("O requisito.", "truncated translation"),
        (" ".join([GOOD, "Também", GOOD[::-1], GOOD.upper()]), "runaway translation"),
        ("O requisito" + " operacional" * 6 + ".", "runaway translation"),
        ("O requisito foi emitido, e o projeto, e o projeto, e o projeto foi concluído.", "runaway translation"),
        ("需求需求需求需求需求需求需求需求需求需求需求需求需求。", "runaway translation"),
        ("O requisito" + "." * 40, "runaway translation"),
    ],
)
def test_a_bad_translation_is_named_by_its_fault(translation, reason):
    assert fault(TEXT, translation, "pt") == reason


@given(st.lists(st.integers(100, 999), min_size=2, max_size=12, unique=True), st.integers(3, 6), st.text(max_size=20))
def test_a_piece_over_and_over_is_a_loop_wherever_it_stands(numbers, times, around):
    piece = " ".join(map(str, numbers)) + " "
    assert has_loop(around + piece * times + around)


@given(st.lists(st.integers(1000, 9999), max_size=40, unique=True))
def test_what_says_nothing_twice_in_a_row_is_no_loop(numbers):
    words = [f"{number}" for number in numbers]
    assert not has_loop(" ".join(words))
    assert not has_loop(" ".join(words + words))
