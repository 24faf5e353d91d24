"""Every command of both command lines: help with an example that is right, errors in one message, completion."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from corpusgen.cli.app import app as corpusgen
from corpusgen.errors import CorpusgenError
from distiller.cli.app import app as distiller
from tests.docs.test_docs import check

APPS = {"corpusgen": corpusgen, "distiller": distiller}
COMMANDS = [(program, name) for program, app in APPS.items() for name in get_command(app).commands]
of_commands = pytest.mark.parametrize(("program", "name"), COMMANDS, ids=map(" ".join, COMMANDS))


@of_commands
def test_help_has_an_example_that_is_right(program, name):
    ended = CliRunner().invoke(APPS[program], [name, "--help"])
    assert ended.exit_code == 0
    assert f"Example: {program} {name}" in " ".join(ended.output.split())
    text = get_command(APPS[program]).commands[name].help
    (example,) = [line.partition("Example: ")[2] for line in text.splitlines() if "Example: " in line]
    check(shlex.split(example))


# What a user may get wrong in each: a path that is not there, mostly. A new command needs a line here too.
MISTAKES = {
    "corpusgen": {
        "build": "none.yaml",
        "submit": "none.yaml --address nowhere",
        "quickstart": "--targets 1",
        "doctor": "none.yaml",
        "estimate": "none.yaml",
        "status": "none",
        "report": "none -o {tmp}/report.html",
        "verify": "none",
        "gc": "none",
        "convert-translator": "none/of/these {tmp}/out",
        "calibrate": "none.bin",
        "sample": "none",
        "stats": "none",
        "explain": "none --word bank",
        "replay": "none --sample 1",
        "export": "none -o {tmp}/triples.jsonl",
        "merge": "{tmp}/merged none",
    },
    "distiller": {
        "version": "--none",
        "train": "none.yaml",
        "static": "none.yaml",
        "postprocess": "none.txt {tmp}/out.txt --normalize",
        "combine": "none.txt none.bin {tmp}/out.txt",
        "align-vectors": "none.txt none.bin {tmp}/out.txt",
        "info": "./none",
        "report": "./none",
        "encode": "./none words.jsonl -o {tmp}/words.parquet",
        "similarity": "./none a b --word a",
        "nearest": "./none words.parquet --text a --word a",
        "evaluate": "./none --data none",
        "analyze": "./none --data none",
        "export": "./none -o {tmp}/model.onnx",
    },
}


@of_commands
def test_a_mistake_is_an_error_for_people(program, name, tmp_path, monkeypatch):
    """Typer's own messages end with 2, ours are errors whose message the entry point prints: anything else is a bug."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    arguments = shlex.split(MISTAKES[program][name].format(tmp=tmp_path))
    ended = CliRunner().invoke(APPS[program], [name, *arguments])
    if isinstance(ended.exception, CorpusgenError):
        assert str(ended.exception)
        assert ended.exception.exit_code in (1, 2)
    else:
        assert isinstance(ended.exception, SystemExit), ended.exception
        assert ended.exit_code == 2


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("corpusgen do", {"doctor"}),
        ("corpusgen build --e", {"--executor"}),
        ("corpusgen build --executor l", {"local"}),
        ("corpusgen doctor conf", set()),  # files are offered by bash itself
        ("distiller ev", {"evaluate"}),
    ],
)
def test_bash_completes_commands_options_and_values(typed, offered):
    program = typed.split()[0]
    script = (
        f"source <(_{program.upper()}_COMPLETE=source_bash {program})\n"
        f"complete -p {program} >&2\n"
        f"COMP_WORDS=({typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        f'_{program}_completion {program}; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    )
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ended = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": paths}, check=True
    )
    assert "-o default" in ended.stderr, "where we offer nothing, bash offers files"
    assert set(ended.stdout.split()) == offered
