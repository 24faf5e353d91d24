"""Archives, good and bad: what is lost is told, and what no check sum has proved is not taken for text."""

import bz2
import codecs
import gzip
import io
import random

import pytest

from corpusgen.errors import ConfigError, StoreUnavailableError
from corpusgen.sources import locate, streams
from corpusgen.sources.archives import DamagedError, decompressed
from corpusgen.sources.readers import JsonLines, PlainText, WikiExtractor, range_slices
from corpusgen.sources.streams import TO_THE_END, Problem, read_records
from tests.corpusgen.sources.support import COMPRESS, archive, read_all, run, source

ARCHIVES = [".gz", ".bz2", ".xz", ".zst"]


def lines(number, length=60):
    chance = random.Random(number)
    return [bytes(chance.choices(b"abcdefghijklmnop ", k=length)) + b" %d\n" % n for n in range(number)]


def read(suffix, data):
    return decompressed(io.BufferedReader(io.BytesIO(data)), f"text{suffix}").read()


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_members_one_after_the_other_are_one_text(suffix):
    texts = [b"".join(lines(n)) for n in (1, 2000, 0, 3)]
    assert read(suffix, archive(suffix, *texts)) == b"".join(texts)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_nuls_may_follow_a_member(suffix):
    padding = b"\0" * 20_000
    assert read(suffix, COMPRESS[suffix](b"One.\n") + padding) == b"One.\n"
    assert read(suffix, COMPRESS[suffix](b"One.\n") + padding + COMPRESS[suffix](b"Two.\n")) == b"One.\nTwo.\n"


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_wherever_an_archive_is_cut_off_it_is_told(suffix):
    data = archive(suffix, b"".join(lines(3)), b"".join(lines(4)))
    boundary = len(COMPRESS[suffix](b"".join(lines(3))))
    for size in range(1, len(data)):
        if size != boundary:
            with pytest.raises(DamagedError):
                read(suffix, data[:size])


@pytest.mark.parametrize("suffix", ARCHIVES)
@pytest.mark.parametrize("rest", ["damaged header", "garbage", "text"])
def test_what_follows_a_member_and_is_none_is_told_with_its_offset(tmp_path, suffix, rest):
    first, second = lines(5000), lines(3)
    behind = {
        "damaged header": b"X" + COMPRESS[suffix](b"".join(second))[1:],
        "garbage": bytes(range(1, 200)),
        "text": b"".join(second),
    }[rest]
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](b"".join(first)) + behind)
    *records, problem = read_all(path, 50_000)
    assert isinstance(problem, Problem)
    assert "damaged or cut off from here" in problem.error
    good = [data for _, data in (record for record in records if not isinstance(record, Problem))]
    assert good == first[: len(good)]
    if suffix != ".zst":  # pyarrow gives nothing of the piece in which the damage is
        assert good == first
        assert problem.offset == sum(map(len, first))


@pytest.mark.parametrize("suffix", ARCHIVES)
def test_damage_is_told_by_the_range_that_it_is_in_and_by_no_other(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(streams, "HELD_BACK", 0)
    text = b"".join(lines(5000))
    path = tmp_path / f"text{suffix}"
    data = COMPRESS[suffix](text)
    path.write_bytes(data[: len(data) // 2])
    file = source(path)
    ranges = [(start, start + 10_000) for start in range(0, 400_000, 10_000)]
    for order in (ranges, ranges[::-1]):
        problems = [found for some in order for found in read_records(file, *some) if isinstance(found, Problem)]
        assert len([found for found in problems if "damaged or cut off" in found.error]) == 1
        assert len(problems) <= 2  # the line in which it is, and the damage


def test_a_damaged_block_of_bz2_gives_no_scrambled_lines(tmp_path):
    """Its check sum stands behind it: what was unpacked before is shuffled text that looks like text."""
    chance = random.Random(0)
    good = lines(40_000)
    data = bz2.compress(b"".join(good))
    path = tmp_path / "text.bz2"
    for _ in range(6):
        offset = chance.randrange(len(data) // 4, len(data))
        path.write_bytes(data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :])
        found = read_all(path, 1 << 30)
        records = [record[1] for record in found if not isinstance(record, Problem)]
        assert records == good[: len(records)]
        assert isinstance(found[-1], Problem)


@pytest.mark.parametrize("suffix", ["", *ARCHIVES])
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), OSError(116, "Stale file handle")])
def test_errors_of_the_machine_are_not_taken_for_damage(tmp_path, suffix, error, monkeypatch):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(COMPRESS[suffix](b"".join(lines(20_000))))
    expected = list(read_records(source(path), 0, TO_THE_END))
    real = locate.open_binary

    class Failing(io.FileIO):
        reads = 0

        def readinto(self, buffer):
            Failing.reads += 1
            if Failing.reads > 3:
                raise error
            return super().readinto(buffer)

    monkeypatch.setattr(locate, "open_binary", lambda path: io.BufferedReader(locate._Bytes(Failing(path), path)))
    found = []
    with pytest.raises(StoreUnavailableError, match=r"cannot read .*text.* on .*: .*(Input|Stale)"):
        found += read_records(source(path), 0, 500_000)
    assert not any(isinstance(record, Problem) for record in found)
    monkeypatch.setattr(locate, "open_binary", real)
    assert [*read_records(source(path), 0, 500_000), *read_records(source(path), 500_000, TO_THE_END)] == expected


def test_a_failure_never_looks_like_an_end():
    class Once(io.BytesIO):
        def read(self, size=-1):
            if self.tell():
                self.seek(0, 2)
                raise StoreUnavailableError("the network is gone")
            return super().read(size)

    file = decompressed(Once(gzip.compress(b"".join(lines(10_000)))), "text.gz")
    with pytest.raises(StoreUnavailableError):
        file.read()
    with pytest.raises(StoreUnavailableError):
        file.read()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_mark_at_the_beginning_of_utf_8_is_no_text(tmp_path, suffix):
    def written(name, text):
        path = tmp_path / f"{name}{suffix}"
        path.write_bytes(COMPRESS[suffix](codecs.BOM_UTF8 + text.encode()))
        return range_slices([str(path)], 10)

    rows, _, quarantined = run(JsonLines(), written("json", '{"text": "One."}\n{"text": "Two."}\n'))
    assert [row["text"] for row in rows] == ["One.", "Two."]
    assert quarantined == []
    rows, _, quarantined = run(PlainText(), written("plain", "One.\nTwo.\n"))
    assert [(row["article"], row["text"]) for row in rows] == [("0", "One."), ("8", "Two.")]
    rows, _, quarantined = run(WikiExtractor(), written("docs", '<doc id="1" title="T">\nOne.\n</doc>\n'))
    assert [(row["article"], row["text"]) for row in rows] == [("1", "One.")]
    assert quarantined == []


@pytest.mark.parametrize(
    "data", [*(COMPRESS[suffix](b"One.\n") for suffix in ARCHIVES), b"7z\xbc\xaf\x27\x1c\0", b"PK\x03\x04"]
)
def test_an_archive_without_its_ending_is_not_read_as_a_text_without_records(tmp_path, data):
    path = tmp_path / "pages-articles.xml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"pages-articles\.xml is an archive, although .*: unpack it, or rename it"):
        read_all(path, 1 << 20, begins=b"<page>", ends=b"</page>")


def test_a_check_sum_that_fails_at_the_end_casts_doubt_on_the_lines_before(tmp_path):
    data = bytearray(gzip.compress(b"".join(lines(50_000))))
    data[-6] ^= 1
    (tmp_path / "text.gz").write_bytes(data)
    *_, problem = read_all(tmp_path / "text.gz", 1 << 30)
    assert "earlier lines may be wrong, too" in problem.error
    (tmp_path / "text.gz").write_bytes(b"no archive")
    *_, problem = read_all(tmp_path / "text.gz", 1 << 30)
    assert "earlier lines" not in problem.error


def test_arrow_hands_on_the_errors_of_a_file_as_they_are(tmp_path):
    """Else a network that is gone would be taken for a damaged archive."""

    class Gone(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            raise StoreUnavailableError("the network is gone")

    with pytest.raises(StoreUnavailableError):
        decompressed(io.BufferedReader(Gone()), "text.zst").read()
