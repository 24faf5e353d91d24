"""What pyproject.toml asks for is what the code imports, and .ci/constraints.txt has a version of each of it."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from corpusgen.extras import ALWAYS_IMPORTED
from tests.testing.without_extras import run_without

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OURS = {"corpusgen", "distiller"}
CANNOT_BE_NAMED = {"fairseq"}  # its own requirements conflict with every current package
DISTRIBUTIONS = packages_distributions()


def asked_for_by(*extras):
    """What extras ask for; where they name other extras of ours, what those ask for."""
    for extra in extras:
        for one in map(Requirement, EXTRAS[extra]):
            if one.name == PROJECT["name"]:
                yield from asked_for_by(*one.extras)
            else:
                yield one


def named(*extras):
    """The distributions that extras ask for, without those of the package alone."""
    return {canonicalize_name(one.name) for one in asked_for_by(*extras)}


ALWAYS = [Requirement(text) for text in PROJECT["dependencies"]]
BASE = {canonicalize_name(one.name) for one in ALWAYS}


def imported(tree):
    """The modules that a file imports, at its top or anywhere below."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


@cache
def imports():
    """Each module that the packages import, with the first file that does."""
    found = {}
    for path in sorted(file for package in OURS for file in (ROOT / package).rglob("*.py")):
        for module in imported(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(module, path.relative_to(ROOT).as_posix())
    return {module: path for module, path in found.items() if module not in OURS | sys.stdlib_module_names}


def distributions_of(module):
    """The distributions that bring a module; of one that is not installed here, the one with its name."""
    return {canonicalize_name(name) for name in DISTRIBUTIONS.get(module, [module])}


def test_every_import_is_of_a_distribution_that_is_asked_for():
    asked_for = BASE | named(*(extra for extra in EXTRAS if extra != "dev"))
    unnamed = {
        module: path
        for module, path in imports().items()
        if module not in CANNOT_BE_NAMED and not distributions_of(module) & asked_for
    }
    assert not unnamed, "not in pyproject.toml, or not installed here"


@pytest.mark.parametrize("extra", ALWAYS_IMPORTED)
def test_an_extra_brings_what_its_commands_are_said_to_need(extra):
    for module in ALWAYS_IMPORTED[extra]:
        assert distributions_of(module) & (BASE | named(extra)), module


def brought(requirements):
    """The distributions that requirements bring, with those that these require in turn."""
    found, waiting = set(), list(requirements)
    while waiting:
        one = waiting.pop()
        for extra in ("", *one.extras):
            if (one.name, extra) in found:
                continue
            found.add((one.name, extra))
            try:
                own = [Requirement(text) for text in requires(one.name) or []]
            except PackageNotFoundError:  # for another system
                continue
            waiting += [each for each in own if not each.marker or each.marker.evaluate({"extra": extra})]
    return {canonicalize_name(name) for name, _ in found}


def modules_in(*folders, without=()):
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return [name for name in names if not name.endswith(("__main__", *without))]


MODULES = {
    "": [
        "distiller.inference.word_distiller",
        "distiller.static.vectors",
        "distiller.cli",
        "corpusgen.cli",
        "corpusgen.config.build",
    ],
    "corpus": modules_in("corpusgen", without=("io.s3", "with_fairseq", "fairseq_compat")),
    "train": modules_in("distiller/training", "distiller/words"),
    "evaluate": modules_in("distiller/evaluation"),
    "parquet": ["distiller.inference.encode_file", "corpusgen.store"],
    "static": modules_in("distiller/static"),
    "onnx": ["distiller.inference.onnx"],
    "s3": ["corpusgen.io.s3", "distiller.inference.word_distiller"],
    "quickstart": [name for name in modules_in("distiller") if not name.startswith("distiller.static")],
}


@pytest.mark.slow
@pytest.mark.parametrize("extra", MODULES)
def test_an_extra_is_enough_to_import_what_it_is_for(extra):
    there = brought([*ALWAYS, *(asked_for_by(extra) if extra else [])])
    absent = {module for module in imports() if not distributions_of(module) & there}
    assert absent, "nothing is missing, so that nothing would be seen"
    ended = run_without(absent, "".join(f"import {module}\n" for module in MODULES[extra]))
    assert ended.returncode == 0, ended.stderr


def test_extras_name_each_other_rightly():
    for extra, requirements in EXTRAS.items():
        for one in map(Requirement, requirements):
            if one.name == PROJECT["name"]:
                assert one.extras, f"{extra} names the package itself"
                assert one.extras <= set(EXTRAS), extra
    assert named("all") == named(*(set(EXTRAS) - {"all", "dev", "fairseq"}))
    assert named("all") <= named("dev")


def test_a_library_takes_little():
    heavy = {"ray", "pyarrow", "ctranslate2", "fasttext-numpy2", "matplotlib", "scikit-learn", "scipy", "boto3"}
    assert not BASE & heavy


def test_one_version_of_each_is_tested():
    lines = (ROOT / ".ci/constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    pins = {canonicalize_name(Requirement(line).name): line for line in lines}
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    assert lines == sorted(lines, key=lambda line: line.partition("==")[0].lower())
    assert BASE | named(*EXTRAS) <= set(pins)
