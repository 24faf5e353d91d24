"""Stores made to do harm: whatever their names say, nothing outside of them is read, written or removed."""

import hashlib
import json
import os
import shutil
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpusgen.errors import CorpusgenError, StoreError
from corpusgen.io.files import LocalFiles, inside
from corpusgen.store import Store
from tests.corpusgen.ops.report.support import small_store

SECRET = "TOP-SECRET"
UP = "generate/parts/../../../outside"


class Attack:
    """A store, and beside it a folder that is none of its business."""

    def __init__(self, tmp_path):
        self.root, self.outside = tmp_path / "store", tmp_path / "outside"
        small_store(str(self.root))
        self.generate = self.root / "generate"
        self.commits = sorted((self.generate / "commits").glob("*.json"))
        # All that a pass has, with secrets in the rows, and what `gc` and `repair` would remove of a pass.
        shutil.copytree(self.generate, self.outside)
        for part in (self.outside / "parts").glob("*-triples-*.parquet"):
            table = pq.read_table(part)
            column = table.schema.get_field_index("text")
            pq.write_table(table.set_column(column, "text", pa.array([SECRET] * len(table))), part)
        self.part = next((self.outside / "parts").glob("*-triples-*.parquet"))
        unit = self.part.name.partition("-")[0]
        old = [self.outside / f"parts/{unit}-triples-0000.parquet", self.outside / "parts/.tmp-old"]
        old += [self.outside / "notes.jsonl", self.outside / "commits/stranger.json"]
        for path in old:
            path.write_text(json.dumps({"stage": SECRET, "error": SECRET, "record": SECRET}) + "\n")
            os.utime(path, (time.time() - 200_000,) * 2)
        self.before = self.state()

    def state(self):
        files = (path for path in self.outside.rglob("*") if path.is_file())
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    def described(self, path, name):
        """A part of a commit that names a file of the other folder, its hash and all."""
        data = path.read_bytes()
        return {"path": name, "sha256": hashlib.sha256(data).hexdigest(), "rows": 1, "bytes": len(data)}

    def change(self, path, change):
        content = json.loads(path.read_text())
        change(content)
        content.pop("checksum", None)  # as of an older version: else the checksum would give the change away
        path.write_text(json.dumps(content))


def a_part_above(attack):
    part = attack.described(attack.part, f"{UP}/parts/{attack.part.name}")
    attack.change(attack.commits[0], lambda commit: commit["parts"].update(triples=part))


def a_part_with_a_full_path(attack):
    part = attack.described(attack.part, str(attack.part))
    attack.change(attack.commits[0], lambda commit: commit["parts"].update(triples=part))


def a_quarantine_above(attack):
    part = attack.described(attack.outside / "notes.jsonl", f"{UP}/notes.jsonl")
    attack.change(attack.commits[0], lambda commit: commit.update(quarantine=part))


def a_part_that_is_the_corpus(attack):
    part = attack.described(attack.root / "corpus.json", "corpus.json")
    attack.change(attack.commits[0], lambda commit: commit["parts"].update(triples=part))


def a_pass_above(attack):
    attack.change(attack.root / "corpus.json", lambda corpus: corpus.update(passes=["../outside", "generate"]))


def a_unit_above(attack):
    attack.change(attack.generate / "plan.json", lambda plan: plan["units"][0].update(id="../../../outside/new"))


def a_table_above(attack):
    def rename(tables):
        tables["../../../../outside/new"] = tables.pop("rejects")

    attack.change(attack.generate / "plan.json", lambda plan: rename(plan["tables"]))
    for path in attack.commits:
        if "rejects" in json.loads(path.read_text())["parts"]:
            attack.change(path, lambda commit: rename(commit["parts"]))


def link(at, to):
    shutil.rmtree(at) if at.is_dir() else at.unlink()
    at.symlink_to(to)


def a_linked_pass(attack):
    link(attack.generate, attack.outside)


def linked_parts(attack):
    link(attack.generate / "parts", attack.outside / "parts")


def linked_commits(attack):
    link(attack.generate / "commits", attack.outside / "commits")


def a_linked_part(attack):
    link(attack.generate / "parts" / attack.part.name, attack.part)


ATTACKS = [a_part_above, a_part_with_a_full_path, a_quarantine_above, a_part_that_is_the_corpus, a_pass_above]
ATTACKS += [a_unit_above, a_table_above, a_linked_pass, linked_parts, linked_commits, a_linked_part]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_nothing_outside_is_read_written_or_removed(attack, tmp_path, command):
    made = Attack(tmp_path)
    attack(made)
    root, out = made.root, tmp_path / "out"
    out.mkdir()
    said = []
    for arguments in (
        ("status", root),
        ("verify", root),
        ("sample", root, "-n", 5),
        ("stats", root),
        ("export", root, "-o", out / "triples.jsonl"),
        ("export", root, "--format", "hf", "-o", out / "data"),
        ("report", root, "-o", out / "report.html"),
        ("merge", out / "merged", root),
        ("gc", root),
        ("verify", root, "--repair"),
    ):
        ended = command(*arguments)
        assert ended.code in (0, 1), ended
        said.append(ended.out + ended.err)
    assert made.state() == made.before
    assert SECRET not in "".join(said)
    for path in out.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_a_unit_is_not_adopted_over_something_else(tmp_path):
    made = Attack(tmp_path)
    a_part_that_is_the_corpus(made)
    mine = small_store(str(tmp_path / "mine"))
    before = mine.files.read("corpus.json")
    with pytest.raises(StoreError, match=r"'corpus\.json' is not in the folder 'parts' of a pass"):
        mine.pass_store("generate").adopt(made.commits[0].stem, Store.at(str(made.root)))
    assert mine.files.read("corpus.json") == before


def test_the_commit_that_names_other_files_is_what_repair_removes(tmp_path, command):
    made = Attack(tmp_path)
    a_part_above(made)
    assert "removed 1 commits and plans" in command("verify", made.root, "--repair").out
    assert not made.commits[0].exists()
    assert made.commits[1].exists()


@pytest.mark.parametrize("name", ["../x", "a/../../x", "..", "/etc/passwd", "a/.."])
def test_no_call_leaves_the_root(name, root):
    files = Store.at(root).files
    calls = [files.read, files.exists, files.delete, files.open, lambda path: list(files.list(path))]
    calls += [lambda path: files.write(path, b""), lambda path: files.create(path, b"")]
    for call in calls:
        with pytest.raises(StoreError, match="points outside the store"):
            call(name)


def test_names_with_dots_are_names():
    assert [inside(name) for name in ("a..b", "...", "a/.b", "")] == ["a..b", "...", "a/.b", ""]


def test_the_root_itself_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "store").symlink_to(tmp_path / "disk")
    files = LocalFiles(str(tmp_path / "store"))
    files.write("folder/file", b"x")
    assert (tmp_path / "disk/folder/file").read_bytes() == b"x"
    (tmp_path / "disk/link").symlink_to(tmp_path / "disk/folder")
    with pytest.raises(CorpusgenError, match=r"store/link is a link, and stores must not contain links"):
        files.read("link/file")
