"""The pieces found for a span are those that share a character with it, and what is cut keeps the word."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.models.spans import FoundWord, ReadText, reasons_for, special_ends, stretches, window

REASONS = reasons_for("target", blank_is_outside=True)
FIRST, LAST = 101, 102


def encoding(offsets, head=1, tail=1):
    """What a tokenizer returns: pieces numbered from 0 between special tokens, which have no characters."""
    return SimpleNamespace(
        ids=[FIRST] * head + list(range(len(offsets))) + [LAST] * tail,
        offsets=[(0, 0)] * head + offsets + [(0, 0)] * tail,
        special_tokens_mask=[1] * head + [0] * len(offsets) + [1] * tail,
    )


@st.composite
def read_texts(draw):
    """A text and offsets that never go back, as those of tokenizers: with gaps, shared characters and empty pieces."""
    text = draw(st.text(st.sampled_from("ab \t中"), max_size=20))
    bounds = st.lists(st.integers(0, len(text)), max_size=15).map(sorted)
    starts, ends = draw(bounds), draw(bounds)
    offsets = [(start, max(start, end)) for start, end in zip(starts, ends, strict=False)]
    return text, encoding(offsets, draw(st.integers(0, 2)), draw(st.integers(0, 2)))


@given(read_texts(), st.integers(-2, 22), st.integers(-2, 22), st.booleans())
def test_pieces_found_cover_the_span_and_nothing_outside_it(read, start, end, blank_is_outside):
    text, encoded = read
    reasons = reasons_for("word", blank_is_outside=blank_is_outside)
    found = ReadText(text, encoded).find((start, end), reasons)
    if not 0 <= start < end <= len(text):
        assert found == reasons.outside
        return
    wanted = {
        position for position in range(start, end) if text[start : position + 1].strip() and text[position:end].strip()
    }
    if not wanted:
        assert found == (reasons.outside if blank_is_outside else reasons.no_piece)
        return
    pieces = {number for number, span in enumerate(encoded.offsets) if wanted & {*range(*span)}}
    if not pieces:
        assert found == reasons.no_piece
        return
    assert found == FoundWord(min(pieces), max(pieces), min(wanted), max(wanted) + 1)
    covered = {
        position for number in range(found.first, found.last + 1) for position in range(*encoded.offsets[number])
    }
    neighbours = {
        position for position in covered if not found.start <= position < found.end and not text[position].isspace()
    }
    assert ReadText(text, encoded).shares_piece(found) == bool(neighbours)


def test_a_piece_may_take_in_the_space_before_a_word_but_no_other_character():
    read = ReadText("the river, stood", encoding([(0, 3), (3, 9), (9, 16)]))
    river = read.find((4, 9), REASONS)
    assert river == (2, 2, 4, 9)
    assert not read.shares_piece(river)
    assert read.shares_piece(read.find((4, 8), REASONS))
    assert read.shares_piece(read.find((5, 9), REASONS))
    assert read.shares_piece(read.find((11, 16), REASONS))


def test_a_caller_names_what_stands_at_the_span_and_what_blank_means():
    target, word = REASONS, reasons_for("word", blank_is_outside=False)
    assert target == (
        "span is empty or outside the text",
        "span is empty or outside the text",
        "target has no word piece",
        "target is longer than the model's input",
    )
    assert word.blank == word.no_piece == "word has no word piece"
    read = ReadText("a  b", encoding([(0, 1), (3, 4)]))
    assert [read.find((1, 3), reasons) for reasons in (target, word)] == [target.outside, word.no_piece]


@given(st.integers(1, 40), st.integers(0, 2), st.integers(0, 2), st.integers(5, 30), st.data())
def test_a_window_holds_the_word_in_the_middle_between_the_special_tokens(count, head, tail, longest, data):
    encoded = encoding([(0, 1)] * count, head, tail)
    ends = special_ends(encoded)
    assert ends == (head, tail)
    first, last = sorted(data.draw(st.tuples(*[st.integers(head, head + count - 1)] * 2)))
    ids, room = encoded.ids, longest - head - tail
    cut = window(ids, first, last, ends, longest)
    assert window(tuple(ids), first, last, ends, longest) == (cut and (tuple(cut[0]), cut[1]))
    if len(ids) <= longest:
        assert cut == (ids, 0)
    elif last + 1 - first > room:
        assert cut is None
    else:
        found, moved = cut
        assert len(found) == longest
        assert (found[:head], found[longest - tail :]) == (ids[:head], ids[len(ids) - tail :])
        assert found[head : longest - tail] == ids[head + moved : head + moved + room]
        assert found[first - moved : last + 1 - moved] == ids[first : last + 1]
        before, after = first - moved - head, longest - tail - (last + 1 - moved)
        if 0 < moved < count - room:  # neither end of the text is near
            assert abs(before - after) <= 1


@given(st.integers(0, 60), st.integers(0, 2), st.integers(0, 2), st.integers(5, 20))
def test_stretches_hold_each_piece_of_a_text_once(count, head, tail, longest):
    encoded = encoding([(0, 1)] * count, head, tail)
    parts = list(stretches(encoded.ids, special_ends(encoded), longest))
    assert [ids[position] for ids, positions in parts for position in positions] == list(range(count))
    for ids, positions in parts:
        assert len(ids) <= longest
        assert (ids[: positions.start], ids[positions.stop :]) == ([FIRST] * head, [LAST] * tail)


@pytest.mark.parametrize("count", [0, 2])
def test_an_input_of_special_tokens_alone_has_no_stretches(count):
    encoded = encoding([], head=count, tail=0)
    assert special_ends(encoded) == (count, 0)
    assert list(stretches(encoded.ids, (count, 0), 5)) == []
