"""The command line as a user meets it: real processes, exit codes, messages."""

import json
import os
import subprocess
import sys

import pytest

from corpusgen.store import CommittedTable
from tests.testing import PROJECT


def corpusgen(*arguments, cwd=PROJECT):
    command = [sys.executable, "-m", "corpusgen.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


SENTENCE = "The {} took some of the old bank away and laid it down again where the willows grow today."
WORDS = ("river", "water", "stream", "flood", "wind")


@pytest.fixture
def config(tmp_path):
    lines = [SENTENCE.format(WORDS[number % 5]) for number in range(50)]
    (tmp_path / "text.txt").write_bytes(
        "\n".join(["Too short.", *lines, ""]).encode() + b"bad \xff\n" + lines[0].encode()
    )
    path = tmp_path / "build.yaml"
    path.write_text(
        f"store: {tmp_path}/store\nsource:\n  kind: text\n  paths: ['{tmp_path}/*.txt']\n  unit_bytes: 400\n"
        "language:\n  identify: false\nsample:\n  size: 10\n  vocabulary: 30\n"
    )
    return path


def test_build_status_verify_gc(config, tmp_path):
    built = corpusgen("build", config, "--executor", "local")
    assert built.returncode == 0, built.stderr
    assert "harvest: 13 of 13 units, 51 sentences" in built.stdout
    assert "1 rejected: too short" in built.stdout
    root = tmp_path / "store"
    texts = CommittedTable(str(root), "harvest", "sentences").to_table()["text"].to_pylist()
    assert texts == [SENTENCE.format(WORDS[number % 5]) for number in (*range(50), 0)]
    targets = CommittedTable(str(root), "sample", "targets").to_table().to_pylist()
    assert len({target["id"] for target in targets}) == len(targets) == 10
    for target in targets:
        assert target["text"][target["target_start"] : target["target_end"]] == target["target"]

    status = corpusgen("status", root)
    assert "quarantined by read: not UTF-8" in status.stdout
    assert json.loads(corpusgen("status", root, "--json").stdout)["harvest"]["quarantined"] == 1

    assert corpusgen("status", root, "--watch").returncode == 0  # all is done: nothing to wait for

    assert corpusgen("verify", root).stdout.endswith("ok\n")
    assert "removed 0 files" in corpusgen("gc", root).stdout

    again = corpusgen("build", config, "--executor", "local")
    assert again.returncode == 0
    refused = corpusgen("build", config, "--executor", "local", "--set", "seed=1")
    assert refused.returncode == 1
    assert "settings.seed: 0 in the store, 1 now" in refused.stderr


def test_the_default_executor_starts_ray_and_leaves_the_same_store(config, tmp_path):
    assert corpusgen("build", config, "--executor", "local").returncode == 0
    built = corpusgen("build", config, "--set", f"store={tmp_path}/ray")
    assert built.returncode == 0, built.stderr
    for name in ("harvest", "vocabulary", "candidates", "selection", "sample"):
        parts = [sorted(p.name for p in (tmp_path / root / name / "parts").iterdir()) for root in ("store", "ray")]
        assert parts[0] == parts[1]


def test_a_damaged_store_is_found_named_and_repaired(config, tmp_path):
    corpusgen("build", config, "--executor", "local")
    part = sorted((tmp_path / "store/harvest/parts").iterdir())[0]
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    verified = corpusgen("verify", tmp_path / "store")
    assert verified.returncode == 1
    assert f"{part.name} is damaged" in verified.stdout
    repaired = corpusgen("verify", tmp_path / "store", "--repair")
    assert "removed 1 commits and plans; run the build again" in repaired.stdout
    assert corpusgen("build", config, "--executor", "local").returncode == 0
    assert corpusgen("verify", tmp_path / "store").returncode == 0


def test_a_build_can_stop_after_a_pass_and_go_on(config, tmp_path):
    stopped = corpusgen("build", config, "--executor", "local", "--until", "harvest")
    assert stopped.returncode == 0
    assert not (tmp_path / "store/vocabulary").exists()
    assert corpusgen("build", config, "--executor", "local", "--until", "sample").returncode == 0
    assert (tmp_path / "store/sample/commits").exists()


def test_input_that_changed_since_the_plan_is_refused(config, tmp_path):
    corpusgen("build", config, "--executor", "local")
    (tmp_path / "text.txt").write_text("something else\n")
    refused = corpusgen("build", config, "--executor", "local")
    assert refused.returncode == 1
    assert "was planned for different input" in refused.stderr
    assert "text.txt" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["build", "missing.yaml"], 2, "no such file"),
        (["build", "configs/quickstart.yaml", "--set", "stor=x"], 2, "stor: unknown key; did you mean 'store'?"),
        (["build", "configs/quickstart.yaml", "--until", "nowhere"], 1, "no such pass"),
        (
            ["build", "configs/quickstart.yaml", "--set", "source.paths=[nothing.txt]", "--set", "store={tmp}"],
            2,
            "nothing.txt: no such file",
        ),
        (["status", "no/such/store"], 1, "no corpus here"),
        (["verify", "no/such/store"], 1, "no corpus here"),
        (["status", "ftp://x/y"], 1, "only local folders and s3:// are supported"),
        (["build", "configs/quickstart.yaml", "--address", "127.0.0.1:1", "--set", "store={tmp}"], 1, "cannot connect"),
    ],
)
def test_a_mistake_is_one_message_without_a_traceback(tmp_path, arguments, code, message):
    result = corpusgen(*(argument.format(tmp=tmp_path / "store") for argument in arguments))
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_show_config_prints_all_settings_and_touches_nothing(config, tmp_path):
    shown = corpusgen("build", config, "--show-config", "--set", "seed=5")
    assert shown.returncode == 0
    assert "seed: 5" in shown.stdout
    assert "max_bytes_in_flight" in shown.stdout
    assert not (tmp_path / "store").exists()


def test_libraries_report_to_nobody_unless_told_to():
    code = "import os, distiller; print(os.environ['RAY_USAGE_STATS_ENABLED'], os.environ['HF_HUB_DISABLE_TELEMETRY'])"
    for given, expected in (({}, "0 1"), ({"RAY_USAGE_STATS_ENABLED": "1"}, "1 1")):
        environment = {key: value for key, value in os.environ.items() if "USAGE" not in key and "TELEMETRY" not in key}
        printed = subprocess.run(
            [sys.executable, "-c", code], env=environment | given, capture_output=True, text=True, check=True
        ).stdout
        assert printed.strip() == expected
