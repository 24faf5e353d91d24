"""The kinds of input, good and bad."""

import bz2
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusgen.errors import ConfigError
from corpusgen.sources.locate import find_files
from corpusgen.sources.readers import (
    ExtractText,
    JsonLines,
    MediaWikiPages,
    ParquetRows,
    PlainText,
    WikiExtractor,
    mediawiki_slices,
    parquet_slices,
    range_slices,
)
from tests.corpusgen.sources.support import run

PAGE = """  <page>
    <title>{title}</title>
    <ns>{ns}</ns>
    <id>{id}</id>{redirect}
    <revision>
      <id>9{id}</id>
      <text xml:space="preserve">{text}</text>
    </revision>
  </page>
"""


def page(number, text="Some text.", ns=0, redirect=False):
    tag = '\n    <redirect title="X" />' if redirect else ""
    return PAGE.format(title=f"T{number}", id=number, text=text, ns=ns, redirect=tag)


def dump(*pages):
    return (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">\n  <siteinfo/>\n'
        + "".join(pages)
        + "</mediawiki>\n"
    )


@pytest.mark.parametrize("unit_bytes", [50, 10_000])
def test_a_dump_gives_its_articles_and_counts_what_is_none(tmp_path, unit_bytes):
    path = tmp_path / "dump.xml"
    pages = [
        page(1),
        page(2, ns=1),
        page(3, redirect=True),
        page(4, "#REDIRECT [[X]]"),
        page(5, "{{disambiguation}}"),
        page(6),
    ]
    path.write_text(dump(*pages))
    rows, rejected, quarantined = run(MediaWikiPages(), mediawiki_slices([str(path)], unit_bytes))
    assert [(row["article"], row["title"], row["revision"], row["text"]) for row in rows] == [
        ("1", "T1", "91", "Some text."),
        ("6", "T6", "96", "Some text."),
    ]
    assert rejected == {"namespace": 1, "redirect": 2, "disambiguation": 1}
    assert quarantined == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("suffix", ["", ".bz2", ".gz"])
def test_dumps_may_be_compressed_and_in_utf_16(tmp_path, suffix, encoding):
    data = f'<?xml version="1.0" encoding="{encoding}"?>\n{dump(page(1, "Въведен през 1582 г."))}'.encode(encoding)
    path = tmp_path / f"dump.xml{suffix}"
    path.write_bytes({"": bytes, ".bz2": bz2.compress, ".gz": gzip.compress}[suffix](data))
    rows, _, quarantined = run(MediaWikiPages(), mediawiki_slices([str(path)], 1 << 20))
    assert [row["text"] for row in rows] == ["Въведен през 1582 г."]
    assert quarantined == []


def test_a_multistream_dump_is_read_by_groups_of_streams(tmp_path):
    streams = [bz2.compress(b"<mediawiki>\n<siteinfo/>\n")]
    index = []
    for first in range(0, 40, 10):
        offset = sum(map(len, streams))
        streams.append(bz2.compress("".join(page(n, "x" * 500) for n in range(first, first + 10)).encode()))
        index += [f"{offset}:{n}:T{n}" for n in range(first, first + 10)]
    streams.append(bz2.compress(b"</mediawiki>"))
    path = tmp_path / "wiki-pages-articles-multistream.xml.bz2"
    path.write_bytes(b"".join(streams))
    (tmp_path / "wiki-pages-articles-multistream-index.txt.bz2").write_bytes(bz2.compress("\n".join(index).encode()))
    slices = mediawiki_slices([str(path)], 1)
    assert len(slices) == 4
    assert all(record["multistream"] for (record,) in slices)
    rows, _, quarantined = run(MediaWikiPages(), slices)
    assert [row["article"] for row in rows] == [str(n) for n in range(40)]
    assert quarantined == []


def test_a_multistream_dump_that_ends_inside_a_page_says_so(tmp_path):
    path = tmp_path / "wiki-pages-articles-multistream.xml.bz2"
    path.write_bytes(bz2.compress((page(1) + page(2)[:60]).encode()))
    (tmp_path / "wiki-pages-articles-multistream-index.txt.bz2").write_bytes(bz2.compress(b"0:1:T1\n0:2:T2\n"))
    rows, _, quarantined = run(MediaWikiPages(), mediawiki_slices([str(path)], 1))
    assert [row["article"] for row in rows] == ["1"]
    assert [entry["error"] for entry in quarantined] == ["the text ends inside this record"]


STREAMS = bz2.compress(b"<mediawiki>\n") + bz2.compress(page(1).encode())
INDEX = bz2.compress("".join(f"{len(bz2.compress(b'<mediawiki>'))}:{n}:T{n}\n" for n in range(2000)).encode())


@pytest.mark.parametrize(
    ("suffix", "index", "message"),
    [
        (".bz2", b"no archive", "damaged or not an index: Invalid data stream"),
        (".bz2", INDEX[: len(INDEX) // 2], "damaged or not an index: Compressed file ended"),
        (".bz2", bz2.compress(b"<html>not found</html>\n"), "damaged or not an index: not enough values"),
        ("", b"12:1:One\n34", "damaged or not an index: not enough values"),
        ("", b"twelve:1:One\n", "damaged or not an index: invalid literal"),
        ("", b"", "is empty, or not the index of"),
        ("", b"0:1:One\n999999:2:Two\n", "is empty, or not the index of"),
    ],
)
def test_an_index_that_is_damaged_is_named_with_a_remedy(tmp_path, suffix, index, message):
    dump_path = tmp_path / "wiki-pages-articles-multistream.xml.bz2"
    dump_path.write_bytes(STREAMS)
    index_path = tmp_path / f"wiki-pages-articles-multistream-index.txt{suffix}"
    index_path.write_bytes(index)
    # The index lies beside the dump under the dump's own compression.
    if not suffix:
        dump_path = dump_path.rename(tmp_path / "wiki-pages-articles-multistream.xml")
    with pytest.raises(ConfigError, match=r"multistream-index.*download it again, or move it away") as error:
        mediawiki_slices([str(dump_path)], 1)
    assert message in str(error.value)


def test_malformed_pages_are_quarantined_with_their_location_and_the_others_kept(tmp_path):
    path = tmp_path / "dump.xml"
    bad_xml = page(2, "a <b> c")
    bad_utf8 = page(3, "BYTE").encode().replace(b"BYTE", b"\xff\xfe")
    cut_off = page(5)[:60]
    path.write_bytes(dump(page(1), bad_xml).encode()[:-13] + bad_utf8 + page(4).encode() + cut_off.encode())
    rows, _, quarantined = run(MediaWikiPages(), mediawiki_slices([str(path)], 1 << 20))
    assert [row["article"] for row in rows] == ["1", "4"]
    assert len(quarantined) == 3
    data = path.read_bytes()
    for entry, number in zip(quarantined, (2, 3, 5), strict=True):
        assert entry["record"]["source"] == str(path)
        assert f"T{number}" in data[entry["record"]["offset"] :][:60].decode()
    assert "mismatched tag" in quarantined[0]["error"]
    assert "ends inside" in quarantined[2]["error"]


def test_extraction_gives_paragraphs_with_their_provenance():
    article = {
        "source": "d",
        "article": "7",
        "title": "T",
        "revision": "9",
        "text": "A '''bold''' [[word|one]].\n\n== H ==\n\nTwo.",
    }
    empty = {**article, "article": "8", "text": "{{Infobox|x=1}}"}
    rows, rejected, _ = run(ExtractText(), [[article, empty]])
    assert [(row["article"], row["paragraph"], row["text"]) for row in rows] == [
        ("7", 0, "A bold one."),
        ("7", 1, "Two."),
    ]
    assert rejected == {"no running text": 1}


def test_wikiextractor_files_lose_the_title_line_and_keep_the_rest(tmp_path):
    path = tmp_path / "wiki_00"
    first = '<doc id="1" url="u" title="A &amp; B">\nA & B\n\nFirst &lt;x&gt;.\nSecond.\n</doc>\n'
    path.write_text(f'{first}<doc id="2" title="C">\nC\n\n</doc>\n')
    rows, _, _ = run(WikiExtractor(), range_slices([str(path)], 30))
    assert [(row["article"], row["title"], row["paragraph"], row["text"]) for row in rows] == [
        ("1", "A & B", 0, "First <x>."),
        ("1", "A & B", 1, "Second."),
    ]


def test_jsonl_keeps_what_names_the_text_and_quarantines_bad_lines(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    lines = [
        json.dumps({"id": 5, "title": "T", "body": "One.\nTwo."}),
        "{broken",
        json.dumps({"id": 6}),
        json.dumps({"body": 3}),
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n\xff\n"))
    rows, _, quarantined = run(JsonLines("body"), range_slices([str(path)], 1 << 20))
    assert [(row["article"], row["title"], row["text"]) for row in rows] == [("5", "T", "One."), ("5", "T", "Two.")]
    assert len(quarantined) == 4


def test_plain_text_is_a_paragraph_a_line_named_by_its_offset(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("Eins.\n\nZwölf.\n".encode() + b"bad \xff\nlast")
    rows, _, quarantined = run(PlainText(), range_slices([str(path)], 4))
    assert [(row["article"], row["text"]) for row in rows] == [("0", "Eins."), ("7", "Zwölf."), ("21", "last")]
    assert [entry["record"]["offset"] for entry in quarantined] == [15]


def test_parquet_is_read_by_row_groups(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table(
        {"id": ["1", "2", "3"], "url": ["u"] * 3, "title": ["A", "B", "C"], "text": ["One.\nTwo.", "", "Three."]}
    )
    pq.write_table(table, path, row_group_size=1)
    slices = parquet_slices([str(path)], 1)
    assert len(slices) == 3
    rows, _, _ = run(ParquetRows(), slices)
    assert [(row["article"], row["title"], row["text"]) for row in rows] == [
        ("1", "A", "One."),
        ("1", "A", "Two."),
        ("3", "C", "Three."),
    ]


@pytest.mark.parametrize("kept", [0, 3, 40, -1])
def test_a_file_that_is_no_parquet_is_named_with_a_remedy(tmp_path, kept):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["One."]}), path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ConfigError, match=r"cannot read .*a\.parquet as Parquet: .*another source\.kind"):
        parquet_slices([str(path)], 1)


def test_a_column_of_text_that_is_not_there_is_named(tmp_path):
    pq.write_table(pa.table({"body": ["One.", "Two."]}), tmp_path / "a.parquet")
    rows, _, quarantined = run(ParquetRows("text"), parquet_slices([str(tmp_path / "a.parquet")], 1))
    assert rows == []
    assert [(entry["record"]["row_group"], entry["record"]["row"]) for entry in quarantined] == [(0, 0), (0, 1)]
    assert all("there is no column 'text' (source.text_field)" in entry["error"] for entry in quarantined)


def test_an_empty_file_has_no_units_and_a_missing_one_is_an_error(tmp_path):
    (tmp_path / "empty.txt").touch()
    assert range_slices([str(tmp_path / "empty.txt")], 100) == []
    with pytest.raises(ConfigError, match="nothing-here: no such file"):
        range_slices([str(tmp_path / "nothing-here")], 100)


def test_files_that_went_with_a_job_are_known_by_their_content_not_by_the_time_of_unpacking(tmp_path):
    def unpacked(package, text):
        folder = tmp_path / "runtime_resources/working_dir_files" / package
        folder.mkdir(parents=True)
        (folder / "text.txt").write_text(text)
        return find_files([f"{folder}/text.txt"])[0].modified

    first = unpacked("first", "One.")
    assert unpacked("again", "One.") == first
    assert unpacked("changed", "Two.") != first


def test_globs_name_each_file_once_in_a_stable_order(tmp_path):
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text(name)
    found = find_files([str(tmp_path / "b*"), str(tmp_path / "*.txt")])
    assert [file.path.rpartition("/")[2] for file in found] == ["b.txt", "a.txt"]


def test_a_file_that_is_spelled_in_two_ways_is_read_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a.txt").write_text("One.")
    found = find_files(["folder/*.txt", "./folder/a.txt", f"{tmp_path}/folder/a.txt", "folder/../folder/a.txt"])
    assert [file.path for file in found] == ["folder/a.txt"]


def test_a_name_that_is_not_utf_8_is_refused(tmp_path):
    with open(bytes(tmp_path) + b"/\xff.txt", "wb"):
        pass
    with pytest.raises(ConfigError, match=r"udcff\.txt': the name is not UTF-8; rename the file"):
        find_files([str(tmp_path / "*.txt")])


def test_sources_on_s3(s3_root, s3_server):
    from corpusgen.io.files import open_files

    files = open_files(s3_root)
    files.write("in/a.txt.gz", gzip.compress(b"One.\nTwo.\n"))
    files.write("in/b.txt", b"Three.\nFour.\n")
    rows, _, _ = run(PlainText(), range_slices([f"{s3_root}/in/*.txt*"], 5))
    assert [row["text"] for row in rows] == ["One.", "Two.", "Three.", "Four."]
