"""What commands print: JSON alone where JSON is asked for, and text that any terminal can take."""

import json
import os
import subprocess
import sys

import pytest

from corpusgen.store import CommittedTable
from tests.corpusgen.ops.report.support import commit_unit, plan_generate, start, triple

WORDS = ("Brücke", "Steg", "Haus")


@pytest.fixture
def store(tmp_path):
    made = start(str(tmp_path / "store"))
    commit_unit(plan_generate(made, 1), 0, [triple(1, WORDS, after=" über den Fluss → 川 𝄞.")])
    return made


def printed(*arguments, encoding="ascii", module="corpusgen.cli"):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "LC_ALL": "C"}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False)
    assert b"Traceback" not in ended.stderr, ended.stderr
    return ended.stdout


def test_letters_that_the_terminal_does_not_have_are_replaced(store):
    text = printed("sample", store.url).decode("ascii")
    assert "[Br?cke] ?ber den Fluss ? ? ?." in text


def test_and_in_json_escaped_so_that_nothing_is_lost(store):
    (row,) = [json.loads(line) for line in printed("export", store.url).decode("ascii").splitlines()]
    assert row["text"] == "They sat on the Brücke über den Fluss → 川 𝄞."
    assert "über den Fluss → 川 𝄞.".encode() in printed("export", store.url, encoding="utf-8")


def test_both_command_lines_are_run_that_way():
    code = "import sys; sys.argv = ['x', '--help']; from {} import main\ntry: main()\nexcept SystemExit: print('→')"
    for module in ("corpusgen.cli", "distiller.cli"):
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-c", code.format(module)]
        ended = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True)
        assert ended.stdout.endswith(b"?\n"), module


def test_verify_prints_json_alone_whatever_it_repairs(store, command):
    part = CommittedTable(store, "generate", "triples").parts[0]
    store.files.write(part.path, b"damaged")
    found = json.loads(command("verify", store.url, "--json").out)
    assert (found["generate"]["ok"], found["generate"]["removed"]) == (False, 0)
    ended = command("verify", store.url, "--json", "--repair")
    assert ended.code == 1
    found = json.loads(ended.out)
    assert (found["generate"]["removed"], found["harvest"]["removed"]) == (1, 0)
    assert json.loads(command("verify", store.url, "--json").out)["generate"]["missing"] == 1
