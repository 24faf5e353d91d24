"""Ranges in any order, on any number of readers, with any crash: they give what one sequential reading gives."""

import bz2
import codecs
import gzip
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpusgen.errors import StoreUnavailableError
from corpusgen.sources import archives, locate, streams
from corpusgen.sources.streams import TO_THE_END, Problem, byte_ranges
from tests.corpusgen.sources.support import COMPRESS, Reader, archive, reference, source

LONGEST = 60
WHOLE = {".gz": gzip.decompress, ".bz2": bz2.decompress}  # what refuses an archive that does not end
MARKERS = {"begins": b"<doc ", "ends": b"</doc>"}


@pytest.fixture(autouse=True, scope="module")
def small_limits():
    """So small that a few hundred bytes meet all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "LONGEST_RECORD", LONGEST)
        patch.setattr(streams, "HELD_BACK", 20)
        patch.setattr(streams, "_SKIPPED", 13)
        patch.setattr(archives, "_PIECE", 11)
        patch.setattr(archives, "_CHUNK", 7)
        patch.setattr(locate, "_LOCAL_BUFFER", 16)
        yield


def some_bytes(most):
    return st.integers(0, most).map(lambda size: (b"abcdefghi " * (size // 10 + 1))[:size])


LINES = st.lists(st.one_of(some_bytes(12), some_bytes(3 * LONGEST)), max_size=25)
DOCS = st.lists(
    st.one_of(
        st.sampled_from([b"<doc 1>", b"</doc>", b"x", b"", b"  <doc 2>", b"text </doc>", b"<doc 3></doc>"]),
        some_bytes(2 * LONGEST),
        some_bytes(2 * LONGEST).map(lambda text: b"<doc " + text),
        some_bytes(2 * LONGEST).map(lambda text: text + b"</doc>"),
    ),
    max_size=25,
)


@st.composite
def texts(draw, lines):
    return b"\n".join(draw(lines)) + draw(st.sampled_from([b"", b"\n", b"\n\n"]))


@st.composite
def archives_of(draw, text, suffix):
    """A text in any number of members, padded with NULs or not."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    padding = b"\0" * draw(st.sampled_from([0, 4, 12])) if suffix in (".gz", ".bz2", ".xz") else b""
    members = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return archive(suffix, *members) + padding


def text_of_whole(data, suffix, otherwise):
    """The text of an archive in which no member is cut off."""
    try:
        return WHOLE[suffix](data)
    except (EOFError, OSError, ValueError):
        return otherwise


def end(found):
    """Where the last of the text was found: a flipped bit can turn some bytes into a run of many thousands."""
    return max((item.offset if isinstance(item, Problem) else item[0] + len(item[1]) for item in found), default=0)


def in_disorder(path, data, markers):
    """All ranges of a file by three readers at random, some of them interrupted or cut off from the disk first."""
    file = source(path)
    unit_bytes = data.draw(st.integers(max(1, file.size // 30), file.size // 30 + 150), "unit_bytes")
    chance = random.Random(data.draw(st.integers(0, 1000), "seed"))
    ranges = byte_ranges(file, unit_bytes)
    order = list(range(len(ranges)))
    if data.draw(st.booleans(), "shuffled"):
        chance.shuffle(order)
    readers = [Reader() for _ in range(data.draw(st.integers(1, 3), "readers"))]
    found = {}
    for number in order:
        reader = chance.choice(readers)
        match chance.randrange(6):
            case 0:
                reader.read(file, *ranges[number], most=chance.randrange(4), **markers)
            case 1:
                with failing(chance.randrange(8)) as fail:
                    fail(lambda reader=reader, number=number: reader.read(file, *ranges[number], **markers))
        found[number] = reader.read(file, *ranges[number], **markers)
    return [record for number in range(len(ranges)) for record in found[number]]


class failing:  # noqa: N801
    """A disk that gives up after so many reads."""

    def __init__(self, reads):
        self._left = reads
        self._patch = pytest.MonkeyPatch()

    def __enter__(self):
        real = locate._Bytes.readinto

        def readinto(file, to):
            self._left -= 1
            if self._left < 0:
                raise StoreUnavailableError("the disk is gone")
            return real(file, to)

        self._patch.setattr(locate._Bytes, "readinto", readinto)
        return self._call

    def __exit__(self, *error):
        self._patch.undo()

    def _call(self, read):
        try:
            read()
        except StoreUnavailableError:
            return


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize(("lines", "markers"), [(LINES, {}), (DOCS, MARKERS)], ids=["lines", "docs"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_ranges_in_any_order_on_any_readers_give_one_sequential_reading(tmp_path_factory, suffix, lines, markers, data):
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    text = data.draw(texts(lines), "text")
    path.write_bytes(data.draw(archives_of(text, suffix), "bytes"))
    expected = reference(text, longest=LONGEST, **markers)
    assert Reader().read(source(path), 0, TO_THE_END, **markers) == expected
    assert in_disorder(path, data, markers) == expected


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_utf_16_is_read_like_utf_8_and_only_a_newline_ends_a_line(tmp_path_factory, suffix, encoding, data):
    path = tmp_path_factory.getbasetemp() / f"wide{suffix}"
    pieces = st.sampled_from(["a", "ü", "€", "𝄞", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
    text = "".join(data.draw(st.lists(pieces, max_size=80), "text"))
    wide = (codecs.BOM_UTF16_LE if encoding == "utf-16-le" else codecs.BOM_UTF16_BE) + text.encode(encoding)
    path.write_bytes(data.draw(archives_of(wide, suffix), "bytes"))
    assert in_disorder(path, data, {}) == reference(text.encode(), longest=LONGEST)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize(("lines", "markers"), [(LINES, {}), (DOCS, MARKERS)], ids=["lines", "docs"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_damage_is_told_once_wherever_ranges_are_cut(tmp_path_factory, suffix, lines, markers, data):
    path = tmp_path_factory.getbasetemp() / f"damaged{suffix}"
    text = data.draw(texts(lines), "text")
    whole = data.draw(archives_of(text, suffix), "bytes").rstrip(b"\0")
    cut = data.draw(st.integers(1, max(1, len(whole) - 1)), "cut")
    flipped = data.draw(st.booleans(), "flipped")
    if flipped:
        path.write_bytes(whole[: cut - 1] + bytes([whole[cut - 1] ^ 0x55]) + whole[cut:])
    else:
        path.write_bytes(whole[:cut])
    held_back = data.draw(st.sampled_from([20, 20_000]), "held back")
    streams.HELD_BACK = held_back
    sequential = Reader().read(source(path), 0, TO_THE_END, **markers)
    assert in_disorder(path, data, markers) == sequential
    told = [found.error for found in sequential if isinstance(found, Problem) and "the file is damaged" in found.error]
    assert len(told) <= 1
    if not flipped and suffix in WHOLE:  # cut between two members, the rest is an archive that nothing is missing in
        text = text_of_whole(path.read_bytes(), suffix, otherwise=text)
    good = [record for record in reference(text, longest=LONGEST, **markers) if not isinstance(record, Problem)]
    read = [record for record in sequential if not isinstance(record, Problem)]
    # A flipped bit can take the check sum for text, so that the archive seems to be cut off: then nothing proves it.
    proved = not (flipped and told and archives._CUT_OFF in told[0])
    if suffix in WHOLE and proved and held_back > max(len(text), end(sequential)):
        assert read == good[: len(read)]
