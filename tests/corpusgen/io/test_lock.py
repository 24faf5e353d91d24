"""One at a time: real processes that hold, die, sleep and race, on a disk and on S3, on this machine and on others."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corpusgen.errors import StoreUnavailableError
from corpusgen.io import lock
from corpusgen.io.files import Files, LocalFiles, open_files
from corpusgen.io.lock import LockHeldError, LockLostError, held
from tests.corpusgen.store.support import names

RACERS = 12
HOLDER = """
import sys
from corpusgen.io import lock
from corpusgen.io.files import open_files

root, machine = sys.argv[1:3]
lock.BEAT_SECONDS = 0.05
if machine != "this":
    lock._machine = lambda: [machine]
with lock.held(open_files(root), "test", "a rehearsal") as mine:
    print("held", flush=True)
    for _ in sys.stdin:
        try:
            mine.check()
            print("kept", flush=True)
        except lock.LockLostError as error:
            print("lost:", error, flush=True)
"""

Hold = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def files(root: str) -> Files:
    return open_files(root)


@pytest.fixture
def local(tmp_path: Path) -> LocalFiles:
    return LocalFiles(str(tmp_path))


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Another process that holds the lock, on this machine or on one of another name, until its input ends."""
    started: list[subprocess.Popen[str]] = []

    def start(files: Files, machine: str = "this") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDER, files.url, machine]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holders are dead after two seconds of silence."""
    monkeypatch.setattr(lock, "SILENT_LOOKS", 20)
    monkeypatch.setattr(lock, "LOOK_SECONDS", 0.1)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may wait."""

    def wait(seconds: float) -> None:
        raise AssertionError("it waited")

    monkeypatch.setattr(lock.time, "sleep", wait)


def ask(holder: subprocess.Popen[str]) -> str:
    """Whether a holder still holds it."""
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.write("?\n")
    holder.stdin.flush()
    return holder.stdout.readline()


def take(files: Files) -> list[str]:
    """Take the lock and release it: what was said."""
    said: list[str] = []
    with held(files, "test", "a try", said.append) as mine:
        mine.check()
    return said


def test_a_lock_can_be_taken_again_and_again_and_leaves_one_small_file(files: Files):
    for _ in range(3):
        assert take(files) == []
    assert names(files, "locks/test") == ["locks/test/00000003.json"]


def test_locks_of_other_names_are_others(local: LocalFiles):
    with held(local, "one", "a try"), held(local, "other", "a try"):
        pass


def test_it_is_released_whatever_happens_within(local: LocalFiles):
    with pytest.raises(ZeroDivisionError), held(local, "test", "a try"):
        _ = 1 / 0
    assert take(local) == []


def test_a_living_holder_is_named_at_once(files: Files, hold: Hold, at_once: None):
    holder = hold(files)
    with pytest.raises(LockHeldError) as refused:
        take(files)
    message = str(refused.value)
    assert f"{files.url} is in use: a rehearsal by " in message
    assert f"process {holder.pid}, since 2" in message
    assert f"{files.url} this)" in message  # the command
    assert "wait until it ends or stop it" in message
    assert ask(holder) == "kept\n"
    holder.communicate()
    assert take(files) == []


@pytest.mark.parametrize("reaped", [True, False])
def test_a_killed_holder_on_this_machine_is_followed_at_once(local: LocalFiles, hold: Hold, at_once: None, reaped):
    holder = hold(local)
    holder.send_signal(signal.SIGKILL)
    if reaped:
        holder.wait()
    else:  # it stays a zombie until somebody asks how it ended
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    (said,) = take(local)
    assert "a process that has died: a rehearsal by" in said
    assert str(holder.pid) in said


def test_another_process_with_the_number_of_a_dead_holder_is_not_mistaken_for_it(local: LocalFiles, at_once: None):
    with held(local, "test", "a try"):
        before = json.loads(local.read("locks/test/00000001.json"))
    local.write("locks/test/00000001.json", json.dumps({**before, "released": False, "started": "1"}).encode())
    (said,) = take(local)
    assert "has died" in said


def test_a_living_holder_on_another_machine_is_known_by_its_signs_of_life(files: Files, hold: Hold, soon: None):
    holder = hold(files, "elsewhere")
    with pytest.raises(LockHeldError, match="is in use: a rehearsal by"):
        take(files)
    assert ask(holder) == "kept\n"


def test_a_killed_holder_on_another_machine_is_followed_after_its_silence(files: Files, hold: Hold, soon: None):
    holder = hold(files, "elsewhere")
    holder.kill()
    holder.wait()
    waits, dead = take(files)
    assert "checking for up to a minute whether it is still alive" in waits
    assert "has died" in dead


def test_a_holder_that_slept_too_long_finds_out_and_does_no_harm(files: Files, hold: Hold, soon: None):
    sleeper = hold(files, "elsewhere")
    sleeper.send_signal(signal.SIGSTOP)
    with held(files, "test", "a takeover") as mine:
        sleeper.send_signal(signal.SIGCONT)
        answer = ask(sleeper)
        assert answer.startswith(f"lost: {files.url}: the lock of this test was taken over: a takeover by")
        sleeper.communicate()
        assert sleeper.returncode == 0
        mine.check()
        with pytest.raises(LockHeldError):
            take(files)
    assert take(files) == []


@pytest.mark.parametrize("before", ["free", "dead"])
def test_of_many_takers_one_wins(files: Files, hold: Hold, before: str):
    if before == "dead":
        holder = hold(files)
        holder.kill()
        holder.wait()
    together, others_done = threading.Barrier(RACERS), threading.Semaphore(0)

    def race(_: int) -> bool:
        together.wait()
        try:
            with held(files, "test", "a race") as mine:
                for _ in range(RACERS - 1):
                    others_done.acquire()
                mine.check()
                return True
        except LockHeldError:
            others_done.release()
            return False

    with ThreadPoolExecutor(RACERS) as pool:
        assert sum(pool.map(race, range(RACERS))) == 1


class Interrupted(LocalFiles):
    """The first time that something is created, something else happens before."""

    def __init__(self, root: str, before: Callable[[], None]) -> None:
        super().__init__(root)
        self._before: Callable[[], None] | None = before

    def create(self, path: str, data: bytes) -> bool:
        before, self._before = self._before, None
        if before:
            before()
        return super().create(path, data)


def test_a_number_that_was_used_and_cleaned_up_meanwhile_is_not_used_again(local: LocalFiles, hold: Hold):
    def others_come_and_go() -> None:
        take(local)
        hold(local)

    with pytest.raises(LockHeldError, match="a rehearsal"):
        take(Interrupted(local.url, others_come_and_go))
    assert names(local, "locks/test") == ["locks/test/00000002.json"]


class LostAnswers(LocalFiles):
    """Files are created, but nobody is told, so that the second try finds them there."""

    def create(self, path: str, data: bytes) -> bool:
        super().create(path, data)
        return False


def test_a_lock_whose_creation_was_not_confirmed_is_ours_all_the_same(local: LocalFiles, at_once: None, monkeypatch):
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: None)
    assert take(LostAnswers(local.url)) == []


def test_a_damaged_lock_is_watched_like_that_of_another_machine(local: LocalFiles, soon: None):
    local.write("locks/test/00000007.json", b"\xff{")
    waits, _ = take(local)
    assert "an unknown process" in waits
    assert names(local, "locks/test") == ["locks/test/00000008.json"]


@pytest.mark.parametrize("content", [b"{}", b"[]", b'"x"', b'{"pid": -1}', b'{"pid": "1", "machine": 3}'])
def test_no_content_of_a_lock_is_more_than_it_can_bear(local: LocalFiles, soon: None, content: bytes, monkeypatch):
    monkeypatch.setattr(lock, "SILENT_LOOKS", 1)
    local.write("locks/test/00000001.json", content)
    assert "has died" in take(local)[-1]


class Away(LocalFiles):
    """Files that do not answer for some time."""

    failures = 3

    def write(self, path: str, data: bytes) -> None:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError("away")
        super().write(path, data)


def test_a_store_that_is_away_for_some_time_ends_no_lock(local: LocalFiles, monkeypatch):
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.01)
    beaten = threading.Event()
    files = Away(local.url)
    write = files.write

    def noted(path: str, data: bytes) -> None:
        write(path, data)
        beaten.set()

    monkeypatch.setattr(files, "write", noted)
    with held(files, "test", "a try") as mine:
        assert beaten.wait(60)
        mine.check()
    assert files.failures == 0
    assert take(local) == []


def test_a_fork_of_the_holder_does_not_release_it(local: LocalFiles):
    holding = held(local, "test", "a try")
    mine = holding.__enter__()
    child = os.fork()
    if child == 0:
        holding.__exit__(None, None, None)  # as a child that does not leave by os._exit would
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    mine.check()
    with pytest.raises(LockHeldError):
        take(local)
    holding.__exit__(None, None, None)
    assert take(local) == []


def test_workers_of_the_holder_can_check_it_too(files: Files):
    with held(files, "test", "a try") as mine:
        pickle.loads(pickle.dumps(mine)).check()
    take(files)
    with pytest.raises(LockLostError, match="taken over"):
        pickle.loads(pickle.dumps(mine)).check()


def test_a_removed_lock_is_lost(local: LocalFiles):
    with held(local, "test", "a try") as mine:
        local.delete("locks/test/00000001.json")
        with pytest.raises(LockLostError, match="was removed"):
            mine.check()
        local.create("locks/test/00000001.json", b"{}")  # in a folder begun anew the numbers begin anew as well
        with pytest.raises(LockLostError):
            mine.check()


def test_no_credentials_are_written_down(local: LocalFiles, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/opt/bin/tool", "s3://key:secret@host/x"])
    with held(local, "test", "a try"):
        content = local.read("locks/test/00000001.json")
    assert b"secret" not in content
    assert json.loads(content)["command"].startswith("tool ")
