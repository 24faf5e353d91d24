"""What the documentation says can be done is done: every block in it is checked, and run unless it says why not.

A block of bash, console or Python is run by itself, in a folder of stand-ins (sandbox.py); buckets are on the S3 server
of the tests, clusters are a Ray of theirs. One that cannot be run here has a comment just before it, `<!-- not run:
needs an account -->`, with one of the reasons in NOT_RUN; its commands and options are checked all the same.
YAML is checked as settings, unless it is `<!-- not settings: a cluster -->`; after `<!-- file: my.yaml -->` it is that
file for the other blocks of the document.
"""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from corpusgen.cli.app import app as corpusgen
from corpusgen.config.build import BuildConfig, load_config
from corpusgen.config.loading import load_settings
from corpusgen.corpus.build import build
from corpusgen.engine import LocalExecutor
from distiller.cli.app import app as distiller
from distiller.settings import TrainSettings
from distiller.static.settings import StaticSettings
from tests.cluster.head import Head
from tests.docs import blocks
from tests.docs.blocks import DOCUMENTS, PROJECT, Block
from tests.docs.sandbox import make_sandbox
from tests.testing.tiny_translators import make_marian
from tools.config_reference import TARGET, reference

APPS = {"corpusgen": get_command(corpusgen), "distiller": get_command(distiller)}
SETTINGS = {
    "build": (BuildConfig, "configs/wikipedia_en.yaml"),
    "train": (TrainSettings, "configs/distill_bert_large.yaml"),
    "static": (StaticSettings, "configs/static_ase.yaml"),
}
OTHER_PROGRAMS = {".ci/run", "docker", "echo", "export", "kubectl", "pip", "ray", "source"}
NOT_RUN = {
    "needs an account": "of a cloud",
    "needs a cluster": "one that docker, kubectl or `ray up` made",
    "downloads a model": "from a hub",
    "installs packages": "as make setup does with the same constraints",
    "sets up .venv and runs the tests": "as .ci/run does",
    "takes minutes": "the slow test in tests/distiller/quickstart/test_quickstart.py runs what it runs",
    "needs what the quickstart made": "the same test runs them in the end",
}
QUICK = {("corpusgen", name) for name in ("status", "verify", "gc", "calibrate", "sample", "stats", "export", "merge")}
QUICK |= {("distiller", name) for name in ("postprocess", "combine", "align-vectors")}
BLOCKS = [block for document in DOCUMENTS for block in blocks.blocks_of(document)]
SHELL, PYTHON, YAML, PLAIN = ("bash", "console", "sh"), ("python",), ("yaml",), ("", "json")
MARKS = ("not run", "not settings", "file")

of_documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def script_of(block):
    lines = block.text.splitlines()
    return "\n".join(line[2:] for line in lines if line.startswith("$ ")) if block.language == "console" else block.text


def parameters(languages, unless="nothing", slow=lambda block: False):
    """The blocks in some languages, unless their mark is of a kind."""
    chosen = [block for block in BLOCKS if block.language in languages and not block.marked(unless)]
    return [pytest.param(block, id=str(block), marks=[pytest.mark.slow] * slow(block)) for block in chosen]


def is_slow(block):
    """Whether it starts Ray, or a process that loads a model."""
    if block.language in PYTHON:
        return "Ray" in block.text
    commands = blocks.commands_of(script_of(block))
    return any(command[0] in APPS and tuple(command[:2]) not in QUICK for command in commands)


@of_documents
def test_no_block_escapes(document):
    found = blocks.blocks_of(document)
    assert 2 * len(found) == blocks.fences_of(document), "a fence is not at the beginning of a line, or never closed"
    for block in found:
        assert block.language in (*SHELL, *PYTHON, *YAML, *PLAIN), f"{block}: how is {block.language} checked?"
        assert not block.mark or any(map(block.marked, MARKS)), f"{block}: what does <!-- {block.mark} --> mean?"
        assert block.marked("not run") in (None, *NOT_RUN), f"{block}: is that a reason not to run it?"
        if block.language in PLAIN:
            assert not re.search(r"^(\$ |(corpusgen|distiller|make|python|pip) )", block.text, re.M), f"{block} is bash"
        if block.language in PYTHON:
            compile(block.text, str(block), "exec")


# -------------------------------------------------------------------- commands


def check(command, complete=True):
    """Fail unless there is such a command with such options and settings; `complete`: and with all its arguments."""
    program, *arguments = command
    if program in APPS:
        check_ours(APPS[program], arguments, complete)
    elif program == "make":
        targets = re.search(r"^\.PHONY: (.*)$", (PROJECT / "Makefile").read_text(), re.M)[1].split()
        assert {word for word in arguments if "=" not in word} <= set(targets), command
    elif program == "python":
        is_module = arguments[0] == "-m" and importlib.util.find_spec(arguments[1])
        assert is_module or arguments[0] == "-c" or (PROJECT / arguments[0]).is_file(), command
    else:
        assert program in OTHER_PROGRAMS, f"{program}: what is that?"


def check_ours(app, arguments, complete):
    context = app.make_context(app.name, list(arguments))
    name, subcommand, rest = app.resolve_command(context, list(arguments))
    try:
        given = subcommand.make_context(name, list(rest), parent=context).params
    except Exception as error:
        if complete or type(error).__name__ != "MissingParameter":
            raise
        return
    if name in SETTINGS:
        kind, complete_config = SETTINGS[name]
        load_settings(kind, PROJECT / complete_config, given["overrides"] or [])
        assert not given["config"].startswith("configs/") or (PROJECT / given["config"]).is_file(), given["config"]


@pytest.mark.parametrize("block", parameters(SHELL))
def test_commands_exist_with_their_options(block):
    commands = blocks.commands_of(script_of(block))
    assert commands
    for command in commands:
        check(command)


@of_documents
def test_commands_in_running_text_exist(document):
    for command in blocks.inline_commands_of(document):
        check(command, complete=False)


# --------------------------------------------------------------------- running


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    folder, before = tmp_path_factory.mktemp("docs"), Path.cwd()
    make_sandbox(folder)
    os.chdir(before)
    return folder


@pytest.fixture
def sandbox(template, tmp_path, monkeypatch):
    """A copy for one block. What hub ids name are folders here; there is no hub."""
    shutil.copytree(template, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="module")
def head(s3_server):
    """A Ray that takes jobs, with credentials for the buckets."""
    head = Head(environment=s3_server.env())
    try:
        head.wait()
        yield head
    finally:
        head.stop()


def prepare(block: Block) -> None:
    for other in blocks.blocks_of(block.document):
        if name := other.marked("file"):
            Path(name).write_text(other.text)
    for made, by in (("corpora", "corpusgen build"), ("runs", "distiller train")):
        if by in block.text:  # what a block makes is not there before
            shutil.rmtree(made)


@pytest.mark.parametrize("block", parameters(SHELL, unless="not run", slow=is_slow))
def test_commands_run(block, sandbox, request):
    prepare(block)
    script, environment = script_of(block), {}
    if buckets := re.findall(r"s3://[\w-]*bucket", script):
        root = request.getfixturevalue("s3_root")
        if not re.search("corpusgen (build|submit)", script):
            build(load_config("my.yaml", [f"store={root}/corpus"]), LocalExecutor())
        script = re.sub(r"^export AWS_.*", "", script.replace(buckets[0], root), flags=re.M)
    if address := re.search(r"--address (\S+)", script):
        head = request.getfixturevalue("head")
        script, environment = script.replace(address[1], head.address), head.environment()
    for command in blocks.commands_of(script):
        if command[:2] == ["corpusgen", "convert-translator"]:
            make_marian(Path(command[2]))
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env={**os.environ, **environment, "PATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("block", parameters(PYTHON, unless="not run", slow=is_slow))
def test_python_runs(block, sandbox):
    prepare(block)
    exec(compile(block.text, str(block), "exec"), {"__name__": "__main__"})


# ------------------------------------------------------- settings, links, text


@pytest.mark.parametrize("block", parameters(YAML, unless="not settings"))
def test_settings_are_valid(block):
    given = yaml.safe_load(block.text)
    fitting = (command for command, (kind, _) in SETTINGS.items() if given.keys() <= kind.model_fields.keys())
    kind, complete_config = SETTINGS[next(fitting, "train")]
    complete = {} if block.marked("file") else yaml.safe_load((PROJECT / complete_config).read_text())
    kind.model_validate({**complete, **given})


@of_documents
def test_links_lead_somewhere(document):
    for link in blocks.links_of(document):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        assert not anchor or anchor in blocks.anchors_of(target), link


def test_the_configuration_reference_is_up_to_date():
    assert TARGET.read_text(encoding="utf-8") == reference(), "run: python tools/config_reference.py"


def literals():
    """All texts in the code, with … for what is filled in."""
    for path in (file for package in APPS for file in (PROJECT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_errors_that_are_explained_are_those_of_the_code():
    quoted = re.findall(r"^- \*\*`+ ?(.+?) ?`+\*\*", (PROJECT / "docs/faq.md").read_text(), re.M)
    assert quoted
    known = "\n".join(literals())
    unknown = [text for text in quoted if not re.search(".*".join(map(re.escape, text.strip("…").split("…"))), known)]
    assert unknown == []
