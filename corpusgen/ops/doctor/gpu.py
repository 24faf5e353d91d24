"""A check of the GPU memory that a worker takes against what the GPU has."""

from __future__ import annotations

from collections.abc import Sequence

from corpusgen.config.run import Resources
from corpusgen.models.gpu_memory import GpuNeed
from corpusgen.ops.doctor.findings import Finding, amount
from corpusgen.ops.doctor.machine import Gpu

_CUDA = 0.5e9  # taken by CUDA itself


def gpu_memory(stage: str, need: GpuNeed, request: Resources, gpus: Sequence[Gpu]) -> Finding:
    """Compare the need of a worker with the smallest GPU that it may get, or with its share of one."""
    what = f"GPU memory of {stage}"
    needed = f"about {amount(need.weights + _CUDA)} and {amount(need.batch)} for a batch of {need.tokens:,} tokens"
    if not gpus:
        return Finding("grey", what, f"{needed}; no GPU found to compare with")
    share = min(1.0, request.gpus)
    smallest = min(gpus, key=lambda gpu: gpu.free)
    room = smallest.free * share
    finding = f"{needed}; {amount(room)} free for a worker on {smallest.name}"
    if need.weights + _CUDA > room:
        remedy = f"use a larger GPU, a smaller model, or a whole GPU per worker: run.workers.{stage}.gpus=1"
        return Finding("red", what, finding, remedy)
    if need.weights + need.batch + _CUDA > room:
        fitting = int(need.tokens * (room - need.weights - _CUDA) / need.batch)
        return Finding(
            "yellow", what, finding, f"batches would have to be split repeatedly: set {need.setting} to {fitting:,}"
        )
    return Finding("green", what, finding)
