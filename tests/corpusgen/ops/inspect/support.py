"""Stores that were really made, tiny, and ways to copy and to spoil them."""

import subprocess
import sys

import pyarrow as pa

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import build
from corpusgen.corpus.stored_settings import open_store
from corpusgen.engine import LocalExecutor
from corpusgen.ops.inspect.explain import explain
from corpusgen.ops.inspect.remake import Workshop
from corpusgen.ops.inspect.replay import replay
from corpusgen.ops.inspect.stored import Origins, find_stored, random_triples, stored_of_word
from corpusgen.store import CommittedTable, Store
from tests.testing import PROJECT
from tests.testing import triple_builds as support

FOLDERS = ("", "harvest", "vocabulary", "candidates", "selection", "sample", "generate")
BELOW = ("", "/parts", "/commits", "/quarantine", "/events")


def make(folder, **others):
    return build(BuildConfig.model_validate(support.settings(folder, **others)), LocalExecutor())


def copy(store, root, but_not=lambda path: False):
    """The same store elsewhere, without some of its files."""
    target = Store.at(str(root))
    for folder in [""] + [f"{name}{below}" for name in FOLDERS[1:] for below in BELOW]:
        for info in store.files.list(folder):
            if not but_not(info.path):
                target.files.write(info.path, store.files.read(info.path))
    return target


def rows_of(store, table):
    return CommittedTable(store, "generate", table).to_table().to_pylist()


def explain_one(root, id_=None, target=None, word=None):
    store = open_store(root)
    stored = Origins().of(find_stored(store, id_, target) if id_ else stored_of_word(store, word))
    return explain(stored, Workshop(stored.store))


def replay_one(root, id_, target=None):
    (one,) = replay([find_stored(open_store(root), id_, target)])
    return one


def replay_some(root, number, seed=0):
    return list(replay(random_triples(open_store(root), number, seed)))


def change(store, table, change_row):
    """Commit the first unit that has such rows again, its first row changed: whole, but not what was computed."""
    generate = store.pass_store("generate")
    commit = next(commit for commit in generate.commits() if table in commit.parts)
    tables = {}
    for name, part in commit.parts.items():
        read = CommittedTable(store, "generate", name)
        rows = pa.Table.from_batches(list(read.part_batches(part)), read.schema).to_pylist()
        if name == table:
            rows[0] = changed = {**rows[0], **change_row(rows[0])}
        tables[name] = pa.Table.from_pylist(rows, read.schema)
    store.files.delete(f"generate/commits/{commit.unit}.json")
    assert generate.commit(commit.unit, commit.attempt, tables, [], commit.stages, commit.worker, commit.committed_at)
    return changed


def corpusgen(*arguments, cwd=PROJECT):
    command = [sys.executable, "-m", "corpusgen.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
