"""A lock on a store, on disk or S3, that admits one process at a time across machines and survives crashes.

Each holder has a generation, a file `locks/<name>/<number>.json` that says who it is. A process takes the lock by
creating the next generation, and only one of any number of processes can. The newest generation is never removed, so no
number is used twice. The holder rewrites its file every few seconds. On the same machine, others check whether its
process is alive; on another one, whether its file keeps changing. Clocks of different machines are never compared.

A holder that was taken for dead may only have been asleep. So it calls `check` before it writes anything critical.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import platform
import secrets
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from corpusgen.credentials import without_credentials
from corpusgen.errors import CorpusgenError, StoreError
from corpusgen.io.files import Files

BEAT_SECONDS = 10.0
SILENT_LOOKS = 60
"""The number of looks in a row at an unchanged file after which its holder counts as dead."""
LOOK_SECONDS = 1.0
_LONGEST_COMMAND = 200

Say = Callable[[str], None]
_Record = dict[str, Any]

log = logging.getLogger(__name__)


class LockHeldError(StoreError):
    """The error raised when another live process holds the lock."""


class LockLostError(StoreError):
    """The error raised when another process has taken over the lock, because this one seemed dead."""


@dataclass(frozen=True)
class Lock:
    """A lock that is held. It can be pickled, so that the holder's workers can check it too."""

    files: Files
    name: str
    generation: int
    token: str
    """Tells this holder from one with the same number, in case the store has been emptied since."""

    def check(self) -> None:
        """Raise LockLostError if the lock is no longer held."""
        generations = _generations(self.files, self.name)
        newest = _read(self.files, self.name, max(generations)) if generations else b""
        record = _parsed(newest)
        if record.get("token") != self.token:
            now = f"taken over: {_described(record)}" if newest else "removed"
            raise LockLostError(
                f"{self.files.url}: the lock of this {self.name} was {now}. Stopping, so that the two "
                "do not overwrite each other's files"
            )


@contextmanager
def held(files: Files, name: str, purpose: str, say: Say = log.warning) -> Iterator[Lock]:
    """Hold the lock `name` within the block; raise LockHeldError if another live process holds it.

    `purpose` tells others what is being done, such as "a training". Finding out whether a holder on another machine is
    alive takes up to a minute; `say` announces the wait.
    """
    record = {**_this_process(), "purpose": purpose, "token": secrets.token_hex(8), "beat": 0, "released": False}
    lock = Lock(files, name, _take(files, name, record, say), str(record["token"]))
    stopped = threading.Event()
    beating = threading.Thread(target=_beat, args=(lock, record, stopped), name=f"lock-{name}", daemon=True)
    beating.start()
    try:
        yield lock
    finally:
        stopped.set()
        if record["pid"] == os.getpid():  # else this is a fork, and its parent holds the lock
            beating.join()
            _release(lock, record)


def _take(files: Files, name: str, record: _Record, say: Say) -> int:
    """Take the lock and return the number of our generation."""
    while True:
        newest = max(_generations(files, name), default=0)
        content = _read(files, name, newest) if newest else b""
        holder = _parsed(content)
        if holder.get("token") == record["token"]:  # created, but the server's answer was lost
            return newest
        if newest and holder.get("released") is not True:
            _see_it_dead(files, name, newest, content, say)
        mine = newest + 1
        if not files.create(_path(name, mine), json.dumps(record).encode()):
            time.sleep(LOOK_SECONDS / 10)  # another process was faster, or it was us: see above
            continue
        if max(_generations(files, name), default=0) == mine:
            _clean(files, name, mine)
            return mine
        files.delete(_path(name, mine))  # we were so slow that this number had been used and cleaned up


def _see_it_dead(files: Files, name: str, generation: int, content: bytes, say: Say) -> None:
    """Return if the holder is dead or gone; raise LockHeldError if it is alive."""
    holder = _parsed(content)
    lives = _lives(holder)
    if lives is None:
        say(f"{files.url} is in use: {_described(holder)}; checking for up to a minute whether it is still alive")
        for _ in range(SILENT_LOOKS):
            time.sleep(LOOK_SECONDS)
            if _read(files, name, generation) != content:
                lives = True
                break
    if lives:
        now = _read(files, name, generation)
        if not now or _parsed(now).get("released") is True:
            return
        raise LockHeldError(
            f"{files.url} is in use: {_described(holder)}\n"
            "wait until it ends or stop it, then run the same command again"
        )
    say(f"{files.url} was in use by a process that has died: {_described(holder)}; taking over")


def _beat(lock: Lock, record: _Record, stopped: threading.Event) -> None:
    while not stopped.wait(BEAT_SECONDS):
        try:
            lock.check()
            record["beat"] += 1
            lock.files.write(_path(lock.name, lock.generation), json.dumps(record).encode())
        except LockLostError as error:  # a process that lost the lock must not recreate its file
            log.warning("%s", error)
            return
        except (CorpusgenError, OSError) as error:  # the server is away or the disk full: this may pass
            log.warning("%s: cannot renew the lock: %s", lock.files.url, error)


def _release(lock: Lock, record: _Record) -> None:
    try:
        lock.check()
        lock.files.write(_path(lock.name, lock.generation), json.dumps({**record, "released": True}).encode())
        _clean(lock.files, lock.name, lock.generation)
    except LockLostError:
        pass
    except (CorpusgenError, OSError) as error:  # others will see that we are dead
        log.warning("%s: cannot release the lock: %s", lock.files.url, error)


# ------------------------------------------------------------------------ files


def _path(name: str, generation: int) -> str:
    return f"locks/{name}/{generation:08}.json"


def _generations(files: Files, name: str) -> list[int]:
    stems = (info.path.rpartition("/")[2].removesuffix(".json") for info in files.list(f"locks/{name}"))
    return [int(stem) for stem in stems if stem.isdecimal()]


def _clean(files: Files, name: str, before: int) -> None:
    for generation in _generations(files, name):
        if generation < before:
            files.delete(_path(name, generation))


def _read(files: Files, name: str, generation: int) -> bytes:
    """Return the content of a generation; empty if another process has removed it."""
    try:
        return files.read(_path(name, generation))
    except FileNotFoundError:
        return b""


def _parsed(content: bytes) -> _Record:
    """Return the record in a generation; empty if it is damaged and its holder therefore unknown."""
    try:
        record = json.loads(content)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


# -------------------------------------------------------------------- processes


def _described(record: _Record) -> str:
    if not record:
        return "an unknown process (the lock file is damaged)"
    told = {key: record.get(key, "unknown") for key in ("purpose", "user", "host", "pid", "since", "command")}
    return "{purpose} by {user} on {host}, process {pid}, since {since} ({command})".format(**told)


def _this_process() -> _Record:
    pid, machine = os.getpid(), _machine()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # containers may run as a user without a name
        user = f"user {os.getuid()}"
    command = without_credentials(shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]))
    return {
        "user": user,
        "host": platform.node(),
        "machine": machine,
        "pid": pid,
        "started": None if machine is None else _started(pid),
        "since": datetime.now().astimezone().isoformat(" ", "seconds"),
        "command": command if len(command) <= _LONGEST_COMMAND else command[:_LONGEST_COMMAND] + "…",
    }


def _machine() -> list[str] | None:
    """Return what identifies the scope in which a process id names one process; None if it is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return [platform.node(), boot, os.readlink("/proc/self/ns/pid")]
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """Return when a process started, in ticks since boot; None for a zombie. Raise OSError if it is not visible."""
    state, *others = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return None if state in "ZX" else others[18]


def _lives(holder: _Record) -> bool | None:
    """Return whether the holder's process is alive; None if it is on another machine or not visible."""
    machine, pid = _machine(), holder.get("pid")
    if machine is None or holder.get("machine") != machine or not isinstance(pid, int) or pid < 1:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists, but belongs to another user
        pass
    except (OSError, OverflowError):
        return None
    try:
        return _started(pid) == holder.get("started")
    except OSError:  # some machines hide the processes of other users
        return None
