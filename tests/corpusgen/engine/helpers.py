"""What engine tests share: running the demonstration pass, and looking at what came of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from corpusgen.engine import LocalExecutor, RunSettings
from corpusgen.engine.passes import run_pass
from corpusgen.store import Store, Totals
from corpusgen.store.check import verify
from tests.testing import PROJECT
from tests.testing.demo_pass import demo_pass


def run_demo(root: Path | Store, executor=None, settings: RunSettings | None = None, **pass_settings) -> Totals:
    store = root if isinstance(root, Store) else Store.at(str(root))
    settings = settings or RunSettings()
    store.ensure_corpus({"passes": ["demo"]})
    return run_pass(demo_pass(**pass_settings), store.pass_store("demo"), executor or LocalExecutor(), settings)


def drive(root: Path, executor: str, *arguments: str, run: dict | None = None, **pass_settings) -> subprocess.Popen:
    """Start a driver in a process of its own."""
    command = [sys.executable, "-m", "tests.corpusgen.engine.drive", str(root), executor, *arguments]
    command += ["--run", json.dumps(run or {}), "--pass", json.dumps(pass_settings)]
    return subprocess.Popen(
        command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def committed_files(root: Path) -> dict[str, bytes]:
    """Every file that a commit makes real, with its bytes."""
    store = Store.at(str(root)).pass_store("demo")
    paths = []
    for commit in store.commits():
        paths += [part.path for part in commit.parts.values()]
        paths += [commit.quarantine.path] if commit.quarantine else []
    assert len(paths) == len(set(paths))
    return {path: (root / path).read_bytes() for path in paths}


def assert_whole(root: Path) -> None:
    (check,) = verify(Store.at(str(root)))
    assert check.ok, check.problems


def assert_untouched_by_the_fault(root: Path, undisturbed: Path) -> None:
    """The fault did strike, and nobody could tell from the result."""
    assert (root.parent / f"{root.name}.fired").exists()
    assert_whole(root)
    assert committed_files(root) == committed_files(undisturbed)
