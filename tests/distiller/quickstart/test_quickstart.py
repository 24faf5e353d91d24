"""The quickstart: what is missing is named; the whole of it runs, without any network, and again in seconds."""

import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corpusgen.errors import ConfigError
from distiller import quickstart as module
from tests.docs.blocks import PROJECT, blocks_of

PROGRAMS = Path(sys.executable).parent
COMMAND = [sys.executable, "-m", "corpusgen.cli", "quickstart", "--targets", "150"]


@pytest.mark.parametrize("absent", module._PACKAGES)
def test_each_package_that_is_missing_is_named_with_the_command_that_installs_it(absent, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == absent else find(name))
    with pytest.raises(ConfigError, match=rf"needs {module._PACKAGES[absent]}: pip install 'wicdistil\[quickstart\]'"):
        module.quickstart("nowhere", print)


def test_all_that_is_missing_is_named_at_once(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as error:
        module.quickstart("nowhere", print)
    assert "pip install 'wicdistil[quickstart]'" in str(error.value)
    assert all(package in str(error.value) for package in module._PACKAGES.values())


def test_a_folder_that_is_not_on_this_machine_is_refused_at_once(command):
    refused = command("quickstart", "--folder", "s3://bucket/quickstart")
    assert refused.code == 2
    assert "--folder s3://bucket/quickstart: the quickstart runs on this machine only" in refused.err


def test_no_cluster_is_joined(tmp_path, monkeypatch):
    """Not even the one that `RAY_ADDRESS` names; the build and the training use the Ray that is there."""
    asked = []

    class JoinedError(Exception): ...

    def ray_cluster(address=None):
        asked.append(address)
        raise JoinedError

    monkeypatch.setattr("corpusgen.engine.cluster.ray_cluster", ray_cluster)
    with pytest.raises(JoinedError):
        module.quickstart(str(tmp_path), print)
    assert asked == ["local"]


def test_next_steps_can_be_pasted_whether_the_environment_is_activated_or_not(monkeypatch):
    monkeypatch.setenv("PATH", str(PROGRAMS))
    assert "\n  corpusgen verify here/corpus" in module._next_steps("here", "here/run")
    monkeypatch.setenv("PATH", "/nowhere")
    steps = module._next_steps("my folder", "my folder/run").partition("Try next:")[2]
    commands = [shlex.split(line) for line in steps.strip().splitlines()]
    assert [Path(command[0]).parent for command in commands] == [PROGRAMS] * 4
    assert [command[2] for command in commands] == ["my folder/run"] * 2 + ["my folder/corpus"] * 2


@pytest.mark.parametrize("new_enough", [["python3.12", "python3"], ["python3"]])
def test_make_takes_the_first_python_that_is_new_enough(new_enough, tmp_path):
    for name in ("python3.11", "python3.12", "python3"):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {int(name not in new_enough)}\n")
        (tmp_path / name).chmod(0o755)
    command = [shutil.which("make"), "--no-print-directory", "--eval", "show:;@: $(info $(PYTHON))", "show"]
    shown = subprocess.check_output(command, cwd=PROJECT, env={"PATH": str(tmp_path)}, text=True)
    assert shown.strip() == new_enough[0]


def test_make_says_which_python_it_needs_and_leaves_nothing_behind(tmp_path):
    for name in ("Makefile", "pyproject.toml", ".ci/constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / name)
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    refused = subprocess.run(["make", f"PYTHON={old}", "setup"], cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "wicdistil needs Python 3.11 or newer" in refused.stdout
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("folder", ["here", "a, b: [c] #d", "123"])
def test_folders_may_have_any_name(folder):
    build, training = module.settings(folder, 70)
    assert (build.store, training.corpus, training.output) == (f"{folder}/corpus", f"{folder}/corpus", f"{folder}/run")
    assert build.sample.size == 70
    assert build.sample.sentences_per_word == 4  # a word must be seen in several contexts


def without_network(command, log):
    """The command on a host of its own that has nothing but its loopback.

    Where there is strace, the log gets all connections that it tries. The host knows the name of its own address as
    PyTorch's workers see it: they would ask others for it, though they only want to show it in messages.
    """
    tools = shutil.which("unshare") and shutil.which("ip")
    if not tools or subprocess.run(["unshare", "-n", "-m", "true"], capture_output=True).returncode:
        pytest.skip("a host without a network needs unshare, ip and the right to use them")
    traced = ["strace", "-D", "-f", "--seccomp-bpf", "-e", "trace=connect", "-o", str(log)]
    if not shutil.which("strace") or subprocess.run([*traced, "true"], capture_output=True).returncode:
        traced = []
    hosts = log.with_name("hosts")
    hosts.write_text(Path("/etc/hosts").read_text() + "\n::ffff:127.0.0.1 localhost\n")
    alone = f'mount --bind {shlex.quote(str(hosts))} /etc/hosts && ip link set lo up && exec "$@"'
    return ["unshare", "-n", "-m", "sh", "-c", alone, "sh", *traced, *command]


def connections_elsewhere(log):
    """Those that were tried, but for one question: Ray's dashboard asks whether it is in a cloud, and in which."""
    tried = re.findall(r"^(\d+) connect\(.*?sa_family=(AF_INET6?),(.*)", log.read_text(), re.M) if log.exists() else []
    cloud = '"169.254.169.254"'
    asking = {process for process, _, address in tried if cloud in address}
    return [
        address
        for process, _, address in tried
        if not re.search(r'"(127\.|::1"|::ffff:127\.)', address)
        and not (process in asking and (cloud in address or "htons(53)" in address))  # 53: where is Google's cloud?
    ]


@pytest.mark.slow
def test_everything_runs_without_a_network_is_resumed_and_then_done(tmp_path):
    inactive = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != PROGRAMS)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": inactive}
    said, log, folder = tmp_path / "said", tmp_path / "connections", tmp_path / "quickstart"

    def start(command):
        with said.open("w") as out:
            return subprocess.Popen(
                command,
                cwd=tmp_path,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
            )

    def run(command):
        assert start(command).wait() == 0, said.read_text()
        return said.read_text()

    moments = {
        "generating": lambda: any(folder.glob("corpus/generate/commits/*")),
        "training": lambda: (folder / "run/checkpoints/last.pt").exists(),
        "evaluating": lambda: "3. What the vectors know" in said.read_text(),
    }
    for moment, has_come in moments.items():
        process = start(without_network(COMMAND, log))
        while process.poll() is None and not has_come():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130, f"{moment}: {said.read_text()}"
        assert "Traceback" not in said.read_text()
        assert connections_elsewhere(log) == []

    printed = run(without_network(COMMAND, log))
    told = ("funnel", "Some triples, drawn at random", "Some pairs, drawn at random", "usages", "cosines of *bank*")
    for expected in (*told, "distiller similarity", "quickstart/run/report.html"):
        assert expected in printed
    assert re.search(r"Meaning vectors\s+are\s", printed)  # one sentence that says what came of it
    assert connections_elsewhere(log) == []
    assert (folder / "evaluation.html").exists()
    assert "usages" in (folder / "run" / "report.html").read_text()

    run(["bash", "-ec", printed.partition("Try next:")[2]])
    environment["PATH"] = os.pathsep.join([str(PROGRAMS), inactive])
    explained = blocks_of(PROJECT / "docs/quickstart.md")
    for block in (block for block in explained if block.marked("not run") == "needs what the quickstart made"):
        run(["bash", "-ec", block.text])
    assert "already trained" in run(COMMAND)
