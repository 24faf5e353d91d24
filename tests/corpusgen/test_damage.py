"""Damaged stores: every command that reads one says what is damaged and ends with 1, and none shows a traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from corpusgen.store.records import sealed, unsealed
from tests.corpusgen.ops.report.support import small_store

READERS = {
    "sample": ("sample", "ROOT"),
    "stats": ("stats", "ROOT"),
    "export": ("export", "ROOT", "--output", "OUT/rows.jsonl"),
    "report": ("report", "ROOT"),
    "merge": ("merge", "OUT/merged", "ROOT"),
    "verify": ("verify", "ROOT"),
}
OTHERS = {
    "explain": ("explain", "ROOT", f"{1:024x}"),
    "status": ("status", "ROOT"),
    "gc": ("gc", "ROOT"),
    "repair": ("verify", "--repair", "ROOT"),
}


@pytest.fixture
def run(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def on(name: str, root: Path):
        arguments = {**READERS, **OTHERS}[name]
        return command(*(word.replace("ROOT", str(root)).replace("OUT/", f"{tmp_path}/") for word in arguments))

    return on


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("name", READERS)
def test_whoever_reads_triples_notices_any_flipped_bit_of_them(name: str, run, tmp_path: Path):
    root = tmp_path / "store"
    small_store(str(root))
    [part, *_] = sorted((root / "generate/parts").glob("*-triples-*"))
    dice = random.Random(name)
    for _ in range(5):
        bit = dice.randrange(part.stat().st_size * 8)
        flip(part, bit)
        ended = run(name, root)
        assert ended.code == 1
        assert part.name in ended.out + ended.err
        flip(part, bit)
    assert run(name, root).code == 0


@pytest.mark.parametrize("which", ["corpus.json", "generate/plan.json", "commit"])
def test_any_flipped_bit_in_what_describes_a_store_is_noticed(which: str, run, tmp_path: Path):
    root = tmp_path / "store"
    small_store(str(root))
    path = next((root / "generate/commits").glob("*.json")) if which == "commit" else root / which
    for bit in random.Random(which).sample(range(path.stat().st_size * 8), 40):
        flip(path, bit)
        ended = run("verify", root)
        assert ended.code == 1
        assert "damaged" in ended.out + ended.err or "not committed" in ended.out
        flip(path, bit)
    assert run("verify", root).code == 0


WRONG: list[Any] = [None, True, -1, 0, 1.5, "", "x", "../x", [], [None], {}, {"a": 1}, 10**30, [[[]]]]


def mutations(value: Any):
    """The value with one thing in it, at whatever depth, missing or of another kind."""
    if isinstance(value, dict):
        for key in value:
            rest = {name: other for name, other in value.items() if name != key}
            yield rest
            for changed in (*WRONG, *mutations(value[key])):
                yield {**value, key: changed}
    elif isinstance(value, list):
        for index in range(min(len(value), 2)):
            for changed in (*WRONG, *mutations(value[index])):
                yield [*value[:index], changed, *value[index + 1 :]]


@pytest.mark.parametrize("name", [*READERS, *OTHERS])
@pytest.mark.parametrize("which", ["corpus.json", "generate/plan.json", "commit"])
def test_no_wrong_type_anywhere_ends_in_a_traceback(which: str, name: str, run, tmp_path: Path):
    root = tmp_path / "store"
    small_store(str(root))
    path = next((root / "generate/commits").glob("*.json")) if which == "commit" else root / which
    right = path.read_bytes()
    wrong = list(mutations(json.loads(unsealed(right))))
    for content in random.Random(f"{which} {name}").sample(wrong, min(len(wrong), 20)):
        data = json.dumps(content).encode()
        path.write_bytes(sealed(data) if isinstance(content, dict) and content else data)
        assert run(name, root).code in (0, 1, 2)  # anything but an error of ours is raised here
        path.write_bytes(right)


def test_verify_reports_all_that_is_wrong_and_repair_needs_no_sound_store(run, tmp_path: Path):
    root = tmp_path / "store"
    small_store(str(root))
    (root / "corpus.json").write_bytes(b"[" * 100_000)
    (root / "generate/plan.json").write_bytes(b"\xff")
    damaged = next((root / "harvest/parts").iterdir())
    flip(damaged, 100)
    found = run("verify", root)
    assert found.code == 1
    for name in ("corpus.json", "generate/plan.json", damaged.name):
        assert f"{name} is damaged" in found.out

    mended = run("repair", root)
    assert "removed 3 commits and plans" in mended.out
    assert (root / "corpus.json.damaged").exists()
    assert not (root / "corpus.json").exists()
    assert not (root / "generate/plan.json").exists()
