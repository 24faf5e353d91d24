"""`corpusgen doctor`, and what a build refuses before it begins."""

import json
import socket
import time

import pytest
import ray
import yaml
from ray.cluster_utils import Cluster

from corpusgen.engine.ray_compat import autoscaling_status
from corpusgen.errors import ConfigError, StageError
from corpusgen.ops.doctor.before_build import before_build
from corpusgen.ops.doctor.examine import examine
from corpusgen.ops.doctor.source_and_store import estimated_bytes
from corpusgen.sources.locate import find_files
from tests.testing import pair_builds


@pytest.fixture
def file(config, tmp_path):
    """The settings as a file, changed by keywords."""

    def written(**others):
        path = tmp_path / "build.yaml"
        path.write_text(yaml.safe_dump(config(**others).model_dump(mode="json")))
        return path

    return written


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def test_without_settings_the_machine_is_shown(command):
    ended = command("doctor")
    assert ended.code == 0, ended.out
    assert "cores" in ended.out
    assert "extra s3" in ended.out
    assert "grey   cluster" in ended.out
    assert "\x1b" not in ended.out, "no colours in a pipe"


def test_all_is_well_with_a_build_that_has_all_it_needs(command, file, tmp_path):
    ended = command("doctor", file(), "--json")
    found = json.loads(ended.out)
    assert ended.code == 0, found
    assert found["ok"]
    assert found["red"] == 0
    assert len(found["lines"]) == sum(found[status] for status in ("green", "yellow", "red", "grey"))
    looked_at = {line["what"] for line in found["lines"]}
    assert {"versions", "source.paths", "store", "clock", "room for the store", "masked", "vectors"} <= looked_at
    assert {"words of one piece", "stages", "corpus", "stage segment"} <= looked_at
    assert not (tmp_path / "store").exists()


def test_what_is_red_ends_with_1_and_every_remedy_is_said(command, file):
    path = file(vectors={"path": "no.bin"}, run={"workers": {"mask": {"gpus": 64}}})
    ended = command("doctor", path)
    assert ended.code == 1
    assert "red    vectors" in ended.out
    assert "red    stage mask" in ended.out
    found = json.loads(command("doctor", path, "--json").out)
    assert not found["ok"]
    assert all(line["remedy"] for line in found["lines"] if line["status"] == "red")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["seed=many"], "seed: input should be a valid integer"),
        (["generate.device=cpu", "masked.dtype=bfloat16"], "masked.dtype: bfloat16 is many times slower"),
    ],
)
def test_settings_that_are_wrong_end_as_everywhere_with_2(command, file, overrides, message):
    ended = command("doctor", file(), *(word for one in overrides for word in ("--set", one)))
    assert ended.code == 2
    assert message in ended.err


def test_settings_that_do_not_fit_together_are_red(command, file):
    ended = command("doctor", file(vectors=None))
    assert ended.code == 1
    assert "vectors: missing; to make triples" in ended.out


@pytest.mark.parametrize("store", ["ftp://somewhere/else", "s3://"])
def test_a_location_that_is_none_is_red_and_not_the_end_of_the_output(command, file, store):
    ended = command("doctor", file(store=store), "--json")
    assert ended.code == 1
    assert any(line["status"] == "red" and store in line["finding"] for line in json.loads(ended.out)["lines"])


def test_changes_without_settings_are_refused(command):
    assert command("doctor", "--set", "seed=1").code == 2


def test_a_cluster_that_does_not_answer_is_red(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    ended = command("doctor", "--address", address)
    assert ended.code == 1
    assert f"cannot connect to Ray at {address}" in ended.out


# ------------------------------------------------------------------------------------------------------- building


def test_a_build_refuses_what_would_end_it_hours_later(command, file, tmp_path):
    path = file(vectors={"path": "no.bin"}, masked={"model": "/no/model"})
    ended = command("build", path, "--executor", "local")
    assert ended.code == 2
    assert "vectors: no.bin is not on this machine" in ended.err
    assert "masked: /no/model is not on this machine" in ended.err
    assert not (tmp_path / "store").exists()
    ended = command("build", path, "--executor", "local", "--until", "sample")
    assert ended.code == 0, "what is not needed yet need not be there"


def test_a_build_on_a_ray_of_its_own_refuses_stages_that_it_can_never_run(config):
    settings = config(run={"workers": {"mask": {"gpus": 64}}})
    with pytest.raises(ConfigError, match="stage mask: can never be scheduled: no node has 1 CPUs, 64 GPUs"):
        before_build(settings, None, on_ray=True, here=True)
    before_build(settings, "sample", on_ray=True, here=True)
    before_build(settings, None, on_ray=True, here=False)
    before_build(settings, None, on_ray=False, here=True)


def test_a_build_whose_workers_are_elsewhere_does_not_ask_for_models_here(config):
    before_build(config(vectors={"path": "no.bin"}), None, on_ray=True, here=False)


def test_a_gpu_that_this_process_does_not_have_is_missed_at_once(config, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    settings = config(generate={"device": "cuda", "positives": "substitution"})
    with pytest.raises(StageError, match="torch finds no GPU on this machine"):
        before_build(settings, None, on_ray=False, here=True)
    with pytest.raises(ConfigError, match=r"its workers do not request a GPU.*run\.workers\.mask\.gpus=1"):
        before_build(settings, None, on_ray=True, here=False)


# -------------------------------------------------------------------------------------------------------- cluster


def wait_for_autoscaler(address):
    """Wait for its first report, some seconds after the start: before, nobody knows whether nodes may still come."""
    ray.init(address, log_to_driver=False)
    try:
        deadline = time.monotonic() + 60
        while '"node_type_mapping": {"' not in (autoscaling_status() or ""):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_the_nodes_of_a_cluster_are_looked_at(config):
    settings = config(
        vectors={"path": "/no/vectors.vec"},
        run={"workers": {"mask": {"gpus": 1}, "segment": {"memory": 10**15}}},
    )
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=3, num_gpus=1)
        wait_for_autoscaler(cluster.address)
        lines = list(examine(settings, cluster.address))
    finally:
        cluster.shutdown()
    assert any(line.what == "cluster" and "2 nodes, 3 CPUs, 1 GPUs" in line.finding for line in lines)
    assert not [line for line in lines if line.what.startswith("node ")], "the same versions and clock"
    red = {line.what: line.finding for line in lines if line.status == "red"}
    assert "can never be scheduled: no node has 1 CPUs, 1,000,000.0 GB" in red.pop("stage segment")
    assert "/no/vectors.vec is missing on " in red.pop("vectors")
    assert red == {}
    assert any(line.what == "masked" and "on all 1 nodes" in line.finding for line in lines)
    assert any(line.status == "grey" and line.what == "GPU memory of mask" for line in lines)
    assert not ray.is_initialized()


def test_a_build_of_pairs_needs_no_models_and_that_is_said(command, tmp_path):
    path = tmp_path / "build.yaml"
    path.write_text(yaml.safe_dump(pair_builds.config(tmp_path).model_dump(mode="json")))
    ended = command("doctor", path, "--json")
    found = {line["what"]: line for line in json.loads(ended.out)["lines"]}
    assert ended.code == 0, found
    assert found["models"]["finding"].startswith("none: the stages of this build only need models")
    assert "complete for harvest, vocabulary, repeats, pairing, fetch, pairs" in found["settings"]["finding"]
    assert {"masked", "vectors", "words of one piece"}.isdisjoint(found)
    assert command("doctor", path, "--set", "discourse.document_bytes=100").code == 1


def test_the_models_of_triples_are_compared_in_a_build_of_both(command, file):
    found = json.loads(command("doctor", file(recipe="words+discourse"), "--json").out)
    assert "words of one piece" in {line["what"] for line in found["lines"]}


def test_room_is_needed_for_pairs_too(tmp_path):
    (tmp_path / "text.txt").write_text("A sentence of some length, which is repeated many times.\n" * 20_000)
    files = find_files([str(tmp_path / "text.txt")])
    sizes = [estimated_bytes(pair_builds.config(tmp_path, discourse={"size": size}), files) for size in (1000, 2000)]
    assert 200_000 < sizes[1] - sizes[0] < 600_000  # 215 bytes for a pair, the rest for its sentences and its choice
    both = estimated_bytes(pair_builds.config(tmp_path, recipe="words+discourse"), files)
    assert both > estimated_bytes(pair_builds.config(tmp_path), files)
