"""Machines against what stages ask for."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpusgen.corpus.build import stages_of
from corpusgen.engine import Resources
from corpusgen.engine.cluster import lacking, this_machine
from corpusgen.ops.doctor import capacity
from corpusgen.ops.doctor.capacity import Node
from corpusgen.ops.doctor.machine import look_around
from corpusgen.store import Store

amounts = st.integers(0, 8)
offers = st.fixed_dictionaries({"CPU": amounts}, optional={"GPU": amounts, "memory": amounts})


@given(st.builds(Resources, cpus=amounts, gpus=amounts, memory=amounts), st.lists(offers))
def test_a_worker_has_room_where_one_node_has_all_that_it_asks_for(request, nodes):
    def fits(node):
        return (
            node["CPU"] >= request.cpus
            and node.get("GPU", 0) >= request.gpus
            and node.get("memory", 0) >= request.memory
        )

    assert (lacking(request, nodes) is None) == any(map(fits, nodes))


def test_what_no_node_has_is_named():
    nodes = [{"CPU": 64.0, "memory": 1e9}, {"CPU": 4.0, "GPU": 1.0, "memory": 1e9}]
    assert lacking(Resources(cpus=8, gpus=1), nodes) == "8 CPUs, 1 GPUs"
    assert lacking(Resources(memory=64_000_000_000), nodes) == "1 CPUs, 64.0 GB of memory"


def test_this_machine_has_what_the_stages_ask_for_by_themselves():
    assert lacking(Resources(), [this_machine()]) is None
    assert lacking(Resources(memory=1 << 60), [this_machine()])


def named(name):
    return SimpleNamespace(name=name, can_use_gpu=name == "mask")


def node(**offered):
    return Node("a", offered, None)


def test_what_can_never_be_scheduled_is_red_and_what_may_come_yellow():
    requests = [(named("segment"), Resources()), (named("mask"), Resources(gpus=1))]
    nodes = [node(CPU=4.0, memory=1e9)]
    (line,) = capacity.schedulable(requests, nodes, growing=False)
    assert (line.status, line.what) == ("red", "stage mask")
    assert "run.workers.mask" in line.remedy
    (line,) = capacity.schedulable(requests, nodes, growing=True)
    assert line.status == "yellow"
    (line,) = capacity.schedulable(requests[:1], nodes, growing=False)
    assert line.status == "green"


@pytest.mark.parametrize(
    ("device", "dtype", "gpus", "red"),
    [
        ("cuda", "auto", 0, True),
        ("cuda", "auto", 1, False),
        ("auto", "auto", 0, False),
        ("auto", "bfloat16", 0, True),
        ("auto", "bfloat16", 0.5, False),
    ],
)
def test_models_for_a_gpu_whose_workers_ask_for_none_are_red(config, made, device, dtype, gpus, red):
    settings = config(
        generate={"device": device, "positives": "substitution"},
        masked={"model": str(made / "masked"), "dtype": dtype},
    )
    stages = {stage.name: stage for stage in stages_of(settings, Store.at(settings.store))}
    lines = list(capacity.devices([(stages["segment"], Resources()), (stages["mask"], Resources(gpus=gpus))]))
    assert [line.status for line in lines] == ["red"] * red


def test_a_gpu_that_nobody_asks_for_is_mentioned(config):
    nodes = [node(CPU=4.0, GPU=1.0)]
    (line,) = capacity.idle_gpus(config(), [(named("mask"), Resources())], nodes)
    assert line.status == "yellow"
    assert "run.workers.mask.gpus=1" in line.remedy
    assert list(capacity.idle_gpus(config(), [(named("mask"), Resources(gpus=1))], nodes)) == []
    assert list(capacity.idle_gpus(config(), [(named("mask"), Resources())], [node(CPU=4.0)])) == []


def test_the_words_of_a_matrix_are_looked_for_on_the_nodes_too(config, tmp_path):
    words = tmp_path / "words.txt"
    settings = config(vectors={"path": str(tmp_path / "matrix.npy"), "words": str(words)})
    requests = [(stage, Resources()) for stage in stages_of(settings, Store.at(settings.store))]
    machine = look_around([str(words)])
    (lacks,) = [
        line for line in capacity.models_on_nodes(requests, [capacity.this_node(machine)]) if line.status == "red"
    ]
    assert (lacks.what, lacks.finding) == ("vectors.words", f"{words} is missing on this machine")
