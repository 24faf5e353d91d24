"""Sentences and tokens: offsets that are exactly right, whatever the text."""

import itertools
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.engine import time_limit
from corpusgen.engine.batch import Batch
from corpusgen.engine.isolate import run_stage
from corpusgen.errors import StageError
from corpusgen.tables import PARAGRAPHS, SENTENCES
from corpusgen.text import segment as segmenting
from corpusgen.text.segment import LONGEST_PARAGRAPH, RuleSegmenter, SegmentSentences, StanzaSegmenter
from corpusgen.text.words import tokenize
from tests.testing.shared_data import shared_data

RULES = RuleSegmenter()
pieces = st.sampled_from(
    ["Dr. Smith", " left.", "\u00a0", "  ", "“No!”", " he said", "3.14", "e.g.", "U.S.", "don't", "…", "é"]
)


def segment(segmenter, texts):
    """For each text its sentences, each as a span and the spans of its tokens."""
    paragraphs, spans, (counts, starts, ends) = segmenter.segment(texts)
    tokens = iter(zip(starts.tolist(), ends.tolist(), strict=True))
    found = [[] for _ in texts]
    for paragraph, span, count in zip(paragraphs, spans, counts, strict=True):
        found[paragraph].append((span, list(itertools.islice(tokens, int(count)))))
    return found


@given(st.lists(st.one_of(st.text(max_size=30), st.lists(pieces, max_size=9).map("".join)), max_size=5))
def test_tokens_are_what_the_pattern_finds(texts):
    pattern = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
    counts, starts, ends = tokenize(texts)
    wanted = [[match.span() for match in pattern.finditer(text)] for text in texts]
    assert counts.tolist() == list(map(len, wanted))
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == list(itertools.chain(*wanted))


@given(st.one_of(st.text(max_size=200), st.lists(pieces, max_size=20).map("".join)))
def test_offsets_are_exact_for_any_text(text):
    (sentences,) = segment(RULES, [text])
    covered = 0
    for (start, stop), tokens in sentences:
        assert covered <= start < stop <= len(text)
        assert not text[covered:start].strip()  # nothing but white space is left out
        surface = text[start:stop]
        assert surface == surface.strip()
        position = 0
        for a, b in tokens:
            assert position <= a < b <= len(surface)
            assert not surface[position:a].strip()
            assert surface[a:b].strip() == surface[a:b]
            position = b
        assert not surface[position:].strip()
        covered = stop
    assert not text[covered:].strip()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Dr. Smith met Mrs. Jones at 3 p.m. on Jan. 5. They left.",
            ["Dr. Smith met Mrs. Jones at 3 p.m. on Jan. 5.", "They left."],
        ),
        (
            "He wrote to Messrs. Brown and Green. Then he left.",
            ["He wrote to Messrs. Brown and Green.", "Then he left."],
        ),
        ("It is a strong bond. For this reason it lasts.", ["It is a strong bond.", "For this reason it lasts."]),
        ("It costs 3.50 dollars. Really!", ["It costs 3.50 dollars.", "Really!"]),
    ],
)
def test_abbreviations_do_not_end_a_sentence(text, sentences):
    (found,) = segment(RULES, [text])
    assert [text[a:b] for (a, b), _ in found] == sentences


def test_words_keep_inner_marks_and_lose_outer_ones():
    (((_, tokens),),) = segment(RULES, ["The well-known singer didn't (really) stop."])
    text = "The well-known singer didn't (really) stop."
    assert [text[a:b] for a, b in tokens] == ["The", "well-known", "singer", "didn't", "(", "really", ")", "stop", "."]


long_pieces = st.sampled_from(
    [
        "See ",
        " " + "w" * 1500,
        " " + "W" * 2001 + ". ",
        " " + "1" * 1200 + ". The ",
        ". " * 800,
        "…" + " " * 1500,
        "end? ",
    ]
)


@given(st.lists(st.one_of(pieces, long_pieces), max_size=12).map("".join))
def test_words_of_any_length_are_judged_by_their_ends(text):
    (found,) = segment(RULES, [text])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmenting, "_LONGEST_WORD", len(text) + 1)
        assert segment(RULES, [text]) == [found]


def paragraph(number, text):
    return {"source": "s", "article": "1", "title": "T", "revision": "9", "paragraph": number, "text": text}


def test_sentences_keep_their_provenance_and_never_cross_a_paragraph():
    rows = pa.Table.from_pylist(
        [paragraph(0, "One two. Three"), paragraph(1, "four. Five."), paragraph(2, " ")], PARAGRAPHS
    )
    stage = SegmentSentences()
    stage.setup()
    batch = run_stage(stage, Batch(rows))
    assert batch.rows.schema.names == [name for name in SENTENCES.names if name != "id"]
    found = [(r["paragraph"], r["sentence"], r["text"]) for r in batch.rows.to_pylist()]
    assert found == [(0, 0, "One two."), (0, 1, "Three"), (1, 0, "four."), (1, 1, "Five.")]
    assert batch.stages["segment"].rejected == {"no sentence": 1}
    assert batch.stages["segment"].used == 2
    assert batch.rows["revision"].to_pylist() == ["9"] * 4


def test_a_paragraph_that_is_none_is_quarantined_with_its_provenance_and_nothing_else_suffers():
    texts = ["One two. Three", "a" * LONGEST_PARAGRAPH, "Four. " * (LONGEST_PARAGRAPH // 6 + 1), "Five. Six."]
    stage = SegmentSentences()
    stage.setup()
    batch = run_stage(stage, Batch(pa.Table.from_pylist(list(map(paragraph, range(4), texts)), PARAGRAPHS)))
    found = [(r["paragraph"], r["sentence"], r["text"]) for r in batch.rows.to_pylist()]
    assert found == [(0, 0, "One two."), (0, 1, "Three"), (1, 0, texts[1]), (3, 0, "Five."), (3, 1, "Six.")]
    (failure,) = batch.quarantined
    assert failure["error"] == "the paragraph has 1,000,002 characters; the limit is 1,000,000"
    assert failure["record"] == {"source": "s", "article": "1", "paragraph": 2}
    counted = batch.stages["segment"]
    assert (counted.used, counted.rejected, counted.quarantined) == (3, {}, 1)


def test_a_paragraph_that_takes_too_long_is_quarantined_with_its_provenance_and_nothing_else_suffers(monkeypatch):
    monkeypatch.setattr(time_limit, "SECONDS", 0.1)
    stage = SegmentSentences()
    stage.setup()
    asked = stage._segmenter._sentence_spans

    def endless(piece):
        yield from asked(piece)  # some sentences are found before it hangs
        while "hang" in piece:
            pass

    monkeypatch.setattr(stage._segmenter, "_sentence_spans", endless)
    texts = ["One two! Three", "It will hang! Or will it", " ", "Four! Five."]
    batch = run_stage(stage, Batch(pa.Table.from_pylist(list(map(paragraph, range(4), texts)), PARAGRAPHS)))
    found = [(r["paragraph"], r["sentence"], r["text"]) for r in batch.rows.to_pylist()]
    assert found == [(0, 0, "One two!"), (0, 1, "Three"), (3, 0, "Four!"), (3, 1, "Five.")]
    (failure,) = batch.quarantined
    assert (failure["error"], failure["record"]["paragraph"]) == ("took longer than 0.1 s", 1)
    counted = batch.stages["segment"]
    assert (counted.used, counted.rejected, counted.quarantined) == (2, {"no sentence": 1}, 1)


def test_stanza_without_its_model_says_how_to_get_it(tmp_path):
    pytest.importorskip("stanza")
    with pytest.raises(StageError, match=r"segmenter.model_dir: .*nowhere: no such folder"):
        StanzaSegmenter("en", str(tmp_path / "nowhere"), use_gpu=False)
    with pytest.raises(StageError, match=r"Stanza cannot load its 'en' tokenizer .*stanza.download"):
        StanzaSegmenter("en", str(tmp_path), use_gpu=False)


@pytest.mark.real
def test_stanza_offsets_are_exact():
    pytest.importorskip("stanza")
    segmenter = StanzaSegmenter("en", str(shared_data("models/stanza")), use_gpu=False)
    texts = ["Dr. Smith's dog can't swim.  It sank!", "A second  paragraph, of one sentence."]
    found = segment(segmenter, texts)
    sentences = [[text[a:b] for (a, b), _ in sentences] for text, sentences in zip(texts, found, strict=True)]
    assert sentences == [["Dr. Smith's dog can't swim.", "It sank!"], [texts[1]]]
    for text, one in zip(texts, found, strict=True):
        for (start, stop), tokens in one:
            assert all(text[start:stop][a:b].strip() for a, b in tokens)
