"""The limit to the time of a record: it gives up what takes too long, and leaves everything else as it was."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pytest

from corpusgen.engine import LocalExecutor, Pass, Result, RunSettings, Stage
from corpusgen.engine.passes import run_pass
from corpusgen.engine.ray_executor import RayExecutor
from corpusgen.engine.time_limit import TimeLimit, TookTooLong
from corpusgen.store import CommittedTable, Store

SHORT = 0.1
NUMBERS = pa.schema([("number", pa.int64())])


def endless():
    """Takes the processor until it is stopped; a limit that does not work must not hang the tests."""
    given_up = time.thread_time() + 60
    while time.thread_time() < given_up:
        pass
    pytest.fail("nobody stopped it")


@dataclass
class Think(Stage):
    """Numbers go through, but over 13 it never comes to an end."""

    name: ClassVar[str] = "think"
    needs: ClassVar[tuple[str, ...]] = ("number",)

    def process(self, rows: pa.Table) -> Result:
        kept, quarantined = [], []
        with TimeLimit(SHORT) as limit:
            for number in rows["number"].to_pylist():
                try:
                    limit.run(endless if number == 13 else int, *([] if number == 13 else [number]))
                except TookTooLong as error:
                    quarantined.append({"error": str(error), "record": {"number": number}})
                else:
                    kept.append(number)
        return Result(pa.table({"number": pa.array(kept, pa.int64())}), None, quarantined)


def test_what_takes_too_long_is_given_up_and_the_next_record_has_all_its_time():
    with TimeLimit(SHORT) as limit:
        for _ in range(3):
            with pytest.raises(TookTooLong, match=r"^took longer than 0\.1 s$"):
                limit.run(endless)
            assert limit.run(str.upper, "a") == "A"


def test_a_loop_may_say_itself_which_record_it_is_at():
    done = []
    with TimeLimit(SHORT) as limit:
        for number in range(4):
            try:
                limit.record = number
                if number % 2:
                    endless()
                done.append(number)
                limit.record = None
            except TookTooLong:
                done.append(-number)
    assert done == [0, -1, 2, -3]


def test_a_pattern_that_explodes_is_stopped_in_the_middle():
    with TimeLimit(SHORT) as limit, pytest.raises(TookTooLong):
        limit.run(re.match, r"(a|aa)+$", "a" * 60 + "b")


def test_many_short_records_are_never_taken_for_a_long_one():
    def brief():
        until = time.thread_time() + SHORT / 5
        while time.thread_time() < until:
            pass

    with TimeLimit(SHORT) as limit:
        for _ in range(20):
            limit.run(brief)


def test_to_wait_costs_nothing():
    with TimeLimit(SHORT) as limit:
        limit.run(time.sleep, 6 * SHORT)


def test_errors_of_the_work_come_through():
    with TimeLimit(SHORT) as limit, pytest.raises(ZeroDivisionError):
        limit.run(lambda: 1 // 0)


def test_between_records_nothing_is_interrupted():
    with TimeLimit(SHORT) as limit:
        limit.run(int)
        until = time.thread_time() + 4 * SHORT
        while time.thread_time() < until:
            pass


def test_a_library_that_swallows_the_exception_meets_it_again():
    met = []

    def stubborn():
        while len(met) < 2:
            try:
                endless()
            except TookTooLong as error:
                met.append(error)

    with TimeLimit(SHORT) as limit:
        limit.run(stubborn)
    assert len(met) == 2


def test_the_handler_and_the_timer_of_others_are_put_back():
    def theirs(number, frame):
        raise AssertionError("it is not time yet")

    before = signal.signal(signal.SIGALRM, theirs)
    signal.setitimer(signal.ITIMER_REAL, 1000, 500)
    try:
        with TimeLimit(SHORT) as limit, pytest.raises(TookTooLong):
            limit.run(endless)
        assert signal.getsignal(signal.SIGALRM) is theirs
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left < 1000 - SHORT
        assert interval == 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_limits_may_be_nested():
    def inner():
        with TimeLimit(SHORT) as limit, pytest.raises(TookTooLong, match=r"0\.1 s"):
            limit.run(endless)
        endless()

    with TimeLimit(3 * SHORT) as outer, pytest.raises(TookTooLong, match=r"0\.3 s"):
        outer.run(inner)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, even if whoever started the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_other_signals_do_what_they_always_do():
    def interrupted():
        os.kill(os.getpid(), signal.SIGINT)
        endless()

    with TimeLimit(SHORT) as limit, pytest.raises(KeyboardInterrupt):
        limit.run(interrupted)


def test_a_thread_has_no_limit_and_no_trouble():
    found = []

    def work():
        with TimeLimit(SHORT) as limit:
            found.append(limit.run(str.upper, "a"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["A"]


def test_the_environment_may_set_it():
    code = "from corpusgen.engine import time_limit; print(time_limit.SECONDS)"
    for given, expected in (({}, "60.0"), ({"CORPUSGEN_RECORD_SECONDS": "2.5"}, "2.5")):
        environment = {key: value for key, value in os.environ.items() if key != "CORPUSGEN_RECORD_SECONDS"} | given
        command = [sys.executable, "-c", code]
        printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert printed.strip() == expected


@pytest.mark.parametrize("executor", [LocalExecutor, RayExecutor])
def test_a_record_without_end_is_quarantined_and_the_others_of_its_unit_go_through(ray_here, tmp_path, executor):
    records = [[{"number": number} for number in range(unit, unit + 10)] for unit in (0, 10, 20)]
    pass_ = Pass("think", [Think()], records, {"numbers": NUMBERS})
    store = Store.at(str(tmp_path / "store"))
    store.ensure_corpus({"passes": ["think"]})
    totals = run_pass(pass_, store.pass_store("think"), executor(), RunSettings(failure_limit=1))
    numbers = CommittedTable(store, "think", "numbers").to_table()["number"].to_pylist()
    assert numbers == [number for number in range(30) if number != 13]
    assert totals.quarantined == 1
    (file,) = (tmp_path / "store/think/quarantine").iterdir()
    (failure,) = map(json.loads, file.read_text().splitlines())
    assert (failure["error"], failure["record"]) == ("took longer than 0.1 s", {"number": 13})
