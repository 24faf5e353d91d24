"""Builds that are killed and resumed, and what stores hold afterwards."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from corpusgen.config.build import BuildConfig
from corpusgen.store import Store
from tests.testing import PROJECT


def build_killed_and_resumed(config: BuildConfig, during: str, settings: Path) -> Store:
    """Kill a build as soon as the pass `during` commits, then run the same command to its end.

    The settings are written to the file `settings`, which both runs read. Returns the store.
    """
    settings.write_text(config.to_yaml())
    command = [sys.executable, "-m", "corpusgen.cli", "build", str(settings), "--executor", "local"]
    killed = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not Path(config.store, during, "commits").exists() and killed.poll() is None:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    return Store.at(config.store)


def committed_files(store: Store) -> dict[str, str]:
    """Every committed file of every pass with its hash."""
    commits = (commit for pass_store in store.passes() for commit in pass_store.commits())
    return {part.path: part.sha256 for commit in commits for part in commit.files()}
