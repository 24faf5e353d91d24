"""The commands that use a model, from a file or a line to what they print and write."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load, save
from typer.testing import CliRunner

from corpusgen.errors import ConfigError, CorpusgenError
from distiller.cli.app import app
from distiller.errors import AmbiguousWordError
from distiller.inference import encode_file as use
from distiller.inference.output_files import check_target, write_text
from distiller.inference.word_distiller import WordDistiller
from distiller.words.saved import load_saved, write_saved
from tests.distiller.commands import command
from tests.testing import triple_builds as support

TEXTS = support.sentences(30, seed=4)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(texts):
    """The three ways to name a word, in turn."""
    ways = [{"word": "willows"}, None, None]
    for number, text in enumerate(texts):
        start = text.index("willows")
        by_span = [{"span": [start, start + 7]}, {"start": start, "end": start + 7}]
        yield {"id": f"s{number}", "text": text, **(ways[number % 3] or by_span[number % 3 - 1])}


def test_a_file_is_encoded_as_the_library_does(model_path, tmp_path):
    source, target = write_jsonl(tmp_path / "words.jsonl", rows_of(TEXTS)), tmp_path / "words.parquet"
    assert "30 words" in command("encode", model_path, source, "-o", target, "--output", "both")
    table = pq.read_table(target)
    assert table["id"].to_pylist() == [f"s{number}" for number in range(30)]
    wanted = WordDistiller.from_pretrained(model_path).encode_words(["willows"] * 30, TEXTS, output="both")
    for kind in ("meaning", "context"):
        np.testing.assert_allclose(np.array(table[kind].to_pylist()), getattr(wanted, kind), atol=1e-6)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".tmp-")] == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: expected JSON"),
        ('{"text": "x"}', "line 2: expected JSON with `text` and `word`"),
        ('{"text": "a river", "word": "willows"}', "line 2: 'willows' is not in 'a river'"),
        ('{"text": "a river", "span": [3, 99]}', "line 2: span is empty or outside the text: (3, 99)"),
        ('{"text": "", "span": [0, 0]}', "line 2: the text is empty"),
        ('{"text": 3, "span": [0, 1]}', "line 2: a text must be a string, not int"),
        ('{"text": "a river", "word": 5}', "line 2: a word must be a string, not int"),
        ('{"text": "a river", "word": null}', "line 2: a word must be a string, not NoneType"),
        ('{"text": "a river", "start": 1e400, "end": 3}', "line 2: a span must be a pair of integers"),
        ('{"text": "a river", "start": 1.9, "end": 7}', "(start, end), not (1.9, 7)"),
        ('{"text": "a river", "span": [2.0, 7]}', "line 2: a span must be a pair of integers"),
        ('{"text": "a river", "span": [true, 7]}', "line 2: a span must be a pair of integers"),
        ('{"text": "a river", "span": ["2", "7"]}', "line 2: a span must be a pair of integers"),
        ('{"text": "a river", "span": [2, 5, 7]}', "line 2: a span must be a pair of integers"),
        ('{"text": "a river", "span": {}}', "line 2: a span must be a pair of integers"),
        ('{"text": "a river", "start": 100000000000000000000, "end": 100000000000000000001}', "line 2: span is empty"),
        ('{"id": "\\ud800", "text": "a river", "word": "river"}', "line 2: expected JSON"),
        ('["a river", "river"]', "line 2: expected JSON"),
        ("[" * 100_000, "line 2: expected JSON"),
        (b'{"text": "a r\xefver", "word": "a"}', "line 2: expected JSON"),
    ],
)
def test_a_bad_line_is_named_and_no_file_is_left(model_path, tmp_path, line, message):
    source, target = tmp_path / "words.jsonl", tmp_path / "words.parquet"
    line = line if isinstance(line, bytes) else line.encode()
    source.write_bytes(json.dumps({"text": TEXTS[0], "word": "willows"}).encode() + b"\n" + line + b"\n")
    with pytest.raises(CorpusgenError) as refused:
        command("encode", model_path, source, "-o", target)
    assert message in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["words.jsonl"]


@pytest.mark.parametrize("at_once", [3, 2048])
def test_bad_lines_are_left_out_and_named_if_asked_for(model_path, tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(use, "_ROWS_AT_ONCE", at_once)
    bad = [b"{", b"\xff", b'{"text": "a river", "word": "sea"}', b'{"text": "a river", "span": [3, 99]}'] * 2
    good = [json.dumps(row).encode() for row in rows_of(TEXTS[:9])]
    mixed = [line for pair in zip_longest(good, bad) for line in pair if line is not None]
    source, target = tmp_path / "words.jsonl", tmp_path / "words.parquet"
    source.write_bytes(b"\n".join(mixed))
    result = CliRunner().invoke(app, ["encode", model_path, str(source), "-o", str(target), "--skip-bad"])
    assert result.exit_code == 0, result.output
    assert "9 words" in result.stdout
    *named, counted = result.stderr.splitlines()
    assert [int(line.split(": ")[1].rpartition(" ")[2]) for line in named] == [2, 4, 6, 8, 10]
    assert "line 6: 'sea' is not in 'a river'" in named[2]
    assert counted == "skipped: 8 lines in total"
    assert pq.read_table(target)["id"].to_pylist() == [f"s{number}" for number in range(9)]
    source.write_bytes(b"{")
    command("encode", model_path, source, "-o", target, "--skip-bad")
    assert pq.read_table(target).num_rows == 0


def test_standard_input_is_read(model_path, tmp_path):
    line = json.dumps({"text": TEXTS[0], "word": "willows"})
    result = CliRunner().invoke(app, ["encode", model_path, "-", "-o", str(tmp_path / "a.parquet")], input=line + "\n")
    assert "1 words" in result.output


def test_a_path_that_no_file_can_be_written_to_is_refused_before_the_model_is_loaded(tmp_path):
    for target, message in (
        (tmp_path, "is a folder; give a file name"),
        (f"{tmp_path}/", "is a folder"),
        (tmp_path / "absent" / "words.parquet", "no such folder: "),
    ):
        with pytest.raises(ConfigError, match=message):
            command("encode", "no model", "words.jsonl", "-o", target)


def test_a_file_that_fails_while_it_is_written_is_an_error_of_the_users(tmp_path):
    with pytest.raises(CorpusgenError, match="Is a directory"):
        write_text(str(tmp_path), "scores")
    if os.geteuid():
        (tmp_path / "kept").touch(mode=0o400)
        with pytest.raises(ConfigError, match="no permission"):
            check_target(str(tmp_path / "kept"))


def test_a_file_that_is_replaced_keeps_its_permissions_and_its_links(tmp_path):
    target, link = tmp_path / "scores", tmp_path / "link"
    target.touch()
    target.chmod(0o600)
    link.symlink_to(target)
    check_target(str(link))
    write_text(str(link), "scores")
    assert link.is_symlink()
    assert target.read_text() == "scores"
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "scores"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(pipe.read_text)
        check_target(str(pipe))
        write_text(str(pipe), "scores")
        assert reading.result(60) == "scores"
    assert pipe.is_fifo()


@pytest.mark.parametrize("k", [1, 5, 100])
def test_the_nearest_words_of_a_file_are_those_of_the_library(model_path, tmp_path, k):
    source, target = write_jsonl(tmp_path / "words.jsonl", rows_of(TEXTS)), tmp_path / "words.parquet"
    command("encode", model_path, source, "-o", target)
    printed = command("nearest", model_path, target, "--text", TEXTS[3], "--word", "willows", "-k", k).splitlines()
    assert len(printed) == min(k, 30)
    assert printed[0].startswith("1.000")
    assert "[willows]" in printed[0]
    cosines = [float(line.split()[0]) for line in printed]
    assert cosines == sorted(cosines, reverse=True)
    loaded = WordDistiller.from_pretrained(model_path)
    vectors = loaded.encode_words(["willows"] * 30, TEXTS)
    assert cosines == pytest.approx(np.sort(loaded.similarity(vectors[3], vectors)[0])[::-1][:k], abs=1e-3)


def test_nearest_wants_a_file_with_such_vectors(model_path, tmp_path):
    source, target = write_jsonl(tmp_path / "words.jsonl", rows_of(TEXTS)), tmp_path / "words.parquet"
    options = ("--text", TEXTS[0], "--word", "willows")
    with pytest.raises(CorpusgenError, match="no such file; make it with `distiller encode`"):
        command("nearest", model_path, target, *options)
    target.write_text("no parquet")
    with pytest.raises(CorpusgenError, match="cannot read"):
        command("nearest", model_path, target, *options)
    command("encode", model_path, source, "-o", target)
    with pytest.raises(CorpusgenError, match="has no context vectors"):
        command("nearest", model_path, target, *options, "--output", "context")


def test_vectors_of_another_model_are_refused(model_path, tmp_path):
    """Of the same size, but not from the same space."""
    source, target = write_jsonl(tmp_path / "words.jsonl", rows_of(TEXTS)), tmp_path / "words.parquet"
    command("encode", model_path, source, "-o", target)
    options = (target, "--text", TEXTS[0], "--word", "willows")
    moved = shutil.copytree(Path(model_path), tmp_path / "moved")
    assert "[willows]" in command("nearest", moved, *options)
    other, saved = tmp_path / "other", load_saved(model_path)
    weights = load(saved.weights)
    changed = save({**weights, "meaning.expand.bias": weights["meaning.expand.bias"] + 1})
    write_saved(str(other), replace(saved, weights=changed))
    with pytest.raises(ConfigError, match="holds vectors of another or an unknown model"):
        command("nearest", other, *options)
    pq.write_table(pq.read_table(target).replace_schema_metadata(), target)
    with pytest.raises(ConfigError, match="or an unknown model"):
        command("nearest", model_path, *options)


def test_a_word_that_is_there_twice_is_named_by_its_span(model_path, tmp_path):
    text, other = "the willows by the willows", "the castle."
    with pytest.raises(AmbiguousWordError, match=r"encode one of \(4, 11\), \(19, 26\)"):
        command("similarity", model_path, text, text, "--word", "willows")
    printed = command("similarity", model_path, text, text, "--span", "4:11", "--other-span", "19:26").split()
    loaded = WordDistiller.from_pretrained(model_path)
    wanted = [loaded.similarity(*loaded.encode([text] * 2, [(4, 11), (19, 26)], output=kind)) for kind in printed[::2]]
    assert [float(cosine) for cosine in printed[1::2]] == pytest.approx(np.ravel(wanted), abs=1e-3)
    command("similarity", model_path, other, text, "--word", "castle", "--other-span", "4:11")
    command("similarity", model_path, text, other, "--span", "4:11", "--other-word", "castle")
    source, target = write_jsonl(tmp_path / "words.jsonl", rows_of(TEXTS)), tmp_path / "words.parquet"
    command("encode", model_path, source, "-o", target)
    assert "[willows]" in command("nearest", model_path, target, "--text", text, "--span", "19:26", "-k", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "which word of .*Give the word"),
        (("--word", "castle", "--span", "4:10"), "which word of .*Give the word"),
        (("--span", "4:10"), "which word of .*Give the word"),  # and in the second text?
        (("--word", "castle", "--other-word", "castle", "--other-span", "4:10"), "which word of .*Give the word"),
        (
            ("--word", "castle", "--other-span", "4-10"),
            "'4-10' is not a span: expected START:END in characters, such as 4:8",
        ),
        (("--word", "castle", "--other-span", "4:99"), "span is empty or outside the text"),
    ],
)
def test_a_word_is_named_in_one_way(model_path, options, message):
    with pytest.raises(CorpusgenError, match=message):
        command("similarity", model_path, "the castle.", "the castle.", *options)


def test_similarity_prints_all_kinds(model_path):
    printed = command("similarity", model_path, TEXTS[0], TEXTS[0], "--word", "willows")
    assert [line.split() for line in printed.splitlines()] == [
        ["meaning", "1.000"],
        ["context", "1.000"],
        ["baseline", "1.000"],
    ]


def test_info_tells_what_a_model_is(model_path):
    printed = command("info", model_path)
    assert "layers              2 to 3" in printed
    assert "nearer to positive  95.0% of held-out triples" in printed
    assert json.loads(command("info", model_path, "--json"))["dimension"] == 16
