"""`corpusgen submit`: send the current folder to a Ray cluster, as a job that builds a corpus or trains a model there.

It needs only the HTTP address of the cluster's dashboard; no Ray runs on this machine. It sends the code and the
settings. Texts, models and results belong where all nodes reach them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from ray.exceptions import AuthenticationError
from ray.job_submission import JobSubmissionClient

from corpusgen.config.build import BuildConfig
from corpusgen.config.job import Job, find_job
from corpusgen.config.loading import load_settings
from corpusgen.engine.cluster import REFUSED
from corpusgen.errors import ConfigError, CorpusgenError

Say = Callable[[str], None]
BUILD = Job(BuildConfig, results=("store",), command=("corpusgen.cli", "build"))

# A folder that contains one of these is a virtual environment, a store or a run, whatever its name.
_STAYS_HERE = ("pyvenv.cfg", "corpus.json", "checkpoints/last.pt")
_LARGEST_REQUEST = 100 << 20  # a dashboard refuses more
_SECRET = re.compile(r"SECRET|TOKEN|PASSWORD|CREDENTIAL|_KEY", re.IGNORECASE)
_LOOK_AGAIN_SECONDS = 1.0
_GIVE_UP_SECONDS = 300.0  # a dashboard silent for this long will not answer; the job continues

log = logging.getLogger(__name__)


def submit(
    config: str,
    address: str,
    *,
    train: bool = False,
    overrides: Sequence[str] = (),
    env: Sequence[str] = (),
    wait: bool = True,
    say: Say = print,
) -> int:
    """Submit a build or a training and follow it to its end; return the exit code, 0 only if the job succeeded.

    A job that is submitted again continues where the last one stopped. Ctrl-C stops it.
    """
    config = os.path.relpath(config)
    kind = find_job("train") if train else BUILD
    _check_settings(config, overrides, kind)
    variables = environment(env)
    files = files_to_send(Path.cwd())
    if Path(config) not in files:
        raise ConfigError(
            f"{config}: cannot be sent with the job; it must be in this folder, not hidden and not ignored by git"
        )
    _check_size(files)
    with _explained(address):
        client = _connected(address)
        with tempfile.TemporaryDirectory() as folder:
            # Ray passes the package on to every node, where its name is its hash.
            working_dir = str(packed(files, Path(folder) / "project.zip"))
            job = client.submit_job(
                entrypoint=entrypoint(config, overrides, kind),
                runtime_env={"working_dir": working_dir, "env_vars": variables},
            )
        try:
            say(f"job {job}: {len(files):,} files sent to {address}")
            if not wait:
                say(f"to follow it: ray job logs --follow --address {address} {job}")
                return 0
            ended = asyncio.run(_followed(client, address, job))
        except KeyboardInterrupt:
            return _stopped(client, address, job, say)
    say(f"job {job}: {ended.status.value.lower()}")
    return exit_code(ended)


# -------------------------------------------------------------------- settings


def _check_settings(config: str, overrides: Sequence[str], job: Job) -> None:
    """Raise ConfigError if the settings are wrong, or would leave the results on a machine that goes away."""
    settings = load_settings(job.settings, config, overrides)
    for name in job.results:
        location = getattr(settings, name)
        if "://" not in location and not os.path.isabs(location):
            raise ConfigError(
                f"{name}: {location} would be inside the job's own folder, which is deleted with the job; "
                f"use --set {name}=s3://…, or the full path of a folder that all nodes share"
            )


def entrypoint(config: str, overrides: Sequence[str], job: Job) -> str:
    """Return the command that the cluster runs: the code that was sent, even where another version is installed."""
    settings = [word for override in overrides for word in ("--set", override)]
    return shlex.join(["python", "-m", *job.command, config, *settings])


def environment(names: Sequence[str]) -> dict[str, str]:
    """Return these variables with the values that they have here."""
    for name in names:
        if "=" in name:
            raise ConfigError(
                f"--env {name.partition('=')[0]}: give only the name; the value is taken from your environment"
            )
        if name not in os.environ:
            raise ConfigError(f"--env {name}: not set in your environment")
        if _SECRET.search(name):
            raise ConfigError(
                f"--env {name}: Ray logs the variables of a job, so they must not be secrets; give secrets "
                "to the nodes themselves, through a role, a Kubernetes secret or a file (docs/cluster.md)"
            )
    return {name: os.environ[name] for name in names}


# --------------------------------------------------------------------- package


def files_to_send(folder: Path) -> list[Path]:
    """Return the files of a folder, relative to it, without hidden and ignored files, environments, stores and runs."""
    wanted = _not_ignored(folder)
    found: list[Path] = []
    for walked, folders, names in os.walk(folder):
        here = Path(walked)
        for name in (name for name in folders if (here / name).is_symlink() and not name.startswith(".")):
            log.warning(
                "%s: a link to a folder, which is not sent; put what the job needs into this folder itself", here / name
            )
        folders[:] = sorted(name for name in folders if not _stays(here / name))
        found += [(here / name).relative_to(folder) for name in sorted(names) if not name.startswith(".")]
    return [path for path in found if wanted is None or path in wanted]


def _stays(folder: Path) -> bool:
    hidden = folder.name.startswith(".") or folder.name == "__pycache__"
    return hidden or any((folder / mark).exists() for mark in _STAYS_HERE)


def _not_ignored(folder: Path) -> set[Path] | None:
    """Return the files that git tracks or would add, by the rules of .gitignore; None outside a repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        if any((parent / ".git").exists() for parent in (folder, *folder.parents)):
            said = getattr(error, "stderr", None) or error  # ignored files may be secret
            raise ConfigError(f"{folder}: git cannot say which files are ignored: {said}") from error
        return None
    return {Path(name) for name in listed.split("\0") if name}


def _check_size(files: Sequence[Path]) -> None:
    for path in files:
        if not path.exists():
            raise ConfigError(f"{path}: a broken link; remove it, or add it to .gitignore")
    sizes = {path: path.stat().st_size for path in files}
    total = sum(sizes.values())
    if total > _LARGEST_REQUEST:
        largest = sorted(files, key=lambda path: -sizes[path])[:5]
        raise ConfigError(
            f"this folder has {total / 1e6:,.0f} MB to send, but a job takes at most {_LARGEST_REQUEST / 1e6:,.0f} MB; "
            "put texts and models where all nodes can reach them (docs/cluster.md). Add these to .gitignore:\n"
            + "\n".join(f"  {path}: {sizes[path] / 1e6:,.1f} MB" for path in largest)
        )


def packed(files: Sequence[Path], target: Path) -> Path:
    """Write a zip file; the same files give the same bytes, so that a node that has them fetches nothing."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as package:
        for path in files:
            entry = zipfile.ZipInfo.from_file(path, path.as_posix())
            entry.date_time = (1980, 1, 1, 0, 0, 0)
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, path.read_bytes())
    return target


# --------------------------------------------------------------------- cluster


def _connected(address: str) -> Any:
    """Return a client of the cluster's dashboard."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"--address {address}: expected the dashboard's address, for example http://127.0.0.1:8265")
    # Test the port first: Ray itself would try for minutes.
    port = parts.port or (443 if parts.scheme == "https" else 80)
    socket.create_connection((parts.hostname, port), timeout=10).close()
    for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS"):  # Ray prefers them to its argument
        os.environ.pop(name, None)
    for name in ("dashboard_sdk", "job.sdk"):
        logging.getLogger(f"ray.dashboard.modules.{name}").setLevel(logging.WARNING)
    return JobSubmissionClient(address)


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turn what Ray raises when it is unreachable, or refuses, into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise CorpusgenError(
            f"cannot reach a Ray dashboard at {address}: {error}\n"
            "check the address; a dashboard that listens only on its own machine needs a tunnel (docs/cluster.md)"
        ) from error
    except AuthenticationError as error:
        raise CorpusgenError(f"{address} {REFUSED}") from error
    except RuntimeError as error:  # an unexpected answer for Ray's client
        raise CorpusgenError(f"{address}: {error}") from error


async def _followed(client: Any, address: str, job: str) -> Any:
    """Print the job's log to its end and return its description; reconnect if the connection breaks."""
    shown = 0
    while True:
        received = 0
        try:
            async for text in client.tail_job_logs(job):  # each time from the beginning
                received += len(text)
                if received > shown:
                    sys.stdout.write(text[shown - received :])
                    sys.stdout.flush()
                    shown = received
        except (OSError, RuntimeError, aiohttp.ClientError) as error:
            log.warning("connection lost; the job is still running: %s", error)
        info = _info(client, address, job)
        if info.status.is_terminal():
            return info
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def _info(client: Any, address: str, job: str) -> Any:
    """Return the state of the job; ask again if the dashboard does not answer."""
    given_up = time.monotonic() + _GIVE_UP_SECONDS
    while True:
        try:
            return client.get_job_info(job)
        except AuthenticationError:
            raise
        except (OSError, RuntimeError) as error:
            if "status code 404" in str(error):
                raise CorpusgenError(
                    f"job {job}: {address} no longer knows it, so the head node must have been restarted; what the job "
                    "committed is safe: submit it again to resume"
                ) from error
            if time.monotonic() > given_up:
                raise CorpusgenError(
                    f"{address} has not answered for {_GIVE_UP_SECONDS / 60:.0f} minutes: {error}\nthe job may still "
                    f"be running; to follow it again: ray job logs --follow --address {address} {job}"
                ) from error
            time.sleep(_LOOK_AGAIN_SECONDS)


def _stopped(client: Any, address: str, job: str, say: Say) -> int:
    say(f"job {job}: stopping it; everything committed is safe")
    client.stop_job(job)
    while not _info(client, address, job).status.is_terminal():
        time.sleep(_LOOK_AGAIN_SECONDS)
    say(f"job {job}: stopped; submit it again to resume")
    return 130


def exit_code(job: Any) -> int:
    """Return the exit code of the job's own command, if it has one: 2 if its settings were wrong, for example."""
    if job.status.value == "SUCCEEDED":
        return 0
    return max(1, job.driver_exit_code or 1)
