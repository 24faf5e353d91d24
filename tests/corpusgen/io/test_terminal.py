"""Characters that nobody sees, and that may command a terminal, reach it as escapes; data and JSON keep them."""

import json
import logging
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.errors import CorpusgenError
from corpusgen.io.command_line import as_json, say
from corpusgen.io.terminal import visible, visible_json, visible_lines
from corpusgen.ops.summary import failures
from tests.corpusgen.ops.report.support import commit_unit, plan_generate, start, triple

HOSTILE = (
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"  # which way to read
    "\x1b\x07\x00\r\x7f\x85\x9b\u2028\u2029"  # what to do
    "\u200b\u200d\ufeff\u00ad\U000e0001"  # nothing to see
)
TEXT = f"safe {HOSTILE}\x1b[2J\x1b]0;title\x07 word"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0001]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", r"a\u202eb"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\r\nb", r"a\r\nb"),
        ("\U000e0001", r"\U000e0001"),
        ("\udcff.txt", r"\udcff.txt"),
        ("Zoë 字 👍 a\tb\u00a0c", "Zoë 字 👍 a\tb\u00a0c"),
    ],
)
def test_what_is_unseen_is_shown_as_an_escape(text, shown):
    assert visible(text) == shown


@given(st.text())
def test_nothing_unseen_is_left(text):
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not [c for c in visible(text) if unicodedata.category(c) in unseen and c != "\t"]
    assert not [c for c in visible_lines(text) if unicodedata.category(c) in unseen and c not in "\t\n"]


@given(st.recursive(st.text(), lambda values: st.lists(values) | st.dictionaries(st.text(), values)))
def test_json_says_the_same_as_before(value):
    for indent in (None, 1):
        text = visible_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert json.loads(text) == value
        assert visible_lines(text) == text
        assert json.loads(as_json(value, indent=indent)) == value


class Failed:
    """A pass with something in quarantine."""

    name = "harvest"

    class totals:  # noqa: N801
        quarantined = 1

    def failures(self):
        yield {"stage": "read", "error": f"bad\n{TEXT}", "record": {"source": TEXT}}


def test_errors_of_records_are_one_line_each():
    lines = list(failures(Failed(), "store"))
    assert len(lines) == 2
    assert not [line for line in lines if RAW.search(line) or "\n" in line]
    assert r"bad\nsafe \u202a" in lines[0]


def test_what_is_said_keeps_its_lines(capsys):
    say(f"first\n{TEXT}\nlast")
    say(TEXT, err=True)
    out, err = capsys.readouterr()
    assert [out.count("\n"), err.count("\n")] == [3, 1]
    assert not RAW.search(out + err)


@pytest.fixture
def store(tmp_path):
    made = start(str(tmp_path / "store"))
    commit_unit(plan_generate(made, 1), 0, [triple(1, ("bank", "shore", "house"), after=f" {TEXT}.")])
    return made


def test_sentences_of_a_corpus_reach_the_terminal_as_escapes_and_json_as_they_are(store, command):
    shown = command("sample", store.url).out
    assert r"\u202e" in shown
    assert not RAW.search(shown)
    told = command("sample", store.url, "--json").out
    assert not RAW.search(told)
    assert json.loads(told)["text"].endswith(f" {TEXT}.")
    exported = command("export", store.url).out
    assert json.loads(exported)["text"].endswith(f" {TEXT}.")
    assert "\u202e" in exported  # a file gets it as it is


def test_errors_and_warnings_reach_the_terminal_as_escapes(tmp_path, command, monkeypatch):
    name = tmp_path / "a\u202egnp\x1b[31m.yaml"
    ended = command("build", name)
    assert ended.code == 2
    assert r"a\u202egnp\x1b[31m.yaml: no such file" in ended.err
    assert not RAW.search(ended.err)


def test_what_is_logged_reaches_the_terminal_as_escapes(capsys, monkeypatch):
    import typer

    from corpusgen.io.command_line import run

    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr("sys.argv", ["x"])
    app = typer.Typer()

    @app.command()
    def warn() -> None:
        logging.getLogger("corpusgen").warning("%s is odd", TEXT)
        raise CorpusgenError(f"several\n  lines {TEXT}")

    with pytest.raises(SystemExit):
        run(app, "x")
    err = capsys.readouterr().err
    assert "is odd\nx: several\n  lines safe" in err
    assert not RAW.search(err)
