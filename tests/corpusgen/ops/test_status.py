"""`corpusgen status --watch`: on stores that are being written meanwhile, with nothing but the store."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.errors import StoreUnavailableError
from corpusgen.ops.status import LOOK_SECONDS, BuildStatus, Pace, watch
from corpusgen.store import Commit, StageCount, Store
from tests.corpusgen.engine.helpers import drive
from tests.corpusgen.store.support import commit, make_plan
from tests.testing import PROJECT

PASSES = ["first", "second"]


def begin(store: Store, name: str, units: int = 3):
    """A pass whose units are not done yet."""
    store.ensure_corpus({"passes": PASSES})
    plan = make_plan(units, fingerprint=name)
    pass_store = store.pass_store(name)
    pass_store.ensure_plan(plan)
    return pass_store, list(plan.units)


class Build:
    """A build that does a step whenever whoever watches it pauses: plans a pass, or commits one more of its units."""

    def __init__(self, root: str) -> None:
        self.store = Store.at(root)
        self.steps = self._steps()
        next(self.steps)
        self._seconds = 0.0

    def _steps(self):
        for name in PASSES:
            pass_store, units = begin(self.store, name)
            yield
            for unit in units:
                assert commit(pass_store, unit, bad=[1], now=time.time())
                yield

    def sleep(self, seconds: float) -> None:
        self._seconds += seconds
        if self._seconds >= LOOK_SECONDS:
            self._seconds = 0.0
            next(self.steps)


def test_every_change_is_a_line_until_all_is_done(root):
    build, said = Build(root), []

    watch(Store.at(root), said.append, sleep=build.sleep)

    units = [re.search(r"(\w+): (\d) of 3 units, (\d+) squares", line).groups() for line in said]
    assert [(name, int(done)) for name, done, _ in units] == [(name, done) for name in PASSES for done in range(4)]
    assert next(build.steps, "nothing left") == "nothing left"
    assert "units/s" in said[2]
    assert " to go, last commit 0 s ago" in said[2]
    assert "last commit" not in said[3], "the pass is complete"


def test_every_change_can_be_an_object(tmp_path):
    build, said = Build(str(tmp_path)), []

    watch(Store.at(str(tmp_path)), said.append, as_json=True, sleep=build.sleep)

    committed = [sum(found["committed"] for found in json.loads(line).values()) for line in said]
    assert committed == [0, 1, 2, 3, 3, 4, 5, 6]
    last = json.loads(said[-1])
    assert last["first"]["quarantined"] == 1
    assert last["second"]["rows"] == {"squares": 11, "rejects": 3}
    assert json.loads(said[2])["first"]["units_per_second"] > 0


def test_a_look_costs_one_listing_and_what_is_new(s3_root):
    build, requests = Build(s3_root), [Counter()]
    store = Store.at(s3_root)
    store.files._client.meta.events.register(
        "before-send.s3", lambda request, **_: requests[-1].update([what_for(request)])
    )

    def sleep(seconds):
        build.sleep(seconds)
        requests.append(Counter())

    watch(store, lambda line: None, sleep=sleep)

    first, *later = [count for count in requests if count]
    not_begun = Counter({"HEAD plan.json": 1, "LIST commits": 1})
    begun = Counter({"HEAD plan.json": 1, "GET plan.json": 1, "LIST commits": 1})
    assert first == Counter({"GET corpus.json": 1}) + begun + not_begun
    looks = iter(later)
    for _ in range(2):
        assert next(looks) == {"LIST commits": 1, "GET commits": 1}
    # The first pass is complete: nothing is asked of it any more, but whether the second has begun.
    assert next(looks) == Counter({"LIST commits": 1, "GET commits": 1}) + not_begun
    assert next(looks) == begun
    for _ in range(3):
        assert next(looks) == {"LIST commits": 1, "GET commits": 1}
    assert next(looks, None) is None


def what_for(request) -> str:
    if "list-type=2" in request.url:
        return f"LIST {re.search('prefix=([^&]*)', request.url)[1].removesuffix('%2F').rpartition('%2F')[2]}"
    folder, _, name = request.url.rpartition("/")
    return f"{request.method} {'commits' if folder.endswith('/commits') else name}"


def test_a_store_that_is_away_for_a_while_is_waited_for(tmp_path, monkeypatch, caplog):
    build, said = Build(str(tmp_path)), []
    look, looks = BuildStatus.look, iter(range(100))

    def look_in_vain(self):
        if next(looks) in (1, 2):
            raise StoreUnavailableError("cannot reach the server")
        return look(self)

    monkeypatch.setattr(BuildStatus, "look", look_in_vain)
    watch(Store.at(str(tmp_path)), said.append, sleep=build.sleep)

    assert "second: 3 of 3 units" in said[-1]
    assert len(said) == 6  # two of eight changes went unseen
    assert [record.message for record in caplog.records] == ["cannot reach the server; trying again in 5 s"] * 2


def test_a_pass_that_went_on_after_a_repair_is_watched_too(tmp_path):
    store = Store.at(str(tmp_path))
    first, units = begin(store, "first")
    second, more = begin(store, "second")
    commit(first, units[0])
    commit(second, more[0])
    status = BuildStatus(store)
    assert status.look()[0] == PASSES
    commit(second, more[1])
    assert status.look()[0] == ["second"]
    assert not status.complete


# ------------------------------------------------------------------- the pace


def made_at(times, run="a", seconds=1.0):
    stages = [StageCount("square", 1, 1, seconds=seconds)]
    return [Commit(f"{run}{number}", f"{run}-1", {}, None, stages, "", at) for number, at in enumerate(times)]


def pace_of(*commits) -> Pace:
    pace = Pace()
    for some in commits:
        pace.add(some)
    return pace


@given(st.permutations([1000 + 2.0 * number for number in range(20)]), st.integers(1, 19))
def test_the_pace_does_not_depend_on_the_order_in_which_commits_are_read(times, first):
    commits = made_at(times)
    pace = pace_of(commits[:first], commits[first:])
    assert pace.units_per_second(1038.0) == pytest.approx(0.5)
    assert pace.latest == 1038.0


def test_the_pace_falls_when_nothing_comes():
    pace = pace_of(made_at([100, 110, 120]))
    assert pace.units_per_second(120) == pytest.approx(0.1)
    assert pace.units_per_second(300) == pytest.approx(0.01)
    assert pace.units_per_second(90) == pytest.approx(0.1), "our clock is behind"


def test_the_pace_is_that_since_the_build_was_begun_again():
    before, after = made_at(range(100, 200)), made_at([90_000, 90_004], run="b")
    assert pace_of(before, after).units_per_second(90_004) == pytest.approx(0.25)


def test_the_pace_is_that_of_two_drivers_together():
    one, other = made_at(range(100, 120, 2)), made_at(range(101, 121, 2), run="b")
    assert pace_of(one, other).units_per_second(119) == pytest.approx(1)


@pytest.mark.parametrize("commits", [[], made_at([100.0]), made_at([0.0, 0.0, 0.0]), made_at([100.0, 100.0])])
def test_nothing_is_said_of_a_pace_that_is_not_known(commits):
    assert pace_of(commits).units_per_second(100.0) is None


# ------------------------------------------------------------- real processes

WATCH = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
sys.modules["ray"] = None  # importing it fails: the store is all it takes
import corpusgen.ops.status
corpusgen.ops.status.LOOK_SECONDS = 1.0
from corpusgen.cli import main
sys.argv = ["corpusgen", "status", sys.argv[1], "--watch"]
main()
"""


def start_watching(root, **streams) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", WATCH, str(root)], cwd=PROJECT, **streams)


@pytest.fixture
def other_process(tmp_path):
    """A build that stands still after its first unit until it is told to go on."""
    driver = drive(tmp_path / "store", "local", seconds=0.2)
    while driver.poll() is None and not list((tmp_path / "store").glob("demo/commits/*.json")):
        time.sleep(0.02)
    driver.send_signal(signal.SIGSTOP)
    yield driver
    driver.kill()
    driver.communicate()


@pytest.mark.slow
def test_a_build_of_another_process_is_followed_to_its_end_in_a_pipe_and_on_a_terminal(other_process, tmp_path):
    master, slave = pty.openpty()
    in_a_pipe = start_watching(tmp_path / "store", stdout=subprocess.PIPE, text=True)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    on_a_terminal = start_watching(tmp_path / "store", stdout=slave, env=environment)
    os.close(slave)
    lines = [in_a_pipe.stdout.readline()]
    other_process.send_signal(signal.SIGCONT)
    shown = read_all(master)
    lines += in_a_pipe.communicate(timeout=60)[0].splitlines()

    assert in_a_pipe.returncode == on_a_terminal.wait(60) == other_process.wait(60) == 0
    done = [int(re.search(r"demo: (\d+) of 12 units", line)[1]) for line in lines]
    assert done == sorted(set(done)), "each line tells of something new"
    assert done[0] < done[-1] == 12
    assert "12 of 12" in shown
    assert "\x1b[1A" in shown, "the cursor goes up, and the table is drawn over the old one"


def read_all(master: int) -> str:
    """What is written to a terminal until nobody holds it open."""
    data = b""
    while select.select([master], [], [], 60)[0]:
        try:
            data += os.read(master, 65536)
        except OSError:  # Linux says so when the last writer is gone
            break
    os.close(master)
    return data.decode()


def test_ctrl_c_ends_watching_with_130(tmp_path):
    begin(Store.at(str(tmp_path)), "first")
    watcher = start_watching(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "first: 0 of 3 units" in watcher.stdout.readline()
    watcher.send_signal(signal.SIGINT)
    _, err = watcher.communicate(timeout=60)
    assert watcher.returncode == 130
    assert "Traceback" not in err
