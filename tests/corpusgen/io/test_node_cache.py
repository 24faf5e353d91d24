"""The locks of a node's cache: who holds them, and that they need nothing that only some systems have."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import portalocker
import pytest

from corpusgen.io import node_cache
from corpusgen.io.node_cache import local_copy, locked

FORK = multiprocessing.get_context("fork")


def make(folder):
    (folder / "data").write_bytes(b"data")


def copies(cache):
    return {path.parent for path in cache.glob("*/complete.json")}


def holding(work, *arguments):
    """Another process that has done this work and goes on holding what it holds."""
    ready = FORK.Event()

    def run():
        held = work(*arguments)
        ready.set()
        signal.pause()
        return held

    process = FORK.Process(target=run)
    process.start()
    assert ready.wait(60)
    return process


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def test_a_copy_is_in_use_as_long_as_one_of_its_users_lives(tmp_path):
    users = [holding(local_copy, tmp_path, "used", make) for _ in range(2)]
    (used,) = copies(tmp_path)
    for name, user in zip(("one", "other"), users, strict=True):
        local_copy(tmp_path, name, make)
        assert used in copies(tmp_path)
        kill(user)
    local_copy(tmp_path, "third", make)
    assert used not in copies(tmp_path)


def test_the_lock_is_taken_from_a_process_that_dies(tmp_path):
    def enter():
        lock = locked(tmp_path / "lock")
        lock.__enter__()
        return lock

    holder = holding(enter)
    entered = FORK.Event()

    def wait():
        with locked(tmp_path / "lock"):
            entered.set()

    waiting = FORK.Process(target=wait)
    waiting.start()
    assert not entered.wait(0.5)
    kill(holder)
    assert entered.wait(60)
    waiting.join()


def test_a_system_that_gives_up_waiting_is_asked_again(tmp_path, monkeypatch):
    answers = [portalocker.AlreadyLocked("busy"), portalocker.AlreadyLocked("busy"), None]

    def lock(file, flags):
        if answer := answers.pop(0):
            raise answer

    monkeypatch.setattr(portalocker, "lock", lock)
    with locked(tmp_path / "lock"):
        assert answers == []


def test_a_disk_without_locks_is_an_error_of_the_system(tmp_path, monkeypatch):
    def lock(file, flags):
        raise portalocker.LockException("no locks here")

    monkeypatch.setattr(portalocker, "lock", lock)
    with pytest.raises(OSError, match="no locks here"), locked(tmp_path / "lock"):
        pass


def test_the_packages_import_nothing_that_windows_has_not():
    code = """
import builtins
usual = builtins.__import__
def checked(name, scope=None, *rest):
    if name in ("fcntl", "pwd", "grp", "resource", "termios") and scope and scope["__name__"].startswith(PACKAGES):
        raise ModuleNotFoundError(name)
    return usual(name, scope, *rest)
PACKAGES = ("corpusgen", "distiller")
builtins.__import__ = checked
import distiller
from distiller import WordDistiller
import corpusgen.io.node_cache
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(node_cache.__file__).parents[2])
