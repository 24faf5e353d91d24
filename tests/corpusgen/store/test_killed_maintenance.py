"""`gc`, `merge` and `verify --repair` killed at any moment: nothing is lost, and the same command again ends well."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corpusgen.ops.merge import merge
from corpusgen.store import CommittedTable, Store
from corpusgen.store.check import verify
from tests.corpusgen.ops.report.support import commit_unit, plan_generate, start, triple

UNITS = 40
KILLS = 6


def many_units(root: Path, first: int) -> Store:
    """A store of many small units."""
    store = start(str(root))
    generate = plan_generate(store, UNITS)
    for number in range(UNITS):
        commit_unit(generate, number, [triple(first + number), triple(first + number + 1000)])
    return store


def killed_again_and_again(code: str, dice: random.Random) -> None:
    """Run some code in a process of its own, killed at random moments, and in the end to its end."""
    # What it works on takes a fraction of a second; the imports before it are not what is to be interrupted.
    ready = "sys.stdout.write('ready\\n')\nsys.stdout.flush()"
    program = f"import corpusgen.ops.merge, corpusgen.store.repair, sys\n{ready}\n{code}"
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        time.sleep(dice.uniform(0, 0.4))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def rows(store: Store) -> list[dict]:
    """All but the unit that they are in, which is named after the store that it came from."""
    return CommittedTable(store, "generate", "triples").to_table().drop_columns(["unit"]).to_pylist()


def test_a_merge_that_is_killed_goes_on(tmp_path: Path):
    roots = [str(many_units(tmp_path / name, first).url) for name, first in (("one", 0), ("two", 20))]
    merge(str(tmp_path / "undisturbed"), roots)
    killed_again_and_again(f"corpusgen.ops.merge.merge({str(tmp_path / 'killed')!r}, {roots!r})", random.Random(1))

    killed = Store.at(str(tmp_path / "killed"))
    assert all(check.ok for check in verify(killed))
    assert rows(killed) == rows(Store.at(str(tmp_path / "undisturbed")))


@pytest.mark.parametrize("what", ["gc", "repair"])
def test_what_cleans_up_and_is_killed_takes_nothing_that_is_needed(tmp_path: Path, what: str):
    store = many_units(tmp_path / "store", 0)
    right = rows(store)
    generate = store.pass_store("generate")
    units = [unit.id for unit in generate.plan().units]
    for unit in units:  # parts of attempts that lost
        for number in range(5):
            store.files.write(f"generate/parts/{unit}-triples-{number:016x}.parquet", b"garbage")
    damaged = units[::2] if what == "repair" else []
    for unit in damaged:
        store.files.write(generate.read_commit(unit).parts["triples"].path, b"damaged")
    at = f"corpusgen.store.Store.at({store.url!r})"
    code = {
        "gc": f"corpusgen.store.repair.gc({at})",
        "repair": f"s = {at}; corpusgen.store.repair.repair(s, list(corpusgen.store.check.verify(s)))",
    }[what]
    killed_again_and_again(code, random.Random(what))

    assert sorted(set(units) - set(damaged)) == sorted(generate.committed())
    assert not [check.problems for check in verify(store) if check.problems]
    if what == "gc":
        assert rows(store) == right
        assert len(list(store.files.list("generate/parts"))) == UNITS
