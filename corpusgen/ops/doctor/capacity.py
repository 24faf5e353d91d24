"""Checks of what stages ask for against this machine or the nodes of a cluster, each examined by its own task."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from corpusgen.config.build import BuildConfig
from corpusgen.config.run import Resources
from corpusgen.engine.cluster import lacking, may_grow, this_machine
from corpusgen.engine.stage import Stage, models_used
from corpusgen.ops.doctor import gpu
from corpusgen.ops.doctor.findings import Finding, amount
from corpusgen.ops.doctor.machine import Machine, look_around

Requests = Sequence[tuple[Stage, Resources]]
"""Stages, and the resources that a worker of each asks for."""

_NODE_SECONDS = 60.0
_SKEW_SECONDS = 60.0


@dataclass(frozen=True)
class Node:
    """A machine that may run workers, and what it offers them by Ray's resource names."""

    name: str
    offers: Mapping[str, float]
    machine: Machine | None
    """None if the machine was not examined."""
    problem: str = ""
    ahead: float = 0.0
    """Seconds by which its clock is ahead of ours."""


def this_node(machine: Machine | None = None) -> Node:
    """Return this machine as the only node of a Ray that is started here."""
    return Node("this machine", this_machine(), machine)


def cluster_nodes(paths: Sequence[str]) -> list[Node]:
    """Return the nodes of the cluster that this process is connected to, examined all at once."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    # A separate process, which ends: one that has used a GPU would keep some of its memory.
    look = ray.remote(num_cpus=0, max_calls=1, max_retries=0)(look_around)
    started = time.time()
    calls = []
    for node in alive:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        calls.append(look.options(scheduling_strategy=there).remote(list(paths), on_a_node=True))
    ray.wait(calls, num_returns=len(calls), timeout=_NODE_SECONDS)
    return [_node(node, call, started) for node, call in zip(alive, calls, strict=True)]


def _node(node: Mapping[str, object], call: ray.ObjectRef, started: float) -> Node:
    name, offers = str(node["NodeManagerHostname"]), node["Resources"]
    assert isinstance(offers, Mapping)
    try:
        machine: Machine = ray.get(call, timeout=0)
    except RayError as error:
        return Node(name, offers, None, str(error).strip().splitlines()[-1])
    ahead = min(0.0, machine.clock - started) + max(0.0, machine.clock - time.time())
    return Node(name, offers, machine, ahead=ahead)


def cluster_lines(nodes: Sequence[Node], here: Machine) -> Iterator[Finding]:
    """Describe the cluster, and report where it differs from this machine."""
    totals = {name: sum(node.offers.get(name, 0) for node in nodes) for name in ("CPU", "GPU", "memory")}
    finding = f"{len(nodes)} nodes, {totals['CPU']:g} CPUs, {totals['GPU']:g} GPUs, {amount(totals['memory'])}"
    yield Finding("green", "cluster", finding + ("; more may be added" if may_grow() else ""))
    for node in nodes:
        what = f"node {node.name}"
        if node.machine is None:
            remedy = "install the same version of the project on every node"
            yield Finding("red", what, f"a task there fails: {node.problem}", remedy)
            continue
        others = [
            f"{name} {version}, here {here.versions[name]}"
            for name, version in node.machine.versions.items()
            if version != here.versions[name]
        ]
        if others:
            yield Finding("yellow", what, f"other versions: {'; '.join(others)}", "install the same everywhere")
        if abs(node.ahead) > _SKEW_SECONDS:
            finding = f"its clock differs from this machine's by {node.ahead:+,.0f} s"
            yield Finding(
                "yellow",
                what,
                finding,
                "synchronise the clocks with NTP: object stores refuse requests that are 15 minutes off",
            )


def schedulable(requests: Requests, nodes: Sequence[Node], growing: bool) -> Iterator[Finding]:
    """Report stages whose workers fit on no node; if nodes may be added, this may pass."""
    found = False
    for stage, request in requests:
        asked = lacking(request, [node.offers for node in nodes])
        if asked is None:
            continue
        found = True
        remedy = f"request less in run.workers.{stage.name}, or add such a node"
        if growing:
            finding = f"no node has {asked} now; it will wait until one is added"
            yield Finding(
                "yellow",
                f"stage {stage.name}",
                finding,
                f"make sure that the autoscaler can add such nodes, or {remedy}",
            )
        else:
            finding = f"can never be scheduled: no node has {asked}"
            yield Finding("red", f"stage {stage.name}", finding, remedy)
    if not found:
        yield Finding("green", "stages", f"room for a worker of each of the {len(requests)} stages")


def devices(requests: Requests) -> Iterator[Finding]:
    """Report models that are set to run on a GPU, or as only a GPU can, in workers that see none."""
    for stage, request in requests:
        if (reason := stage.gpu_only()) and not request.gpus:
            finding = f"{reason.because}, but its workers do not request a GPU, so they cannot use one"
            yield Finding(
                "red", f"stage {stage.name}", finding, f"set run.workers.{stage.name}.gpus=1, or {reason.instead}"
            )


def idle_gpus(config: BuildConfig, requests: Requests, nodes: Sequence[Node]) -> Iterator[Finding]:
    """Report GPUs that no stage asks for."""
    able = [(stage, request) for stage, request in requests if stage.can_use_gpu]
    asked = any(request.gpus for _, request in able)
    if able and not asked and config.generate.device == "auto" and any(node.offers.get("GPU") for node in nodes):
        remedy = " and ".join(f"run.workers.{stage.name}.gpus=1" for stage, _ in able)
        yield Finding("yellow", "GPU", "there is one, but no stage requests it: models run on CPUs", f"set {remedy}")


def models_on_nodes(requests: Requests, nodes: Sequence[Node]) -> Iterator[Finding]:
    """Check the files of models on the nodes that have room for the stages that load them."""
    for model in models_used(stage for stage, _ in requests):
        users = [request for stage, request in requests if model in stage.uses()]
        roomy = [node for node in nodes if any(lacking(request, [node.offers]) is None for request in users)]
        without = [node.name for node in roomy if node.machine and model.path in node.machine.absent]
        if without:
            remedy = "copy it there under the same path, or to a disk that all nodes share"
            yield Finding("red", model.role, f"{model.path} is missing on {', '.join(without)}", remedy)
        elif roomy and model.path is not None:
            yield Finding("green", model.role, f"{model.path} is on all {len(roomy)} nodes that may need it")


def memory_of_gpus(config: BuildConfig, requests: Requests, nodes: Sequence[Node]) -> Iterator[Finding]:
    """Compare the GPU memory that workers need with what the GPUs have; raise StageError if a model cannot be read."""
    for stage, request in requests:
        if request.gpus and (need := stage.gpu_need(config.filters.min_words or 1)):
            machines = [node.machine for node in nodes if node.machine and lacking(request, [node.offers]) is None]
            yield gpu.gpu_memory(stage.name, need, request, [one for machine in machines for one in machine.gpus])
